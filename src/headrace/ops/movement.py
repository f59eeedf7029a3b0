"""Movement operators: index maps that cost nothing until a kernel reads through them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.emit import Scope
from ..kernels.expr import Coords, Fill, Iota, Tensor, View, expanded, reshaped, transposed
from ..kernels.index import ZERO, Lin
from ..kernels.known import SizeArray, dtype_of, is_whole, known_array
from ..kernels.size import Number, Size, at_least, broadcast_shapes, key_of, largest, same
from .registry import Call, Refuse, Value, op

ENDLESS = 10**9  # exporters write such ends; no device holds as many elements


class Concat(Tensor):
    """Tensors one after the other along an axis."""

    __slots__ = ("axis",)

    def __init__(self, parts: Sequence[Tensor], axis: int, node: str) -> None:
        shape = list(parts[0].shape)
        for p in parts[1:]:
            if any(n != m for a, (n, m) in enumerate(zip(p.shape, shape, strict=True)) if a != axis):
                raise ValueError(f"{shape} and {list(p.shape)} differ beside axis {axis}")
        shape[axis] = sum(p.shape[axis] for p in parts)
        super().__init__(shape, parts[0].dtype, parts, node)
        self.axis, self.cost = axis, len(parts)

    def emit(self, scope: Scope, coords: Coords) -> str:
        start: Number = 0
        pieces: list[tuple[Number, str]] = []
        for p in self.inputs:
            moved = list(coords)
            moved[self.axis] = coords[self.axis] + (-start)
            pieces.append((start, scope.value(p, tuple(moved))))
            start += p.shape[self.axis]
        text = pieces[0][1]
        at = scope.lin(coords[self.axis])
        for begin, value in pieces[1:]:
            inside = scope.test(f"{at} >= {scope.param(begin, 'i32', f'cat{key_of(begin)}')}")
            text = scope.let(f"select({text}, {value}, {inside})", self.type)
        return text


def sizes_tensor(array: SizeArray, node: str) -> Tensor:
    """Known sizes as a tensor: each is a uniform of the kernel that reads it."""
    dtype = ir.DataType.from_numpy(array.type)
    ones: list[Tensor] = [Fill(v, (1,), dtype) for v in array.ravel()]
    return reshaped(Concat(ones, 0, node) if len(ones) > 1 else ones[0], array.shape, node)


class Pad(Tensor):
    """A constant around (or, with negative numbers, cut from) a tensor."""

    __slots__ = ("before",)

    def __init__(self, x: Tensor, value: Tensor, before: Sequence[int], after: Sequence[int], node: str) -> None:
        shape = [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]
        super().__init__(shape, x.dtype, (x, value), node)
        self.before, self.cost = tuple(before), 2

    def emit(self, scope: Scope, coords: Coords) -> str:
        x = self.inputs[0]
        moved = tuple(c + (-b) for c, b in zip(coords, self.before, strict=True))
        tests = []
        for c, n in zip(moved, x.shape, strict=True):
            if not at_least(c.lo, 0):
                tests.append(f"{scope.lin(c)} >= 0")
            if not at_least(n - 1, c.hi):
                tests.append(f"{scope.lin(c)} < {scope.param(n, 'i32', 'pad' + c.key)}")
        value = scope.value(x, moved)
        if not tests:
            return value
        outside = scope.value(self.inputs[1], ())
        inside = scope.test(" & ".join(f"({t})" for t in tests))  # && would be a branch, in a loop perhaps
        return f"select({outside}, {value}, {inside})"


class Take(Tensor):
    """Gather: coordinates along an axis come from another tensor; negative ones count from the end."""

    __slots__ = ("axis",)

    def __init__(self, x: Tensor, index: Tensor, axis: int, node: str) -> None:
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        super().__init__(shape, x.dtype, (x, index), node)
        self.axis, self.cost = axis, 3

    def emit(self, scope: Scope, coords: Coords) -> str:
        x, index = self.inputs
        rank = len(index.shape)
        at = scope.value(index, coords[self.axis : self.axis + rank])
        n = scope.param(x.shape[self.axis], "i32")
        inside = scope.data_index(
            f"clamp(select(i32({at}), i32({at}) + {n}, i32({at}) < 0), 0, {n} - 1)", x.shape[self.axis]
        )
        return scope.value(x, (*coords[: self.axis], inside, *coords[self.axis + rank :]))


def sliced(x: Tensor, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int], node: str) -> Tensor:
    """x[starts::steps], `shape` elements long."""
    if same(tuple(shape), x.shape) and all(same(s, 1) for s in steps):
        return x
    if isinstance(x, Fill):
        return Fill(x.value, shape, x.dtype)
    pairs = list(zip(starts, steps, strict=True))
    return View("slice", x, shape, lambda c: tuple(v * s + b for v, (b, s) in zip(c, pairs, strict=True)), node)


def axis_of(axis: int, rank: int) -> int:
    """A negative axis counted from the end. Raises ValueError for one outside."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} of a tensor of rank {rank}")
    return axis % rank if rank else 0


