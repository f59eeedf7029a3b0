"""Cumulative operators: one thread walks a row."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.expr import Fill, Map, Stored, Tensor, expanded, reshaped, transposed
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, wgsl
from .movement import Pad, axis_of, sliced
from .registry import Call, Refuse, op

KINDS = {"CumSum": ("a + b", 0), "CumProd": ("a * b", 1)}
_TEXT = {"a + b": "{0} + {1}", "a * b": "{0} * {1}"}


@dataclass(frozen=True)
class Scan(Template):
    """out[i, k] = x[i, 0] joined with ... x[i, k]."""

    rows: int
    length: int
    type: str
    combine: str
    start: int
    exclusive: bool
    reverse: bool
    name = "scan"

    def build(self, b: Build) -> Launch:
        i, k = variable("i", self.rows), variable("k", self.length, 1)
        b.read("x", 0, (i, k), ("i",), ("k",), any_map=True)
        b.text.alias("T", self.type)
        b.text.const(START=self.start, EXCLUSIVE=self.exclusive, REVERSE=self.reverse)
        b.text.uniform(rows=self.rows, length=self.length)
        b.text.functions.append(f"fn combine(a: T, b: T) -> T {{\n    return {self.combine};\n}}\n")
        b.store("store_out", ["i", "k"], [(i, variable("k", self.length))], [("v", self.type)])
        return Launch(wgsl(__file__, "scan.wgsl"), (ceil_div(self.rows, 64), 1, 1), self.rows * self.length)


@op("CumSum", since=11, dtypes="float, int", known=(1,))
@op("CumProd", since=26, dtypes="float, int", known=(1,))
def cumulative(call: Call) -> Tensor:
    """Along one axis, forwards or backwards, with or without the element itself."""
    x = call.x(0)
    if x.type == "bool":
        raise Refuse("a cumulative sum of bool")
    if x.size == 0:
        return x
    rank = len(x.shape)
    axis = axis_of(call.ints(1, "axis")[0], rank)
    perm = [*(a for a in range(rank) if a != axis), axis]
    moved = transposed(x, perm, call.node)
    n = x.shape[axis]
    text, start = KINDS[call.op_type]
    back = [perm.index(a) for a in range(rank)]
    if n > call.target.loops:
        return transposed(reshaped(_in_blocks(call, moved, n), moved.shape), back, call.node)
    template = Scan(x.size // n, n, x.type, text, start, bool(call.attr("exclusive", 0)), bool(call.attr("reverse", 0)))
    y = call.heavy(template, [reshaped(moved, (x.size // n, n))], (x.size // n, n), x.dtype)
    return transposed(reshaped(y, moved.shape), back, call.node)


def _in_blocks(call: Call, x: Tensor, n: int) -> Tensor:
    """Rows longer than a loop may be: within blocks, then what all blocks before add to each."""
    rows, size = x.size // n, 4096
    blocks, (text, start) = ceil_div(n, size), KINDS[call.op_type]
    backwards, exclusive = bool(call.attr("reverse", 0)), bool(call.attr("exclusive", 0))
    padded = Pad(reshaped(x, (rows, n)), Fill(start, (), x.dtype), (0, 0), (0, blocks * size - n), call.node)
    flat = Stored(reshaped(padded, (rows * blocks, size)), call.node)

    def scanned(t: Tensor, without: bool) -> Tensor:
        template = Scan(t.shape[0], t.shape[1], x.type, text, start, without, backwards)
        return call.heavy(template, [t], t.shape, x.dtype)

    whole = scanned(flat, False)
    last = [0, 0 if backwards else size - 1]
    totals = reshaped(sliced(whole, last, [1, 1], (rows * blocks, 1), call.node), (rows, blocks))
    before = reshaped(scanned(totals, True), (rows * blocks, 1))
    inside = scanned(flat, True) if exclusive else whole
    joined = Map(_TEXT[text], [inside, expanded(before, inside.shape, call.node)], x.dtype, call.node)
    return sliced(reshaped(joined, (rows, blocks * size)), [0, 0], [1, 1], (rows, n), call.node)
