"""Reductions over any axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, prod

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor, reshaped, transposed
from ..kernels.index import variable
from ..kernels.size import Size, hint
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from ..target import Target
from .movement import axis_of
from .registry import Call, Refuse, op


@dataclass(frozen=True)
class Kind:
    """How a reduction starts, takes an element in, joins two sums and ends. WGSL over `v`, `a`, `b`; `u.length` is
    the count."""

    start: float
    each: str
    combine: str
    finish: str = "v"
    helper: str = ""


SUM = Kind(0.0, "v", "a + b")
KINDS = {
    "ReduceSum": SUM,
    "ReduceMean": Kind(0.0, "v", "a + b", "v / T(u.length)"),
    "ReduceMax": Kind(-inf, "v", "nan_max(a, b)", helper="nan_max"),
    "ReduceMin": Kind(inf, "v", "nan_min(a, b)", helper="nan_min"),
    "ReduceProd": Kind(1.0, "v", "a * b"),
    "ReduceL1": Kind(0.0, "abs(v)", "a + b"),
    "ReduceL2": Kind(0.0, "v * v", "a + b", "sqrt(v)"),
    "ReduceSumSquare": Kind(0.0, "v * v", "a + b"),
    "ReduceLogSum": Kind(0.0, "v", "a + b", "log_exact(v)", "log_exact"),
}
_INTEGER = {"ReduceMax": (-(2**31), "max(a, b)"), "ReduceMin": (2**31 - 1, "min(a, b)")}


MOST_LANES = 256
ROOM = 16  # how many times longer than the traced one a row may get before its lanes do not do


def lanes_for(rows: int, length: int, target: Target, passes: int = 1, floats: bool = True) -> int:
    """Threads that share a row: few rows that are long need it, and GPUs want it sooner than software adapters, which
    may count the iterations of a thread's loops. `passes` is how often a row is walked."""
    growth = ROOM if isinstance(length, Size) else 1
    rows, length = hint(rows), hint(length)
    if not floats and passes * length * growth <= target.loops:
        return 1
    if not target.software:
        return 64 if length >= 64 and rows < 65536 else 1
    lanes = 16 if rows < 8 and length >= 512 else 1
    while lanes < MOST_LANES and passes * length * growth > target.loops * lanes:
        lanes *= 4 if lanes > 1 else 16
    return lanes


def check_length(call: Call, rows: int, length: int, passes: int = 1, floats: bool = True) -> None:
    """Raise Refuse for a row that is too long for the loops of the device, as many threads as share it."""
    lanes = lanes_for(rows, length, call.target, passes, floats)
    if call.target.software and passes * length > call.target.loops * lanes:
        raise Refuse(f"a row of {length} elements: more than the loops of this adapter may walk")


@dataclass(frozen=True)
class Reduce(Template):
    """out[i] = the reduction of x[i, :]."""

    kind: Kind
    rows: int
    length: int
    type: str = "f32"
    name = "reduce"

    def build(self, b: Build) -> Launch:
        i, k = variable("i", self.rows), variable("k", self.length, 1)
        b.read("x", 0, (i, k), ("i",), ("k",), any_map=True)
        lanes = lanes_for(self.rows, self.length, b.target, floats=self.type == "f32")
        size = max(64, lanes)
        rows_a_group = size // lanes
        groups = spread(ceil_div(self.rows, rows_a_group), b.target.workgroups)
        b.text.alias("T", self.type)
        b.text.const(WG=f"{size}u", LANES=lanes)
        start = self.kind.start if self.type == "f32" else int(self.kind.start)
        b.text.uniform(rows=self.rows, length=self.length, groups_x=groups[0])
        b.text.uniform_as("start", self.type, start)
        if self.kind.helper and self.type == "f32":
            b.text.helpers.setdefault(self.kind.helper)
        b.text.functions.append(
            f"fn each(v: T) -> T {{\n    return {self.kind.each};\n}}\nfn combine(a: T, b: T) -> T {{\n"
            f"    return {self.kind.combine};\n}}\nfn finish(v: T) -> T {{\n    return {self.kind.finish};\n}}\n"
        )
        b.store("store_out", ["i"], [(i,)], [("v", self.type)])
        shared = (
            wgsl(__file__, "rows.wgsl").replace("f32", self.type) if self.type != "f32" else wgsl(__file__, "rows.wgsl")
        )
        work = self.rows * self.length
        return Launch(shared + wgsl(__file__, "reduce.wgsl"), (*groups, 1), work, (size, 1, 1), size * 4)


def rows_first(x: Tensor, axes: list[int], node: str) -> tuple[Tensor, list[int]]:
    """`x` as [rows, length] with `axes` in the length, and the axes that are left."""
    left = [a for a in range(len(x.shape)) if a not in axes]
    moved = transposed(x, [*left, *axes], node)
    return reshaped(moved, (prod(x.shape[a] for a in left), prod(x.shape[a] for a in axes)), node), left


def reduced(call: Call, x: Tensor, axes: list[int], kind: Kind, keep: bool) -> Tensor:
    """`x` reduced over `axes`."""
    left = [a for a in range(len(x.shape)) if a not in axes]
    shape = [1 if a in axes else n for a, n in enumerate(x.shape)] if keep else [x.shape[a] for a in left]
    if x.size == 0:
        empty = {"log_exact(v)": -inf, "v / T(u.length)": nan}
        return Fill(empty.get(kind.finish, kind.start), shape, x.dtype)
    rows, _ = rows_first(x, axes, call.node)
    check_length(call, rows.shape[0], rows.shape[1], floats=x.type == "f32")
    y = call.heavy(Reduce(kind, rows.shape[0], rows.shape[1], x.type), [rows], (rows.shape[0],), x.dtype)
    return reshaped(y, shape, call.node)


def axes_of(call: Call, rank: int) -> list[int]:
    """Axes as an input or an attribute; all of them by default; none with noop_with_empty_axes."""
    axes = call.ints(1, "axes") if call.has(1) else call.attr("axes")
    if axes is None or len(axes) == 0:
        return [] if call.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(axis_of(int(a), rank) for a in axes)


@op(*KINDS, dtypes="float, int", known=(1,))
def reduce(call: Call) -> Tensor:
    """Empty axes give the reduction's neutral element."""
    x, kind = call.x(0), KINDS[call.op_type]
    if x.type == "bool" and call.op_type in _INTEGER:  # opset 20
        wide = Map("select(0u, 1u, {0})", [x], ir.DataType.UINT8, call.node)
        call.inputs[0] = wide
        return Map("{0} != 0u", [reduce(call)], x.dtype, call.node)
    if x.type != "f32":
        if x.type == "bool":
            raise Refuse(f"{call.op_type} has no kernel for bool")
        start, text = _INTEGER.get(call.op_type, (kind.start, kind.combine))
        if x.type == "u32" and call.op_type in _INTEGER:
            start = 0 if call.op_type == "ReduceMax" else 2**32 - 1
        kind = Kind(start, kind.each, text, kind.finish)
        if "sqrt" in kind.finish or "log" in kind.finish:
            raise Refuse(f"{call.op_type} has no kernel for integers")
    axes = axes_of(call, len(x.shape))
    if not axes and call.attr("noop_with_empty_axes", 0):
        if kind.each == "v" and kind.finish in ("v", "v / T(u.length)"):
            return x
        return reduced(call, reshaped(x, (*x.shape, 1)), [len(x.shape)], kind, False)
    return reduced(call, x, axes, kind, bool(call.attr("keepdims", 1)))


__all__ = ["SUM", "Kind", "Reduce", "ir", "lanes_for", "reduced", "rows_first"]
