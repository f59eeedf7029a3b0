"""Devices: which there are, which one to take, and a model made ready for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceError
from ..model import Model
from ..target import DEFAULT, Target
from .base import Executable

DEVICE_OF = {"CPUExecutionProvider": "cpu", "WebGpuExecutionProvider": "webgpu"}
PROVIDER_OF = {device: provider for provider, device in DEVICE_OF.items()}


@dataclass(frozen=True, slots=True)
class Options:
    """How a session was asked to run; see InferenceSession."""

    fallback: bool = True
    host_nodes: tuple[str, ...] = ()
    adapter: str | None = None
    threads: int | None = None
    dft_tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One device: `device` and `adapter` are what InferenceSession takes to choose it."""

    device: str
    adapter: str
    kind: str  # "CPU", "DiscreteGPU", "IntegratedGPU", …
    software: bool
    detail: str = ""


def devices() -> list[Device]:
    """All devices that a session can run on, the CPU first, then the WebGPU adapters."""
    import onnxruntime

    from .cpu.ort_session import default_threads

    cpu = Device("cpu", "", "CPU", False, f"ONNX Runtime {onnxruntime.__version__}, {default_threads()} threads")
    return [cpu, *_webgpu_devices()]


def _webgpu_devices() -> list[Device]:
    try:
        from .webgpu import adapters
    except ImportError:
        return []
    return [Device("webgpu", a.name, a.kind, a.software, a.backend) for a in adapters()]


def webgpu_target(adapter: str | None = None) -> Target:
    """What the adapter that a session would take can do; where there is none, a GPU with WebGPU's default limits."""
    from .webgpu.device import open_device, release

    try:
        device = open_device(adapter)
    except DeviceError:
        return DEFAULT
    try:
        return device.target
    finally:
        release(device)


def choose_device(device: str, providers: Sequence[Any] | str | None, adapter: str | None) -> str:
    """ "cpu" or "webgpu".

    Raises:
        DeviceError: the name is no device's.
    """
    if device not in ("auto", "cpu", "webgpu"):
        raise DeviceError(f"No device is called {device!r}: choose 'auto', 'cpu' or 'webgpu'.")
    if device == "auto" and providers:
        listed = [providers] if isinstance(providers, str) else providers
        names = [p[0] if isinstance(p, tuple) else p for p in listed]
        known = [DEVICE_OF[n] for n in names if n in DEVICE_OF]
        if not known:
            raise DeviceError(f"None of the providers {names} is headrace's: {', '.join(DEVICE_OF)}.")
        return known[0]
    if device == "auto":
        return "webgpu" if adapter or any(not d.software for d in _webgpu_devices()) else "cpu"
    return device


def executable(model: Model, device: str, options: Options) -> Executable:
    """`model` made ready for `device`."""
    if device == "cpu":
        from .cpu import CpuExecutable

        return CpuExecutable(model, threads=options.threads, dft_tolerance=options.dft_tolerance)
    from .webgpu import WebGpuExecutable

    return WebGpuExecutable(
        model,
        fallback=options.fallback,
        host_nodes=options.host_nodes,
        adapter=options.adapter,
        threads=options.threads,
        dft_tolerance=options.dft_tolerance,
    )
