"""ArgMax, ArgMin and Hardmax: the place of the best element of a row."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from ..kernels.expr import Map, Tensor, expanded, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .masks import along
from .movement import axis_of
from .reduce import check_length, lanes_for, rows_first
from .registry import Call, Refuse, op


def better(type_: str, largest: bool) -> str:
    """WGSL function `better(a, b)`: whether `a` stands before `b`. NaN is the best there is, as in numpy."""
    test = "a > b" if largest else "a < b"
    if type_ == "f32":
        test = f"({test}) || (is_nan(a) && !is_nan(b))"
    return f"fn better(a: T, b: T) -> bool {{\n    return {test};\n}}\n"


@dataclass(frozen=True)
class Arg(Template):
    """out[i] = the index of the best x[i, :]; the last one of equals with `last`, else the first."""

    rows: int
    length: int
    type: str
    largest: bool
    last: bool
    name = "arg"

    def build(self, b: Build) -> Launch:
        i, k = variable("i", self.rows), variable("k", self.length, 1)
        b.read("x", 0, (i, k), ("i",), ("k",), any_map=True)
        lanes = lanes_for(self.rows, self.length, b.target)
        size = max(64, lanes)
        groups = spread(ceil_div(self.rows, size // lanes), b.target.workgroups)
        b.text.alias("T", self.type)
        b.text.const(WG=f"{size}u", LANES=lanes, LAST=self.last)
        b.text.uniform(rows=self.rows, length=self.length, groups_x=groups[0])
        b.text.helpers.setdefault("is_nan")
        b.text.functions.append(better(self.type, self.largest))
        b.store("store_out", ["i"], [(i,)], [("v", "i32")])
        work = self.rows * self.length
        return Launch(wgsl(__file__, "arg.wgsl"), (*groups, 1), work, (size, 1, 1), size * 8)


def best(call: Call, x: Tensor, axes: list[int], largest: bool, last: bool) -> tuple[Tensor, list[int]]:
    """Indices of the best elements over `axes`, flat, and the other axes."""
    if x.type == "bool":
        raise Refuse(f"{call.op_type} has no kernel for bool")
    rows, left = rows_first(x, axes, call.node)
    if not rows.shape[1]:
        raise Refuse("the best of no elements")
    check_length(call, rows.shape[0], rows.shape[1])
    template = Arg(rows.shape[0], rows.shape[1], x.type, largest, last)
    return call.heavy(template, [rows], (rows.shape[0],), ir.DataType.INT64), left


@op("ArgMax", "ArgMin", dtypes="float, int, uint")
def arg(call: Call) -> Tensor:
    """Along one axis; NaN counts as the best."""
    x = call.x(0)
    axis = axis_of(call.attr("axis", 0), len(x.shape))
    index, left = best(call, x, [axis], call.op_type == "ArgMax", bool(call.attr("select_last_index", 0)))
    keep = call.attr("keepdims", 1)
    shape = [1 if a == axis else n for a, n in enumerate(x.shape)] if keep else [x.shape[a] for a in left]
    return reshaped(index, shape, call.node)


@op("Hardmax")
def hardmax(call: Call) -> Tensor:
    """1 at the first largest element of an axis (opset 13), or of all axes from one on; else 0."""
    x, rank = call.x(0), len(call.shape(0))
    axis = axis_of(call.attr("axis", -1 if call.opset >= 13 else 1), rank)
    wide = call.opset < 13 and axis < rank - 1
    flat = reshaped(x, (*x.shape[:axis], prod(x.shape[axis:])), call.node) if wide else x
    index, _ = best(call, flat, [axis], True, False)
    index = reshaped(index, [1 if a == axis else n for a, n in enumerate(flat.shape)], call.node)
    parts = [expanded(index, flat.shape, call.node), along(flat.shape, axis)]
    return reshaped(Map("select(0.0, 1.0, {0} == {1})", parts, x.dtype, call.node), x.shape, call.node)
