"""What a device can do: its limits, its features and what kind of machine it is. Lowering and verification read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A WebGPU device as lowering sees it. The defaults are the limits that every WebGPU device has."""

    name: str = "webgpu"
    software: bool = False
    f16: bool = False
    timestamps: bool = False
    storage_buffers: int = 8
    binding_bytes: int = 128 << 20
    buffer_bytes: int = 256 << 20
    workgroups: int = 65535
    workgroup_size: int = 256
    workgroup_bytes: int = 16384
    offset_align: int = 256
    packed: bool = False  # constants of 8 or 16 bits stay so in memory, several to a word
    half_weights: bool = False  # float32 weights may be rounded to float16 in storage
    gflops: float = 0.0  # measured peak, 0 when unknown
    dft_tolerance: float | None = None  # how far a weight may be from a DFT basis; None: rounding of its dtype
    peak_seconds: float = 0.5  # a dispatch predicted to take longer is split

    @property
    def loops(self) -> int:
        """Iterations that an invocation may make in all its loops together: llvmpipe leaves them after 65,535."""
        return 60000 if self.software else 1 << 30


DEFAULT = Target()
SOFTWARE = Target(name="software", software=True)
