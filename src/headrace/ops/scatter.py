"""Scatters, turned round: each element of the result finds the updates that reach it, so nothing is written twice.

Known indices are sorted on the host, and an element reads only its own updates. Indices from the device are searched:
with many elements a slice, one search a slice says which update is the last, and the slices are gathered by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.expr import Fill, Iota, Map, Tensor, expanded, reshaped, transposed
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .elementwise import cast
from .movement import Pad, Take, axis_of, sliced
from .registry import Call, Refuse, broadcast, op

I32 = ir.DataType.INT32
_COMBINE = {
    "none": "b",
    "add": "a + b",
    "mul": "a * b",
    "max": "max(a, b)",
    "min": "min(a, b)",
}
_NAN_SAFE = {"max": "nan_max(a, b)", "min": "nan_min(a, b)"}


@dataclass(frozen=True)
class Scatter(Template):
    """out[r, n, j] = x[r, n, j] joined with update[r, k, j] for every k with index[r, k] = n, in the order of k.

    `sorted`: index holds, for each n, where its updates begin in the list `order` (input 3) of all k.
    """

    rows: int
    slots: int
    inner: int
    count: int
    type: str
    how: str
    sorted: bool = False
    name = "scatter"

    def build(self, b: Build) -> Launch:
        r, n, j = variable("r", self.rows), variable("n", self.slots), variable("j", self.inner)
        k, e = variable("k", self.count), variable("e", self.slots + 1)
        b.read("x", 0, (r, n, j), ("r", "n", "j"))
        b.read("update", 2, (r, k, j), ("r", "k", "j"))
        if self.sorted:
            b.read("first", 1, (e,), ("e",))
            b.read("order", 3, (k,), ("k",))
        else:
            b.read("index", 1, (r, k), ("r", "k"))
        total = self.rows * self.slots * self.inner
        groups = spread(ceil_div(total, 64), b.target.workgroups)
        safe = self.type == "f32" and self.how in _NAN_SAFE
        if safe:
            b.text.helpers.setdefault("nan_" + self.how)
        b.text.alias("T", self.type)
        b.text.uniform(total=total, slots=self.slots, inner=self.inner, count=self.count, groups_x=groups[0])
        text = _NAN_SAFE[self.how] if safe else _COMBINE[self.how]
        b.text.functions.append(f"fn combine(a: T, b: T) -> T {{\n    return {text};\n}}\n")
        b.store("store_out", ["r", "n", "j"], [(r, n, j)], [("v", self.type)])
        name = "scatter_sorted.wgsl" if self.sorted else "scatter.wgsl"
        work = total + self.rows * self.count * self.inner if self.sorted else total * self.count
        return Launch(wgsl(__file__, name), (*groups, 1), work)


def scattered(call: Call, x: Tensor, index: Tensor | Array, update: Tensor, how: str) -> Tensor:
    """x [r, n, j], index [r, k], update [r, k, j]. Negative indices must be counted from the start already."""
    if x.type == "bool" and how != "none":
        raise Refuse(f"the reduction {how} of bool")
    (rows, slots, inner), count = x.shape, update.shape[1]
    if not count or not x.size:
        return x
    if isinstance(index, np.ndarray):
        return _by_list(call, x, index, update, how)
    most = call.target.loops
    if count > most:
        for first in range(0, int(count), most):
            size = min(most, int(count) - first)
            x = scattered(call, x, _part(call, index, first, size), _part(call, update, first, size), how)
        return x
    if how == "none" and inner > 1:
        start: Tensor = Fill(-1, (rows, slots, 1), I32)
        order = Iota((rows, count, 1), I32, 1, 0, 1)
        last = call.heavy(Scatter(rows, slots, 1, count, "i32", how), [start, index, order], (rows, slots, 1), I32)
        return _picked(call, x, update, reshaped(last, (rows, slots)))
    return call.heavy(Scatter(rows, slots, inner, count, x.type, how), [x, index, update], x.shape, x.dtype)


def _by_list(call: Call, x: Tensor, index: Array, update: Tensor, how: str) -> Tensor:
    """Known indices: rows are joined into one, and the updates of each slot are listed."""
    (rows, slots, inner), count = x.shape, update.shape[1]
    flat = (index.astype(np.int64) + np.arange(rows)[:, None] * slots).ravel()
    if how == "none":
        last = np.full(rows * slots, -1, np.int32)
        last[flat] = np.arange(rows * count, dtype=np.int32)
        one = reshaped(x, (1, rows * slots, inner)), reshaped(update, (1, rows * count, inner))
        return reshaped(_picked(call, *one, call.lift(last[None], call.node)), x.shape)
    most = call.target.loops
    if np.bincount(flat).max() > most:
        x, update = reshaped(x, (1, rows * slots, inner)), reshaped(update, (1, rows * count, inner))
        for start in range(0, len(flat), most):
            new = _part(call, update, start, min(most, len(flat) - start))
            x = _by_list(call, x, flat[None, start : start + most], new, how)
        return reshaped(x, (rows, slots, inner))
    order = np.argsort(flat, kind="stable").astype(np.int32)
    first = np.searchsorted(flat[order], np.arange(rows * slots + 1)).astype(np.int32)
    template = Scatter(1, rows * slots, inner, rows * count, x.type, how, True)
    parts = [reshaped(x, (1, rows * slots, inner)), call.lift(first, call.node)]
    parts += [reshaped(update, (1, rows * count, inner)), call.lift(order, call.node)]
    return reshaped(call.heavy(template, parts, (1, rows * slots, inner), x.dtype), x.shape)


def _part(call: Call, x: Tensor, start: int, count: int) -> Tensor:
    """x[:, start : start + count]."""
    rank = len(x.shape)
    return sliced(x, [0, start, *[0] * (rank - 2)], [1] * rank, (x.shape[0], count, *x.shape[2:]), call.node)


def _picked(call: Call, x: Tensor, update: Tensor, last: Tensor) -> Tensor:
    """update[r, last[r, n], j] where there is one, else x[r, n, j]."""
    from .gather import Elements

    rows, slots, _ = x.shape
    if rows == 1:
        row = reshaped(update, update.shape[1:])
        safe = Map("max({0}, 0)", [reshaped(last, (slots,))], I32, call.node)
        new: Tensor = reshaped(Take(row, safe, 0, call.node), x.shape)
    else:
        wide = expanded(reshaped(last, (rows, slots, 1)), x.shape, call.node)
        new = Elements(update, Map("max({0}, 0)", [wide], I32, call.node), 1, call.node)
    test = expanded(reshaped(last, (rows, slots, 1)), x.shape, call.node)
    return Map("select({0}, {1}, {2} >= 0)", [x, new, test], x.dtype, call.node)


def _wrapped(call: Call, i: int, sizes: list[int]) -> Array | Tensor:
    """Input `i` with negative indices counted from the end; `sizes` belong to its last axis, or are one for all."""
    known = call.known(i)
    if known is not None:
        return np.where(known < 0, known + np.array(sizes), known)
    index = cast(call.x(i), I32, call.node)
    n = call.lift(np.array(sizes, np.int32), call.node)
    return Map("select({0}, {0} + {1}, {0} < 0)", broadcast([index, n], call.node), I32, call.node, 2)


@op("ScatterElements", since=11, dtypes="all")
@op("Scatter", since=9, dtypes="all")
def scatter_elements(call: Call) -> Tensor:
    """Along one axis, an index an element; `reduction` joins them with what is there."""
    x, update = call.x(0), call.x(2)
    rank = len(x.shape)
    if not rank or not update.size:
        return x
    axis = axis_of(call.attr("axis", 0), rank)
    n, count = x.shape[axis], update.shape[axis]
    index = _wrapped(call, 1, [n])
    perm = [*(a for a in range(rank) if a != axis), axis]
    others = [x.shape[a] for a in perm[:-1]]
    missing = [x.shape[a] - update.shape[a] for a in perm[:-1]]
    if isinstance(index, np.ndarray) and any(missing):
        index = call.lift(index, call.node)
    flat = (prod(others), count)
    if isinstance(index, np.ndarray):
        rows: Array | Tensor = np.transpose(index, perm).reshape(flat)
    else:
        padded = Pad(transposed(index, perm), Fill(-1, (), I32), [0] * rank, [*missing, 0], call.node)
        rows = reshaped(padded if any(missing) else transposed(index, perm), flat)
    new = transposed(update, perm, call.node)
    if any(missing):
        new = Pad(new, Fill(0, (), update.dtype), [0] * rank, [*missing, 0], call.node)
    moved = reshaped(transposed(x, perm, call.node), (*flat[:1], n, 1))
    y = scattered(call, moved, rows, reshaped(new, (*flat, 1)), call.attr("reduction", "none"))
    return transposed(reshaped(y, (*others, n)), [perm.index(a) for a in range(rank)], call.node)


@op("ScatterND", since=11, dtypes="all")
def scatter_nd(call: Call) -> Tensor:
    """Slices at index tuples; `reduction` joins them with what is there."""
    x, shape = call.x(0), call.shape(1)
    depth, count = shape[-1], prod(shape[:-1])
    outer, inner = x.shape[:depth], prod(x.shape[depth:])
    update = reshaped(call.x(2), (1, count, inner), call.node)
    index = _wrapped(call, 1, list(outer))
    steps = [prod(outer[i + 1 :]) for i in range(depth)]
    slot: Array | Tensor
    if isinstance(index, np.ndarray):
        slot = (index.reshape(count, depth) * np.array(steps, np.int64)).sum(1)[None]
    else:
        slot = Fill(0, (1, count), I32)
        flat = reshaped(index, (count, depth))
        for i, step in enumerate(steps):
            column = reshaped(sliced(flat, [0, i], [1, 1], (count, 1), call.node), (1, count))
            slot = Map("{0} + {1} * {2}", [slot, column, Fill(step, (1, count), I32)], I32, call.node, 2)
    y = scattered(call, reshaped(x, (1, prod(outer), inner)), slot, update, call.attr("reduction", "none"))
    return reshaped(y, x.shape, call.node)
