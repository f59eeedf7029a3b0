"""Gathers with an index an element: GatherElements, GatherND, ReverseSequence, TensorScatter. All are index maps."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ..kernels.emit import Scope
from ..kernels.expr import Coords, Fill, Tensor, reshaped, transposed
from ..kernels.index import Lin, number
from .movement import axis_of
from .registry import Call, Refuse, op


def index_in(scope: Scope, text: str, n: int) -> Lin:
    """An index read from memory as a coordinate of an axis of size `n`; negative ones count from the end."""
    size = scope.param(n, "i32")
    at = scope.let(f"i32({text})", "i32")
    return scope.data_index(f"clamp(select({at}, {at} + {size}, {at} < 0), 0, {size} - 1)", n)


class Elements(Tensor):
    """x[..., index[...], ...]: one index an element."""

    __slots__ = ("axis",)

    def __init__(self, x: Tensor, index: Tensor, axis: int, node: str) -> None:
        super().__init__(index.shape, x.dtype, (x, index), node)
        self.axis, self.cost = axis, 3

    def emit(self, scope: Scope, coords: Coords) -> str:
        x, index = self.inputs
        at = index_in(scope, scope.value(index, coords), x.shape[self.axis])
        return scope.value(x, (*coords[: self.axis], at, *coords[self.axis + 1 :]))


class Tuples(Tensor):
    """GatherND: index tuples along the last axis of `index` select slices of x, after `batch` common axes."""

    __slots__ = ("batch",)

    def __init__(self, x: Tensor, index: Tensor, batch: int, node: str) -> None:
        depth = index.shape[-1]
        super().__init__((*index.shape[:-1], *x.shape[batch + depth :]), x.dtype, (x, index), node)
        self.batch, self.cost = batch, 2 + depth

    def emit(self, scope: Scope, coords: Coords) -> str:
        x, index = self.inputs
        outer = len(index.shape) - 1
        at = [
            index_in(scope, scope.value(index, (*coords[:outer], number(k))), x.shape[self.batch + k])
            for k in range(index.shape[-1])
        ]
        return scope.value(x, (*coords[: self.batch], *at, *coords[outer:]))


class Reversed(Tensor):
    """[batch, time, ...] with the first lengths[batch] steps of time in reverse order."""

    __slots__ = ()

    def __init__(self, x: Tensor, lengths: Tensor, node: str) -> None:
        super().__init__(x.shape, x.dtype, (x, lengths), node)
        self.cost = 3

    def emit(self, scope: Scope, coords: Coords) -> str:
        x, lengths = self.inputs
        n = scope.let(f"i32({scope.value(lengths, coords[:1])})", "i32")
        t = scope.lin(coords[1])
        at = scope.data_index(f"select({t}, {n} - 1 - {t}, {t} < {n})", x.shape[1])
        return scope.value(x, (coords[0], at, *coords[2:]))


class Overwritten(Tensor):
    """[batch, time, ...] with `update` in place of the steps from start[batch] on; `circular` wraps around."""

    __slots__ = ("circular",)

    def __init__(self, x: Tensor, update: Tensor, start: Tensor, circular: bool, node: str) -> None:
        super().__init__(x.shape, x.dtype, (x, update, start), node)
        self.circular, self.cost = circular, 5

    def emit(self, scope: Scope, coords: Coords) -> str:
        x, update, start = self.inputs
        behind = scope.let(f"{scope.lin(coords[1])} - i32({scope.value(start, coords[:1])})", "i32")
        if self.circular:
            size = scope.param(x.shape[1], "i32")
            behind = scope.let(f"(({behind} % {size}) + {size}) % {size}", "i32")
        count = scope.param(update.shape[1], "i32")
        inside = scope.test(f"{behind} >= 0 && {behind} < {count}")
        at = scope.data_index(f"clamp({behind}, 0, {count} - 1)", update.shape[1])
        new, old = scope.value(update, (coords[0], at, *coords[2:])), scope.value(x, coords)
        return f"select({old}, {new}, {inside})"


@op("GatherElements", since=11, dtypes="all")
def gather_elements(call: Call) -> Tensor:
    """Along one axis, an index an element."""
    x, index = call.x(0), call.x(1)
    return Elements(x, index, axis_of(call.attr("axis", 0), len(x.shape)), call.node)


@op("GatherND", since=11, dtypes="all")
def gather_nd(call: Call) -> Tensor:
    """Slices selected by index tuples."""
    x, index = call.x(0), call.x(1)
    return Tuples(x, index, call.attr("batch_dims", 0), call.node)


def _with_axes_first(x: Tensor, axes: Sequence[int], node: str) -> tuple[Tensor, list[int]]:
    perm = [*axes, *(a for a in range(len(x.shape)) if a not in axes)]
    return transposed(x, perm, node), [perm.index(a) for a in range(len(perm))]


@op("ReverseSequence", since=10, dtypes="all")
def reverse_sequence(call: Call) -> Tensor:
    """Each batch entry reversed up to its own length."""
    x = call.x(0)
    moved, back = _with_axes_first(x, (call.attr("batch_axis", 1), call.attr("time_axis", 0)), call.node)
    return transposed(Reversed(moved, call.x(1), call.node), back, call.node)


@op("TensorScatter", since=24, dtypes="all")
def tensor_scatter(call: Call) -> Tensor:
    """A cache with new steps written at an index a batch entry."""
    x, update = call.x(0), call.x(1)
    axis = axis_of(call.attr("axis", -2), len(x.shape))
    if axis == 0:
        raise Refuse("the batch axis")
    moved, back = _with_axes_first(x, (0, axis), call.node)
    new, _ = _with_axes_first(update, (0, axis), call.node)
    start = reshaped(call.x(2), (x.shape[0],)) if call.has(2) else Fill(0, (x.shape[0],), ir.DataType.INT32)
    circular = call.attr("mode", "linear") == "circular"
    return transposed(Overwritten(moved, new, start, circular, call.node), back, call.node)
