"""Plays a Plan through wgpu-py. It knows no ONNX: what it does, the browser's player does too."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...dtypes import Array
from ...errors import DeviceError
from ...plan import Kernel, Plan, Readback, verify_plan
from ..spans import COPY, HOST, Recorder, spanned
from .device import Device
from .stamps import Stamps, Waits

_NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}


@dataclass(slots=True)
class Pool:
    """The buffers of one session: constants by key, and scratch buffers that all its plans share.

    `generation` counts the times that a scratch buffer was replaced by a larger one."""

    device: Device
    constants: dict[str, Any] = field(default_factory=dict)
    scratch: list[Any] = field(default_factory=list)
    generation: int = 0

    def constant(self, key: str, data: Array, size: int) -> Any:
        """The buffer of a constant, written the first time."""
        buffer = self.constants.get(key)
        if buffer is None:
            buffer = self.constants[key] = self.device.handle.create_buffer_with_data(
                data=_padded(data, size), usage=_usage().STORAGE | _usage().COPY_SRC
            )
        return buffer

    def scratches(self, sizes: list[int]) -> list[Any]:
        """One scratch buffer for each size; the largest sizes get the largest buffers."""
        order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        for rank, i in enumerate(order):
            if rank == len(self.scratch):
                self.scratch.append(self._make(sizes[i]))
            elif self.scratch[rank].size < sizes[i]:
                self.scratch[rank] = self._make(sizes[i])
                self.generation += 1
        result: list[Any] = [None] * len(sizes)
        for rank, i in enumerate(order):
            result[i] = self.scratch[rank]
        return result

    def _make(self, size: int) -> Any:
        return self.device.handle.create_buffer(
            size=size, usage=_usage().STORAGE | _usage().COPY_SRC | _usage().COPY_DST
        )

    def drop(self) -> None:
        """Forget all buffers; wgpu frees each after the last submit that uses it."""
        self.constants.clear()
        self.scratch.clear()


def _usage() -> Any:
    import wgpu

    return wgpu.BufferUsage


def _padded(data: Array, size: int) -> Any:
    flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return flat if flat.nbytes == size else np.concatenate([flat, np.zeros(size - flat.nbytes, np.uint8)])


class Prepared:
    """A plan with everything that a run needs already made."""

    def __init__(self, plan: Plan, pool: Pool) -> None:
        verify_plan(plan, pool.device.target)
        self.plan, self.pool, self.device = plan, pool, pool.device
        handle = self.device.handle
        self.pipelines = [pipeline(self.device, k) for k in plan.kernels]
        self.uniforms = handle.create_buffer_with_data(data=plan.uniforms or bytes(16), usage=_usage().UNIFORM)
        self.staging: Any = (
            handle.create_buffer(size=plan.staging_bytes, usage=_usage().MAP_READ | _usage().COPY_DST)
            if plan.readbacks
            else None
        )
        self.input: Any = None
        self.kept: dict[str, Any] = {}
        self.generation = -1
        self._stamps: Stamps | None = None  # of a run that is being profiled
        self.steps: list[tuple[Any, Any, tuple[int, int, int]]] = []
        self._bind()

    def _bind(self) -> None:
        """Slots to buffers, and a bind group for each dispatch."""
        plan, handle = self.plan, self.device.handle
        scratch = iter(self.pool.scratches([s.size for s in plan.slots if s.kind == "scratch"]))
        data = {c.slot: c for c in plan.constants}
        self.buffers: list[Any] = []
        for i, s in enumerate(plan.slots):
            if s.kind == "scratch":
                self.buffers.append(next(scratch))
            elif s.kind == "constant":
                self.buffers.append(self.pool.constant(data[i].key, data[i].data, s.size))
            else:
                if self.input is None:
                    self.input = handle.create_buffer(
                        size=s.size, usage=_usage().STORAGE | _usage().COPY_DST | _usage().COPY_SRC
                    )
                self.buffers.append(self.input)
        self.steps = []
        for d in plan.dispatches:
            pipe, layout = self.pipelines[d.kernel]
            entries = [
                {
                    "binding": n,
                    "resource": {
                        "buffer": self.uniforms if b.slot < 0 else self.buffers[b.slot],
                        "offset": b.offset,
                        "size": b.size,
                    },
                }
                for n, b in enumerate(d.bindings)
            ]
            self.steps.append((pipe, handle.create_bind_group(layout=layout, entries=entries), d.groups))
        self.generation = self.pool.generation

    def run(self, feeds: Mapping[str, Any], recorder: Recorder | None = None) -> Any:
        """Upload and record. Feeds are arrays in storage form, or wgpu buffers. Returns the encoder, for `finish` or
        `keep`; with a recorder, what takes time is told to it."""
        self.device.check()
        if self.generation != self.pool.generation:
            self._bind()
        encoder = self.device.handle.create_command_encoder()
        with spanned(recorder, "upload", COPY) as span:
            self._upload(feeds, encoder)
        if span is not None:
            span.tensors = tuple(u.name for u in self.plan.uploads)
            span.bytes = sum(u.size for u in self.plan.uploads if isinstance(feeds[u.name], np.ndarray))
        if self.steps:
            encoder = self._record(encoder) if recorder is None else self._record_timed(encoder, recorder)
        return encoder

    def _record(self, encoder: Any) -> Any:
        work = encoder.begin_compute_pass()
        last = None
        for pipe, group, groups in self.steps:
            if pipe is not last:
                work.set_pipeline(pipe)
                last = pipe
            work.set_bind_group(0, group)
            work.dispatch_workgroups(*groups)
        work.end()
        return encoder

    def _record_timed(self, encoder: Any, recorder: Recorder) -> Any:
        """As `_record`, with the time of every dispatch. Without timestamps, the dispatches run at once."""
        if self.device.target.timestamps:
            self._stamps = Stamps(self.device, self.plan)
            recorder.later.append(self._stamps.spans)
            with recorder.span("record", HOST):
                for i, work in enumerate(self._stamps.passes(encoder)):
                    self._dispatch(work, i)
                self._stamps.resolve(encoder)
            return encoder
        self.device.handle.queue.submit([encoder.finish()])
        waits = Waits(self.device, self.plan)
        waits.play(self._dispatch)
        recorder.later.append(waits.spans)
        return self.device.handle.create_command_encoder()

    def _dispatch(self, work: Any, i: int) -> None:
        pipe, group, groups = self.steps[i]
        work.set_pipeline(pipe)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(*groups)

    def _upload(self, feeds: Mapping[str, Any], encoder: Any) -> None:
        plan = self.plan
        arrays = [(u, feeds[u.name]) for u in plan.uploads if isinstance(feeds[u.name], np.ndarray)]
        for u in plan.uploads:
            if not isinstance(feeds[u.name], np.ndarray):
                encoder.copy_buffer_to_buffer(feeds[u.name], 0, self.input, u.offset, u.size)
        if len(arrays) == 1:
            u, array = arrays[0]
            self.device.handle.queue.write_buffer(self.input, u.offset, _padded(array, u.size))
        elif arrays:
            start, end = arrays[0][0].offset, arrays[-1][0].offset + arrays[-1][0].size
            if len(arrays) == len(plan.uploads):
                whole = np.zeros(end - start, np.uint8)
                for u, array in arrays:
                    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                    whole[u.offset - start : u.offset - start + flat.nbytes] = flat
                self.device.handle.queue.write_buffer(self.input, start, whole)
            else:
                for u, array in arrays:
                    self.device.handle.queue.write_buffer(self.input, u.offset, _padded(array, u.size))

    def finish(
        self, encoder: Any, keep: Collection[str] = (), recorder: Recorder | None = None, before_host: bool = False
    ) -> dict[str, Array]:
        """Copy the outputs to the staging buffer, submit, wait once, and return them in storage form. Those in `keep`
        are copied to buffers that stay on the device, `kept`, and overwritten by the next run. `before_host` tells the
        recorder that a host step waits for them."""
        back = [r for r in self.plan.readbacks if r.name not in keep]
        for r in self.plan.readbacks:
            if r.name in keep:
                encoder.copy_buffer_to_buffer(self.buffers[r.slot], r.offset, self._kept(r), 0, r.size)
            elif r.size:
                encoder.copy_buffer_to_buffer(self.buffers[r.slot], r.offset, self.staging, r.target, r.size)
        self._submit(encoder, recorder)
        if not any(r.size for r in back):
            self._drain(recorder)
            return {r.name: np.zeros(r.shape, _NUMPY[r.storage]) for r in back}
        try:
            data = self._read(back, recorder, before_host)
        except Exception as error:  # wgpu-py: the map fails when the device is gone
            self.device.lost = str(error)
            raise DeviceError(f"The device {self.device.name} was lost while it ran: {error}") from error
        return {r.name: _view(data, r.target, r.storage, r.shape) for r in back}

    def _read(self, back: Sequence[Readback], recorder: Recorder | None, before_host: bool) -> Array:
        """The bytes of the staging buffer, once the device has written them."""
        with spanned(recorder, "wait", HOST) as wait:
            self.staging.map_sync("READ")
        self._finished()
        with spanned(recorder, "readback", COPY) as copy:
            data = np.frombuffer(self.staging.read_mapped(copy=True), np.uint8)
            self.staging.unmap()
        for span in (wait, copy):
            if span is not None:
                span.tensors, span.before_host = tuple(r.name for r in back), before_host
                span.bytes = sum(r.size for r in back)
        return data

    def _drain(self, recorder: Recorder | None) -> None:
        """Where nothing is read back, a profiled run waits for the end of the work by itself."""
        if self._stamps is not None:
            with spanned(recorder, "wait", HOST):
                self.device.drain()
            self._finished()

    def _submit(self, encoder: Any, recorder: Recorder | None) -> None:
        commands = encoder.finish()
        if self._stamps is not None:
            self._stamps.submitted = time.perf_counter_ns()
        with spanned(recorder, "submit", HOST):
            self.device.handle.queue.submit([commands])

    def _finished(self) -> None:
        if self._stamps is not None:
            self._stamps.done, self._stamps = time.perf_counter_ns(), None

    def _kept(self, r: Readback) -> Any:
        if r.name not in self.kept:
            usage = _usage().STORAGE | _usage().COPY_SRC | _usage().COPY_DST
            self.kept[r.name] = self.device.handle.create_buffer(size=r.size, usage=usage)
        return self.kept[r.name]

    def keep(self, encoder: Any) -> dict[str, Any]:
        """Copy the outputs to buffers of their own, submit, and return the buffers by output name."""
        kept = {}
        for r in self.plan.readbacks:
            kept[r.name] = self.device.handle.create_buffer(
                size=max(4, r.size), usage=_usage().STORAGE | _usage().COPY_SRC | _usage().COPY_DST
            )
            if r.size:
                encoder.copy_buffer_to_buffer(self.buffers[r.slot], r.offset, kept[r.name], 0, r.size)
        self.device.handle.queue.submit([encoder.finish()])
        return kept


def _view(data: Array, at: int, storage: str, shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(_NUMPY[storage])
    count = int(np.prod(shape, dtype=np.int64))
    return data[at : at + count * dtype.itemsize].view(dtype).reshape(shape)


def pipeline(device: Device, kernel: Kernel) -> tuple[Any, Any]:
    """The pipeline and bind-group layout of a kernel, compiled the first time that a device sees its text."""
    key = (kernel.wgsl, kernel.bindings)
    found = device.pipelines.get(key)
    if found is None:
        found = device.pipelines[key] = _compile(device, kernel)
    return found


_BINDINGS = {"uniform": "uniform", "read": "read-only-storage", "write": "storage"}


def _compile(device: Device, kernel: Kernel) -> tuple[Any, Any]:
    import wgpu

    handle = device.handle
    code = ("enable f16;\n" if "shader-f16" in kernel.requires else "") + kernel.wgsl
    try:
        module = handle.create_shader_module(code=code)
    except Exception as error:  # wgpu-py raises GPUError kinds; a kernel that does not compile is our own mistake
        raise DeviceError(f"Kernel {kernel.name} does not compile: {error}") from error
    entries = [
        {"binding": n, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": _BINDINGS[b]}}
        for n, b in enumerate(kernel.bindings)
    ]
    layout = handle.create_bind_group_layout(entries=entries)
    layouts = handle.create_pipeline_layout(bind_group_layouts=[layout])
    return handle.create_compute_pipeline(
        layout=layouts, compute={"module": module, "entry_point": kernel.entry}
    ), layout
