"""From lazy outputs to a Plan: groups become kernels and dispatches, stored tensors become slots."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ..dtypes import Array, item_size, storage_type, to_storage
from ..kernels.expr import Buffer, Tensor
from ..kernels.size import Number, Size, hint, largest
from ..model import Note
from ..ops.registry import Value
from ..target import Target
from .fuse import Fuser, Group
from .lower import Spec
from .memory import Life, assign
from .plan import Binding, Constant, Dispatch, Kernel, Plan, Readback, Slot, Upload
from .split import origin_bytes, shifted, split


def make_plan(
    outputs: Mapping[str, Value], inputs: Mapping[str, Spec], target: Target, stored: dict[str, Array] | None = None
) -> tuple[Plan, list[Note]]:
    """The plan that computes `outputs` from `inputs`. `stored` keeps constants in device form from plan to plan."""
    fuser = Fuser(target, target.f16)
    outputs = {n: v.data if isinstance(v, Buffer) and v.data is not None else v for n, v in outputs.items()}
    tensors = {n: v for n, v in outputs.items() if isinstance(v, Tensor)}
    groups = fuser.run(list(tensors.values()))
    maker = _Maker(groups, fuser, inputs, target, {} if stored is None else stored)
    known = tuple((n, v) for n, v in outputs.items() if isinstance(v, np.ndarray))
    return maker.plan(tensors, known), fuser.notes


def buffer_bytes(buffer: Tensor, f16: bool) -> int:
    """Bytes of a tensor that a kernel stores: at least one word, whole words."""
    return _bytes(buffer, storage_type(buffer.dtype, f16))


def _bytes(buffer: Tensor, storage: str) -> int:
    return largest(4, -(-prod(buffer.shape) * item_size(storage) // 4) * 4)


class _Maker:
    def __init__(
        self,
        groups: Sequence[Group],
        fuser: Fuser,
        inputs: Mapping[str, Spec],
        target: Target,
        stored: dict[str, Array],
    ) -> None:
        self.groups, self.fuser, self.inputs, self.target, self.stored = groups, fuser, inputs, target, stored
        self.slots: list[Slot] = []
        self.place: dict[str, tuple[int, int]] = {}  # buffer name -> slot, offset
        self.uniforms = bytearray()
        self.fields: list[tuple[int, str, Number]] = []
        self.kernels: dict[tuple[str, tuple[str, ...]], int] = {}
        self.kernel_list: list[Kernel] = []

    def plan(self, outputs: Mapping[str, Tensor], known: tuple[tuple[str, Array], ...]) -> Plan:
        stored_outputs = {n: self.fuser.buffers[x.serial] for n, x in outputs.items()}
        uploads = self._uploads(list(stored_outputs.values()))
        constants = self._constants(list(stored_outputs.values()))
        self._scratch(stored_outputs)
        dispatches = self._numbered([self._dispatches(g) for g in self.groups])
        readbacks, staging = self._readbacks(outputs, stored_outputs)
        return Plan(
            tuple(self.kernel_list),
            dispatches,
            tuple(self.slots),
            constants,
            uploads,
            readbacks,
            known,
            bytes(self.uniforms),
            staging,
            fields=tuple(self.fields),
        )

    def _uploads(self, extra: Sequence[Buffer]) -> tuple[Upload, ...]:
        used = {name for g in self.groups for name in g.text.reads} | {b.name for b in extra}
        result, at = [], 0
        for name, spec in self.inputs.items():
            if f"input:{name}" not in used or 0 in spec.shape:
                continue
            storage = storage_type(spec.dtype, self.target.f16)
            size = largest(4, -(-prod(spec.shape) * item_size(storage) // 4) * 4)
            result.append(Upload(name, 0, at, size, storage, int(spec.dtype), spec.shape))
            self.place[f"input:{name}"] = (0, at)
            at += -(-size // self.target.offset_align) * self.target.offset_align
        if result:
            self.slots.append(Slot(at, "input", -1, len(self.groups), result[0].name))
        return tuple(result)

    def _constants(self, extra: Sequence[Buffer]) -> tuple[Constant, ...]:
        result = []
        reads = [(b, storage) for g in self.groups for b, _, storage in g.text.reads.values()]
        for buffer, storage in [*reads, *((b, storage_type(b.dtype, self.target.f16)) for b in extra)]:
            if buffer.data is None or buffer.name in self.place:
                continue
            data = self.stored.get(buffer.name)
            if data is None:
                data = self.stored[buffer.name] = to_storage(buffer.data, storage)
            self.place[buffer.name] = (len(self.slots), 0)
            result.append(Constant(buffer.name, len(self.slots), storage, buffer.shape, data))
            self.slots.append(Slot(_bytes(buffer, storage), "constant", -1, len(self.groups), buffer.name))
        return tuple(result)

    def _scratch(self, outputs: Mapping[str, Buffer]) -> None:
        labels = {self.fuser.buffers[x.serial].name: x.node for g in self.groups for x in g.roots if x.node}
        labels.update((b.name, n) for n, b in outputs.items())
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        buffers: dict[str, Buffer] = {}
        for i, g in enumerate(self.groups):
            for buffer, _, _ in g.text.writes:
                first[buffer.name] = last[buffer.name] = i
                buffers[buffer.name] = buffer
            for name in g.text.reads:
                if name in last:
                    last[name] = i
        for b in outputs.values():
            if b.name not in self.place:
                buffers[b.name] = b
                first.setdefault(b.name, len(self.groups))
                last[b.name] = len(self.groups)
        sizes = {n: buffer_bytes(b, self.target.f16) for n, b in buffers.items()}
        lives = [Life(n, hint(size), first[n], last[n]) for n, size in sizes.items()]
        slots, place = assign(sorted(lives, key=lambda life: life.first))
        base = len(self.slots)
        for i, (size, begin, end, name) in enumerate(slots):
            held = [sizes[n] for n, s in place.items() if s == i]
            size = largest(*held) if any(isinstance(n, Size) for n in held) else size
            self.slots.append(Slot(size, "scratch", begin, end, labels.get(name, name)))
        self.place.update((n, (base + s, 0)) for n, s in place.items())
        self.names = {b.name: b for b in buffers.values()}

    def _numbered(self, groups: Sequence[Sequence[Dispatch]]) -> tuple[Dispatch, ...]:
        """All dispatches in order; lifetimes of slots, until now in groups, become those in dispatches."""
        starts = [0, *itertools.accumulate(len(g) for g in groups)]
        lasts = [*(n - 1 for n in starts[1:]), starts[-1]]  # of each group, and after all of them
        self.slots = [
            replace(s, first=starts[s.first] if s.first >= 0 else -1, last=lasts[s.last] if s.last >= 0 else -1)
            for s in self.slots
        ]
        return tuple(d for g in groups for d in g)

    def _dispatches(self, g: Group) -> list[Dispatch]:
        """One dispatch, or several where the launch is too large for one."""
        launch = g.launch
        parts = split(launch.groups, launch.flops, self.target)
        body = launch.body
        if len(parts) > 1:
            body = shifted(body, launch.workgroup)
            for axis in "XYZ":
                g.text.uniform_as(f"ORIGIN_{axis}", "u32", 0)
        kernel = self._kernel(g, g.text.text(body))
        data, fields, whole = g.text.uniform_bytes(), g.text.uniform_sizes(), prod(hint(n) for n in launch.groups)
        result = []
        for origin, groups in parts:
            uniforms = origin_bytes(data, origin) if len(parts) > 1 else data
            moving = [(len(data) - 12 + 4 * i, "u32", n) for i, n in enumerate(origin) if isinstance(n, Size)]
            windows = [self._uniform(uniforms, [*fields, *moving]), *self._windows(g)]
            flops, moved = launch.flops, sum(w.size for w in windows[1:])
            if len(parts) > 1:
                share = prod(hint(n) for n in groups) / whole
                flops, moved = int(hint(flops) * share), int(hint(moved) * share)
            result.append(Dispatch(kernel, groups, tuple(windows), tuple(g.text.nodes), flops, moved))
        return result

    def _kernel(self, g: Group, text: str) -> int:
        bindings = ("uniform", *("read" for _ in g.text.reads), *("write" for _ in g.text.writes))
        key = (text, bindings)
        if key not in self.kernels:
            self.kernels[key] = len(self.kernel_list)
            self.kernel_list.append(
                Kernel(g.text.name, text, bindings, g.text.requires(), g.launch.workgroup, g.launch.workgroup_bytes)
            )
        return self.kernels[key]

    def _uniform(self, data: bytes, fields: Sequence[tuple[int, str, Number]]) -> Binding:
        data += bytes(-len(data) % 16)
        self.uniforms += bytes(-len(self.uniforms) % self.target.offset_align)
        start = len(self.uniforms)
        self.uniforms += data
        self.fields += [(start + at, type_, size) for at, type_, size in fields]
        return Binding(-1, start, len(data))

    def _windows(self, g: Group) -> list[Binding]:
        buffers = [*g.text.reads.values(), *g.text.writes]
        return [Binding(*self.place[b.name], _bytes(b, storage)) for b, _, storage in buffers]

    def _readbacks(
        self, outputs: Mapping[str, Tensor], buffers: Mapping[str, Buffer]
    ) -> tuple[tuple[Readback, ...], int]:
        result, at = [], 0
        for name, x in outputs.items():
            size = buffer_bytes(x, self.target.f16) if x.size else 0
            slot, offset = self.place[buffers[name].name]
            result.append(
                Readback(name, slot, offset, size, at, storage_type(x.dtype, self.target.f16), int(x.dtype), x.shape)
            )
            at += -(-size // 8) * 8
        return tuple(result), largest(8, at)
