"""Kernels: index maps, lazy tensors, and the writer that puts a header in front of a WGSL body."""