@op("Reshape", dtypes="all", known=(1,))
def reshape_(call: Call) -> Tensor:
    """0 copies a dimension, -1 is what remains."""
    x, want = call.x(0), call.ints(1, "shape")
    if not call.attr("allowzero", 0):
        want = [x.shape[i] if n == 0 else n for i, n in enumerate(want)]
    if -1 in want:
        rest = prod(n for n in want if n != -1)
        want[want.index(-1)] = x.size // rest if rest else 0
    return reshaped(x, want, call.node)


@op("Flatten", dtypes="all")
def flatten_(call: Call) -> Tensor:
    """To a matrix, cut at an axis."""
    x, axis = call.x(0), call.attr("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    return reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])), call.node)


def _axes(call: Call, rank: int) -> list[int] | None:
    axes = call.ints(1, "axes") if call.has(1) else call.attr("axes")
    return None if axes is None else [axis_of(int(a), rank) for a in axes]


@op("Squeeze", dtypes="all", known=(1,))
def squeeze(call: Call) -> Tensor:
    """Drop axes of size 1."""
    x = call.x(0)
    axes = _axes(call, len(x.shape))
    drop = {i for i, n in enumerate(x.shape) if n == 1} if axes is None else set(axes)
    return reshaped(x, [n for i, n in enumerate(x.shape) if i not in drop], call.node)


@op("Unsqueeze", dtypes="all", known=(1,))
def unsqueeze(call: Call) -> Tensor:
    """Add axes of size 1."""
    x = call.x(0)
    axes = call.ints(1, "axes") if call.has(1) else list(call.attr("axes"))
    rank = len(x.shape) + len(axes)
    places = {a % rank for a in axes}
    rest = iter(x.shape)
    return reshaped(x, [1 if i in places else next(rest) for i in range(rank)], call.node)


@op("Transpose", dtypes="all")
def transpose_(call: Call) -> Tensor:
    """Axes in another order; reversed by default."""
    x = call.x(0)
    return transposed(x, call.attr("perm", tuple(reversed(range(len(x.shape))))), call.node)


@op("Expand", dtypes="all", known=(1,))
def expand(call: Call) -> Tensor:
    """Broadcast both ways."""
    x = call.x(0)
    return expanded(x, broadcast_shapes(x.shape, tuple(call.ints(1, "shape"))), call.node)


@op("Tile", dtypes="all", known=(1,))
def tile(call: Call) -> Tensor:
    """Repeats along each axis."""
    x, repeats = call.x(0), call.ints(1, "repeats")
    if all(same(r, 1) for r in repeats):
        return x
    shape, old = [n * r for n, r in zip(x.shape, repeats, strict=True)], x.shape
    if all(same(n, 1) or same(r, 1) for n, r in zip(old, repeats, strict=True)):
        return expanded(x, shape, call.node)
    return View("tile", x, shape, lambda c: tuple(v % n if n else ZERO for v, n in zip(c, old, strict=True)), call.node)


@op("Concat", dtypes="all")
def concat(call: Call) -> Tensor:
    """Parts without elements are left out; many parts become a tree."""
    parts = [call.x(i) for i in range(len(call.inputs))]
    axis = axis_of(call.attr("axis", 1), len(parts[0].shape))
    parts = [p for p in parts if p.size] or parts[:1]
    while len(parts) > 6:
        parts = [
            Concat(parts[i : i + 6], axis, call.node) if len(parts[i : i + 6]) > 1 else parts[i]
            for i in range(0, len(parts), 6)
        ]
    return Concat(parts, axis, call.node) if len(parts) > 1 else parts[0]


@op("Slice", dtypes="all", known=(1, 2, 3, 4))
def slice_(call: Call) -> Tensor:
    """Starts, ends, axes and steps as inputs (opset 10) or attributes."""
    x = call.x(0)
    rank = len(x.shape)
    starts = call.ints(1, "starts") if call.has(1) else list(call.attr("starts"))
    ends = call.ints(2, "ends") if call.has(2) else list(call.attr("ends"))
    axes = call.ints(3, "axes") if call.has(3) else list(call.attr("axes") or range(len(starts)))
    steps = call.ints(4, "steps") if call.has(4) else [1] * len(starts)
    begin, step, shape = [0] * rank, [1] * rank, list(x.shape)
    for a, s, e, k in zip(axes, starts, ends, steps, strict=True):
        start, count = _chosen(x.shape[a], s, e, k)
        begin[a % rank], step[a % rank], shape[a % rank] = start, k, count
    return sliced(x, begin, step, shape, call.node)


def _chosen(n: Number, start: Number, end: Number, step: int) -> tuple[Number, Number]:
    """Where a slice of `n` elements starts, and how many it takes."""
    if not any(isinstance(v, Size) for v in (n, start, end)):
        chosen = range(*slice(start, end if step > 0 or end >= -n else None, step).indices(n))
        return chosen.start, len(chosen)
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first, last = (_clamped(v, n, low, high) for v in (start, end))
    width, each = (last - first, step) if step > 0 else (first - last, -step)
    return first, largest(0, (width + each - 1) // each)


def _clamped(place: Number, n: Number, low: Number, high: Number) -> Number:
    """A place counted from the end where it is negative, within `low` and `high`."""
    if not isinstance(place, Size) and abs(place) >= ENDLESS:
        return high if place > 0 else low
    place = place + n if place < 0 else place
    return low if place < 0 else -largest(-place, -high)


@op("Split", dtypes="all", known=(1,))
def split(call: Call) -> list[Tensor]:
    """Into given sizes, or as evenly as the number of outputs or `num_outputs` says."""
    x = call.x(0)
    axis = axis_of(call.attr("axis", 0), len(x.shape))
    sizes = call.ints(1, "sizes") if call.has(1) else list(call.attr("split") or [])
    if not sizes:
        each = -(-x.shape[axis] // call.outputs)
        sizes = [min(each, x.shape[axis] - i * each) for i in range(call.outputs)]
    result, at, rank = [], 0, len(x.shape)
    for n in sizes:
        shape = [*x.shape[:axis], n, *x.shape[axis + 1 :]]
        result.append(sliced(x, [at if a == axis else 0 for a in range(rank)], [1] * rank, shape, call.node))
        at += n
    return result


@op("Gather", dtypes="all")
def gather(call: Call) -> Tensor:
    """Indices that are a known range are a slice; others are read in the kernel."""
    x = call.x(0)
    axis = axis_of(call.attr("axis", 0), len(x.shape))
    n, index = x.shape[axis], call.known(1)
    shape = (*x.shape[:axis], *call.shape(1), *x.shape[axis + 1 :])
    if isinstance(x, Fill):
        return Fill(x.value, shape, x.dtype)
    if index is not None and index.size == 1:
        return reshaped(_one(x, axis, index.ravel()[0], call.node), shape, call.node)
    if index is not None and index.size and not isinstance(n, Size):
        flat = np.where(index < 0, index + n, index).ravel()
        steps = np.diff(flat)
        if (steps == steps[0]).all():
            step = int(steps[0])
            rank = len(x.shape)
            part = sliced(
                x,
                [int(flat[0]) if a == axis else 0 for a in range(rank)],
                [step if a == axis else 1 for a in range(rank)],
                (*x.shape[:axis], flat.size, *x.shape[axis + 1 :]),
                call.node,
            )
            return reshaped(part, shape, call.node)
    return Take(x, call.x(1), axis, call.node)


def _one(x: Tensor, axis: int, at: Number, node: str) -> Tensor:
    """One place along an axis."""
    place = at if isinstance(at, Size) else int(at)
    place = place + x.shape[axis] if place < 0 else place
    rank, shape = len(x.shape), (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return sliced(x, [place if a == axis else 0 for a in range(rank)], [1] * rank, shape, node)


@op("Pad", dtypes="all", known=(1, 3))
def pad(call: Call) -> Tensor:
    """constant, reflect, edge and wrap; negative pads cut."""
    x, mode = call.x(0), call.attr("mode", "constant")
    rank = len(x.shape)
    pads = call.ints(1, "pads") if call.has(1) else list(call.attr("pads"))
    axes = [a % rank for a in call.ints(3, "axes")] if call.has(3) else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for i, a in enumerate(axes):
        before[a], after[a] = pads[i], pads[i + len(axes)]
    shape = [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]
    if mode == "constant":
        value = call.x(2) if call.has(2) else Fill(call.attr("value", 0.0) if x.type == "f32" else 0, (), x.dtype)
        if not x.size:
            return expanded(reshaped(value, (), call.node), shape, call.node)
        if all(same(n, 0) for n in before + after):
            return x
        return Pad(x, reshaped(value, (), call.node), before, after, call.node)
    if not x.size:
        raise Refuse(f"{mode} padding of no elements")
    return Folded(x, before, shape, mode, call.node)


class Folded(Tensor):
    """Pad with values of the tensor itself: reflect, edge, wrap."""

    __slots__ = ("before", "mode")

    def __init__(self, x: Tensor, before: Sequence[int], shape: Sequence[int], mode: str, node: str) -> None:
        super().__init__(shape, x.dtype, (x,), node)
        self.before, self.mode, self.cost = tuple(before), mode, 4

    def emit(self, scope: Scope, coords: Coords) -> str:
        x = self.inputs[0]
        moved = [self._fold(scope, c + (-b), n) for c, b, n in zip(coords, self.before, x.shape, strict=True)]
        return scope.value(x, tuple(moved))

    def _fold(self, scope: Scope, c: Lin, n: int) -> Lin:
        if at_least(c.lo, 0) and at_least(n - 1, c.hi):
            return c
        size, at = scope.param(n, "i32"), scope.lin(c)
        if self.mode == "edge":
            return scope.data_index(f"clamp({at}, 0, {size} - 1)", n)
        if self.mode == "wrap":
            return scope.data_index(f"(({at} % {size}) + {size}) % {size}", n)
        span = scope.let(f"max(2 * {size} - 2, 1)", "i32")
        turn = scope.let(f"(({at} % {span}) + {span}) % {span}", "i32")
        return scope.data_index(f"select({turn}, {span} - {turn}, {turn} >= {size})", n)


@op("Shape", "Size", dtypes="all")
def shape_of(call: Call) -> Value:
    """Known on the host, whatever the input is."""
    shape = call.shape(0)
    if call.op_type == "Size":
        return known_array(prod(shape), np.int64)
    return known_array(shape[call.attr("start", 0) : call.attr("end")], np.int64)


@op("ConstantOfShape", dtypes="all", known=(0,))
def constant_of_shape(call: Call) -> Value:
    """One value, kept as one value."""
    value = call.attr("value")
    one = np.zeros(1, np.float32) if value is None else np.asarray(value)
    shape = tuple(call.ints(0, "shape"))
    if any(isinstance(n, Size) for n in shape):
        return Fill(one.reshape(()).item(), shape, ir.DataType.from_numpy(one.dtype))
    return np.broadcast_to(one.reshape(()), shape)


@op("Range", dtypes="float, int", known=(0, 1, 2))
def range_(call: Call) -> Value:
    """Known bounds. Floats are computed on the device, from the coordinate."""
    a, b, c = (call.need(i, "bounds").reshape(()) for i in range(3))
    if any(isinstance(v, SizeArray) for v in (a, b, c)):
        if not all(map(is_whole, (a, b, c))):
            raise Refuse("a range of sizes by parts of a whole")
        first, end, step = (v.item() if isinstance(v, SizeArray) else int(v) for v in (a, b, c))
        count = largest(0, -((first - end) // step))
        return Iota((count,), ir.DataType.from_numpy(dtype_of(a)), 0, first, step)
    if a.dtype.kind == "f":
        count = max(int(np.ceil((b.astype(np.float64) - a) / c)), 0)
        return Iota((count,), ir.DataType.from_numpy(a.dtype), 0, a.item(), c.item())
    result: Array = np.arange(a.item(), b.item(), c.item(), dtype=a.dtype)
    return result


__all__ = ["Concat", "Iota", "Pad", "Take", "axis_of", "sizes_tensor", "sliced"]
