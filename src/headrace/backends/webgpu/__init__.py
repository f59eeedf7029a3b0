"""WebGPU through wgpu-py."""

from .device import AdapterInfo, adapters
from .executable import DeviceArray, WebGpuExecutable

__all__ = ["AdapterInfo", "DeviceArray", "WebGpuExecutable", "adapters"]
