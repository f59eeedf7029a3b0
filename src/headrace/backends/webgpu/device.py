"""Adapters and devices through wgpu-py. A device is opened once a process for each adapter, and shared by sessions."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import DeviceError
from ...target import Target

_WANTED = ("shader-f16", "timestamp-query", "subgroup")
_COPY_SRC, _COPY_DST = 4, 8  # of GPUBufferUsage
_open: dict[str, Device] = {}
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    """One adapter that can be asked for by (a part of) its name."""

    name: str
    backend: str
    kind: str
    software: bool


@dataclass(slots=True)
class Device:
    """An open wgpu device, its target, and the pipelines that the sessions on it share. `lock` covers every use."""

    handle: Any
    target: Target
    name: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    pipelines: dict[tuple[str, tuple[str, ...]], tuple[Any, Any]] = field(default_factory=dict)
    sessions: int = 0
    lost: str = ""
    probe: Any = None  # a small buffer that `drain` reads

    def check(self) -> None:
        """Raise DeviceError if the device was lost."""
        if self.lost:
            raise DeviceError(
                f"The device {self.name} was lost ({self.lost}). Create a new session: it opens the device again."
            )

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """What wgpu-py raises because the device is gone becomes a DeviceError, and the device is known to be lost."""
        self.check()
        try:
            yield
        except Exception as error:
            if "device is lost" not in str(error).lower():
                raise
            self.lost = "found when it was used"
            raise DeviceError(
                f"The device {self.name} was lost. Create a new session: it opens the device again."
            ) from error

    def drain(self) -> None:
        """Wait for all work that was submitted: a read of any buffer comes after it. (wgpu-py 0.32 cannot call
        `onSubmittedWorkDone`.)"""
        if self.probe is None:
            self.probe = self.handle.create_buffer(size=4, usage=_COPY_SRC | _COPY_DST)
        self.handle.queue.read_buffer(self.probe)

    def alive(self) -> bool:
        """Whether the device still answers; the driver tells of a loss only when something is asked of it."""
        if not self.lost:
            try:
                self.handle.create_buffer(size=4, usage=_COPY_DST).destroy()
            except Exception as error:  # wgpu-py: a validation error that names the lost device
                self.lost = str(error).strip().splitlines()[-1].strip()
        return not self.lost


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Mesa complains on stderr where no display session is: give it a folder while adapters are looked for."""
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


def _wgpu() -> Any:
    with _quiet():
        import wgpu
        import wgpu.backends.wgpu_native
    return wgpu


def _found() -> list[Any]:
    wgpu = _wgpu()
    with _quiet():
        everything = list(wgpu.gpu.enumerate_adapters_sync())
    usable = [a for a in everything if a.info.get("backend_type") != "OpenGL"]
    return sorted(usable or everything, key=lambda a: _RANK.get(a.info.get("adapter_type", ""), 9))


_RANK = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 5}


def _info(adapter: Any) -> AdapterInfo:
    info = adapter.info
    return AdapterInfo(
        info.get("device", ""),
        info.get("backend_type", ""),
        info.get("adapter_type", ""),
        info.get("adapter_type") == "CPU",
    )


def adapters() -> list[AdapterInfo]:
    """Adapters of this machine, the one taken by default first. Empty without a Vulkan, Metal or DX12 driver."""
    return [_info(a) for a in _found()]


def open_device(adapter: str | None = None) -> Device:
    """The device of the adapter whose name holds `adapter` (the best one by default), opened or already open.

    Raises:
        DeviceError: no adapter, none of that name, or the driver refuses a device.
    """
    with _lock:
        names = _found()
        chosen = [a for a in names if adapter is None or adapter.lower() in _info(a).name.lower()]
        if not chosen:
            listed = ", ".join(_info(a).name for a in names) or "none"
            raise DeviceError(
                f"No WebGPU adapter{f' called {adapter!r}' if adapter else ''} was found (adapters here: {listed}). "
                "WebGPU needs a Vulkan, Metal or DX12 driver; on Linux without a GPU, Mesa's lavapipe is one."
            )
        name = _info(chosen[0]).name
        device = _open.get(name)
        if device is None or not device.alive():
            device = _open[name] = _request(chosen[0], name)
        device.sessions += 1
        return device


def _request(adapter: Any, name: str) -> Device:
    features = [f for f in _WANTED if f in adapter.features]
    limits = adapter.limits
    wanted = {
        "max-storage-buffer-binding-size": min(limits["max-storage-buffer-binding-size"], 1 << 30),
        "max-buffer-size": min(limits["max-buffer-size"], 1 << 31),
    }
    try:
        with _quiet():
            handle = adapter.request_device_sync(required_features=features, required_limits=wanted)
    except Exception as error:  # wgpu-py raises what the driver says, of several kinds
        raise DeviceError(f"The adapter {name!r} gave no device: {error}") from error
    has = set(handle.features)
    target = Target(
        name,
        adapter.info.get("adapter_type") == "CPU",
        "shader-f16" in has,
        "timestamp-query" in has,
        packed=adapter.info.get("adapter_type") != "CPU",
        binding_bytes=int(handle.limits["max-storage-buffer-binding-size"]),
        buffer_bytes=int(handle.limits["max-buffer-size"]),
    )
    return Device(handle, target, name)


def release(device: Device) -> None:
    """A session is done with the device; the last one drops the pipelines."""
    with _lock:
        device.sessions -= 1
        if device.sessions == 0:
            device.pipelines.clear()
