"""Cumulative operators: one thread walks a row."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.expr import Tensor, reshaped, transposed
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, wgsl
from .movement import axis_of
from .registry import Call, Refuse, op


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
    text, start = ("a + b", 0) if call.op_type == "CumSum" else ("a * b", 1)
    template = Scan(x.size // n, n, x.type, text, start, bool(call.attr("exclusive", 0)), bool(call.attr("reverse", 0)))
    y = call.heavy(template, [reshaped(moved, (x.size // n, n))], (x.size // n, n), x.dtype)
    return transposed(reshaped(y, moved.shape), [perm.index(a) for a in range(rank)], call.node)
