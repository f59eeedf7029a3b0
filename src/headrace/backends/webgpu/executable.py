"""A model on a WebGPU device: keeps the plans of the sizes that it has seen, and runs them."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from ...dtypes import Array, OutOfRange, from_storage, storage_type, to_storage
from ...errors import DeviceError, InputError, UnsupportedNode, UnsupportedOpError
from ...kernels.expr import Tensor
from ...model import Model, Note
from ...plan import HostStep, Plan, Readback, Spec, Walk, host_inputs, make_plan, prepare_graph
from ...plan.lower import HOST_NODES, Step, host_step, reads, unsupported
from ..spans import HOST, Phases, Recorder, spanned
from .device import Device, open_device, release
from .host_step import HostNode
from .player import Pool, Prepared

PLANS_KEPT = 16
SMALL = 64  # integers up to this many may be shapes or axes: later segments get their values
HINT = "fallback=True lets such nodes run in ONNX Runtime, with a copy each way."


class DeviceArray:
    """A tensor that stays on the device: feed it to a session on the same device, or read it with `numpy()`."""

    def __init__(self, device: Device, buffer: Any, shape: tuple[int, ...], dtype: ir.DataType) -> None:
        self.device, self.buffer, self.shape, self.onnx_dtype = device, buffer, shape, dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the values."""
        return np.dtype(self.onnx_dtype.numpy())

    def __repr__(self) -> str:
        return f"DeviceArray(shape={list(self.shape)}, dtype={self.dtype}, device={self.device.name!r})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """For numpy.asarray: the values, read back. Raises ValueError for copy=False, since reading is a copy."""
        if copy is False:
            raise ValueError("A device array cannot be read without a copy.")
        return np.array(self.numpy(), dtype)

    def numpy(self) -> Array:
        """The values, read back."""
        with self.device.lock, self.device.watched():
            data = np.frombuffer(self.device.handle.queue.read_buffer(self.buffer), np.uint8)
        kind = storage_type(self.onnx_dtype, self.device.target.f16)
        count = int(np.prod(self.shape, dtype=np.int64))
        dtype = np.dtype({"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}[kind])
        return from_storage(data[: count * dtype.itemsize].view(dtype).reshape(self.shape), self.onnx_dtype)


@dataclass(slots=True)
class Segment:
    """One plan of a model, the host nodes after it, and the steps that wait for them."""

    prepared: Prepared
    host: list[HostNode]
    pending: list[Step]
    keep: frozenset[str]  # tensors that only later segments read: they stay on the device


class WebGpuExecutable:
    """Runs one model on one WebGPU device. Safe to call from several threads: one run at a time.

    Args:
        model: the model; its graph is not changed.
        fallback: nodes without a kernel run in ONNX Runtime between device segments; False refuses them.
        host_nodes: names of nodes to run on the host on purpose.
        adapter: a part of the adapter's name; the best adapter by default.

    Raises:
        DeviceError: no such adapter, or no device from it.
    """

    def __init__(
        self,
        model: Model,
        *,
        fallback: bool = True,
        host_nodes: Iterable[str] = (),
        adapter: str | None = None,
        threads: int | None = None,
        dft_tolerance: float | None = None,
    ) -> None:
        self._tolerance = dft_tolerance
        self.fallback, self.host_nodes, self.threads = fallback, tuple(host_nodes), threads
        self.phases = Phases()
        with self.phases.phase("optimize"):
            self._graph = prepare_graph(model)
        self._host_inputs = host_inputs(self._graph)
        self.device = open_device(adapter)
        self._release = weakref.finalize(self, release, self.device)  # a session that is dropped unclosed keeps nothing
        self._release.atexit = False
        _warn_if_software(self.device)
        self._pool = Pool(self.device)
        self._stored: dict[str, Array] = {}
        self._segments: OrderedDict[Any, Segment] = OrderedDict()
        self._stages = 1  # the most segments that a run had
        self._notes: dict[Note, None] = dict.fromkeys(self._graph.model.notes[len(model.notes) :])
        self._plan: Plan | None = None
        self._closed = False
        self._dtypes = {v.name or "": v.dtype for v in model.graph.inputs}

    @property
    def plan(self) -> Plan | None:
        """The plan of the last run; None before the first."""
        return self._plan

    @property
    def notes(self) -> list[Note]:
        """What lowering had to say, once each."""
        return list(self._notes)

    def run(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, Any],
        keep_on_device: bool = False,
        recorder: Recorder | None = None,
    ) -> list[Any]:
        """Outputs in order, as numpy arrays, or as DeviceArrays with `keep_on_device`. A recorder is told what takes
        time.

        Raises:
            UnsupportedOpError: nodes have no kernel and fallback is off.
            DeviceError: the device was lost, or a tensor is over its limits.
            InputError: an integer that does not fit the device's 32 bits.
        """
        with self.device.lock:
            if self._closed:
                raise DeviceError("This session is closed.")
            names = list(output_names) if output_names else [v.name or "" for v in self._graph.model.graph.outputs]
            with self.device.watched():
                values = self._run(names, dict(feeds), keep_on_device, recorder)
            return [values[n] for n in names]

    def profiled(self) -> WebGpuExecutable:
        """Itself: any run can be recorded."""
        return self

    def collect(self, feeds: Mapping[str, Any]) -> None:
        """Nothing arrives later than the device's stamps."""

    def close(self) -> None:
        """Free all buffers. A second call does nothing."""
        with self.device.lock:
            if not self._closed:
                self._closed = True
                self._segments.clear()
                self._pool.drop()
                self._stored.clear()
                self._release()

    def _run(self, names: list[str], values: dict[str, Any], keep: bool, recorder: Recorder | None) -> dict[str, Any]:
        done: dict[str, Any] = {}
        steps: list[Step] | None = None
        plans: list[Plan] = []
        stage = 0
        while True:
            segment = self._segment(stage, names, values, steps)
            plans.append(segment.prepared.plan)
            self._play(segment, values, done, names, keep, recorder)
            if not segment.host:
                break
            for node in segment.host:
                with spanned(recorder, "host step", HOST, node.step.node.op_type) as span:
                    made = node.run(values)
                if span is not None:
                    span.nodes, span.tensors, span.reason = (node.step.name,), tuple(made), node.reason
                    span.bytes = sum(np.asarray(a).nbytes for a in made.values())
                values.update(made)
            steps = segment.pending
            stage += 1
        self._plan = _linked(plans)
        for n in names:
            if n not in done:
                done[n] = values[n]
        return done

    def _play(
        self,
        segment: Segment,
        values: dict[str, Any],
        done: dict[str, Any],
        names: Sequence[str],
        keep: bool,
        recorder: Recorder | None,
    ) -> None:
        prepared = segment.prepared
        plan = prepared.plan
        feeds: dict[str, Any] = {}
        for u in plan.uploads:
            value = values[u.name]
            if isinstance(value, DeviceArray):
                feeds[u.name] = value.buffer if value.device is self.device else to_storage(value.numpy(), u.storage)
            else:
                try:
                    feeds[u.name] = to_storage(value, u.storage)
                except OutOfRange as error:
                    raise InputError(f"Input {u.name!r}: {error.text}.") from error
        encoder = prepared.run(feeds, recorder)
        for name, array in plan.known:
            (done if name in names else values)[name] = np.array(array)
            values[name] = array
        if keep and not segment.host:
            for r, buffer in zip(plan.readbacks, prepared.keep(encoder).values(), strict=True):
                done[r.name] = DeviceArray(self.device, buffer, r.shape, ir.DataType(r.dtype))
            return
        arrays = prepared.finish(encoder, segment.keep, recorder, bool(segment.host))
        for r in plan.readbacks:
            dtype = ir.DataType(r.dtype)
            if r.name in segment.keep:
                values[r.name] = DeviceArray(self.device, prepared.kept[r.name], r.shape, dtype)
                continue
            value = from_storage(arrays[r.name], dtype)
            values[r.name] = value
            if r.name in names:
                done[r.name] = value

    def _segment(
        self, stage: int, names: Sequence[str], values: Mapping[str, Any], steps: list[Step] | None
    ) -> Segment:
        inputs = self._inputs(stage, values, steps)
        key = (
            stage,
            tuple(names),
            tuple((n, v.tobytes(), v.shape) if isinstance(v, np.ndarray) else (n, v) for n, v in inputs.items()),
        )
        found = self._segments.get(key)
        if found is None:
            with _collection_paused(), self.phases.phase("lower"):
                found = self._segments[key] = self._lower(names, inputs, steps)
            self._stages = max(self._stages, stage + 1)
            if len(self._segments) > PLANS_KEPT * self._stages:
                self._segments.popitem(last=False)
                self._forget()
        self._segments.move_to_end(key)
        return found

    def _forget(self) -> None:
        """Drop the constants that no kept plan reads: those that were made for sizes not seen any more."""
        used = {c.key for s in self._segments.values() for c in s.prepared.plan.constants}
        for cache in (self._stored, self._pool.constants):
            for key in [k for k in cache if k not in used]:
                del cache[key]

    def _inputs(self, stage: int, values: Mapping[str, Any], steps: list[Step] | None) -> dict[str, Spec | Array]:
        wanted = None if steps is None else _read_by(steps)
        result: dict[str, Spec | Array] = {}
        for name, value in values.items():
            if wanted is not None and name not in wanted:
                continue
            small = isinstance(value, np.ndarray) and value.dtype.kind in "iub" and value.size <= SMALL
            if isinstance(value, np.ndarray) and (name in self._host_inputs or (stage > 0 and small)):
                result[name] = value
            else:
                result[name] = self._spec(name, value)
        return result

    def _spec(self, name: str, value: Any) -> Spec:
        """What lowering knows of a value; a sequence has no dtype, and stays on the host."""
        if not isinstance(value, DeviceArray | np.ndarray):
            return Spec((), ir.DataType.UNDEFINED)
        known = self._dtypes.get(name)
        if known is None:
            text = isinstance(value, np.ndarray) and value.dtype.kind in "OUST"
            known = value.onnx_dtype if isinstance(value, DeviceArray) else ir.DataType.STRING if text else None
        return Spec(tuple(value.shape), known or ir.DataType.from_numpy(value.dtype))

    def _lower(self, names: Sequence[str], inputs: Mapping[str, Spec | Array], steps: list[Step] | None) -> Segment:
        target = replace(self.device.target, dft_tolerance=self._tolerance)
        walk = Walk(self._graph, target, self.host_nodes)
        lowered = walk.run(inputs, steps)
        if walk.sequences_on_host:
            if not self.fallback:  # the first walk knows which node needs a list on the host
                refused = self._needed(lowered.refused, lowered.pending, set(names))
                self._refuse_all_but_asked_for(refused, walk.hopeless(lowered.pending))
            walk = Walk(self._graph, target, self.host_nodes)
            walk.sequences_on_host = True
            lowered = walk.run(inputs, steps)
        wanted = set(names)
        refused = self._needed(lowered.refused, lowered.pending, wanted)
        if not self.fallback:
            self._refuse_all_but_asked_for(refused, walk.hopeless(lowered.pending))
        host = [HostNode(s, self._graph, r, self.threads) for s, r in refused]
        outputs = {n: walk.lookup(n) for n in names if n in lowered.values or n in self._graph.constants}
        on_host = _read_by(s for s, _ in refused)
        later = on_host | _read_by(lowered.pending)
        for n in sorted(later):
            if n in lowered.values and n not in inputs:
                outputs[n] = lowered.values[n]
        specs = {n: v for n, v in inputs.items() if isinstance(v, Spec)}
        plan, notes = make_plan(outputs, specs, target, self._stored)
        if host:
            plan = replace(plan, host_steps=tuple(host_step(s, reason) for s, reason in refused))
        self._notes.update(dict.fromkeys([*lowered.notes, *notes]))
        keep = frozenset(r.name for r in plan.readbacks if _stays(r, wanted | on_host))
        with self.phases.phase("compile"):
            prepared = Prepared(plan, self._pool)
        return Segment(prepared, host, lowered.pending, keep if host else frozenset())

    def _refuse_all_but_asked_for(
        self, refused: Sequence[tuple[Step, str]], hopeless: Sequence[UnsupportedNode]
    ) -> None:
        """Without fallback: nodes of `host_nodes` run on the host, with a note; others are an error, which also names
        those `hopeless` ones that wait for them."""
        others = [unsupported(s, r) for s, r in refused if r != HOST_NODES]
        if others:
            raise UnsupportedOpError([*others, *hopeless], HINT)
        text = "runs on the host, as host_nodes asks, although fallback=False"
        self._notes.update(dict.fromkeys(Note("lower", s.name, text) for s, _ in refused))

    def _needed(
        self, refused: Sequence[tuple[Step, str]], pending: Sequence[Step], names: set[str]
    ) -> list[tuple[Step, str]]:
        """Refused nodes that the wanted outputs need."""
        made = {v.name: s for s in [*pending, *(s for s, _ in refused)] for v in s.node.outputs}
        needed: set[int] = set()
        stack = list(names)
        while stack:
            step = made.get(stack.pop())
            if step is not None and id(step) not in needed:
                needed.add(id(step))
                stack += reads(step)
        return [(s, r) for s, r in refused if id(s) in needed]


def _read_by(steps: Iterable[Step]) -> set[str]:
    """Names that steps read."""
    return {name for s in steps for name in reads(s)}


def _stays(r: Readback, read_back: set[str]) -> bool:
    """Whether a tensor stays on the device between segments: nobody reads it here, and it is no shape or axis."""
    dtype = ir.DataType(r.dtype)
    small = (dtype.is_integer() or dtype == ir.DataType.BOOL) and int(np.prod(r.shape, dtype=np.int64)) <= SMALL
    return bool(r.size) and not small and r.name not in read_back


def _warn_if_software(device: Device) -> None:
    if device.target.software:
        text = f"WebGPU runs on a software adapter ({device.name}): right, but slower than device='cpu'."
        warnings.warn(text, stacklevel=5)


@contextlib.contextmanager
def _collection_paused() -> Iterator[None]:
    """Lowering makes many small objects and no garbage: a collection in the middle costs as much as the rest."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _linked(plans: Sequence[Plan]) -> Plan:
    result = plans[-1]
    for plan in reversed(plans[:-1]):
        result = replace(plan, next=result)
    return result


__all__ = ["DeviceArray", "HostStep", "Tensor", "WebGpuExecutable"]
