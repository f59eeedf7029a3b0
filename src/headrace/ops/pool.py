"""Pooling windows, and pooling over everything."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

import onnx_ir as ir

from ..kernels.expr import Tensor, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .conv import AXES, Window, window_of
from .elementwise import cast
from .movement import Take
from .reduce import KINDS, reduced
from .registry import Call, Refuse, check_loops, op


@dataclass(frozen=True)
class Pool(Template):
    """out[channel, o] = a reduction of x[channel, window of o]; channel runs over the batch too."""

    channels: int
    window: Window
    after: tuple[int, ...]
    start: float
    combine: str
    finish: str
    everywhere: bool
    name = "pool"

    def build(self, b: Build) -> Launch:
        w = self.window
        rows = self.channels * prod(w.outside)
        groups = spread(ceil_div(rows, 64), b.target.workgroups)
        b.read("x_in", 0, (variable("channel", self.channels), *w.position()), ("channel", *AXES))
        w.declare(b)
        after = (*(0 for _ in range(3 - len(self.after))), *self.after)
        b.text.const(ALL=self.everywhere)
        b.text.uniform(
            rows=rows, groups_x=groups[0], start=float(self.start), AFTER_Z=after[0], AFTER_Y=after[1], AFTER_X=after[2]
        )
        b.text.helpers.setdefault("nan_max")
        b.text.functions.append(
            f"fn combine(a: f32, b: f32) -> f32 {{\n    return {self.combine};\n}}\n"
            f"fn finish(v: f32, count: f32) -> f32 {{\n    return {self.finish};\n}}\n"
        )
        i = variable("i", rows)
        b.store("store_out", ["i"], [(i,)], [("v", "f32")])
        return Launch(wgsl(__file__, "pool.wgsl"), (*groups, 1), rows * prod(w.taps))


@op("MaxPool", "AveragePool", "LpPool", dtypes="float, int, uint")
def pool(call: Call) -> Tensor | list[Tensor]:
    """1-, 2- and 3-D with pads, dilation and ceil_mode."""
    x = call.x(0)
    if x.type != "f32":
        if x.dtype.bitwidth > 16:
            raise Refuse(f"{call.op_type} has no kernel for {x.dtype.name.lower()}")
        call.inputs[0] = cast(x, ir.DataType.FLOAT, call.node)
        y = pool(call)
        return cast(y, x.dtype, call.node) if isinstance(y, Tensor) else [cast(y[0], x.dtype, call.node), y[1]]
    window = window_of(call, call.attr("kernel_shape"), x.shape[2:])
    if len(window.taps) > 3:
        raise Refuse("more than three spatial axes")
    check_loops(call, window.iterations, f"a window of {prod(window.taps)} elements")
    pads = call.attr("pads") or (0,) * 2 * len(window.taps)
    rank = len(window.taps)
    after = tuple(pads[rank:])
    if call.attr("auto_pad", "NOTSET").startswith("SAME"):
        after = tuple(
            max((o - 1) * s + (k - 1) * d + 1 - n - p, 0)
            for o, s, k, d, n, p in zip(
                window.outside, window.strides, window.taps, window.dilations, window.inside, window.before, strict=True
            )
        )
    channels = x.shape[0] * x.shape[1]
    if call.outputs > 1:
        return _with_indices(call, x, channels, window)
    if call.op_type == "MaxPool":
        template = Pool(channels, window, after, -inf, "nan_max(a, b)", "v", False)
    elif call.op_type == "AveragePool":
        template = Pool(channels, window, after, 0.0, "a + b", "v / count", bool(call.attr("count_include_pad", 0)))
    else:
        p = call.attr("p", 2)
        template = Pool(channels, window, after, 0.0, f"a + pow(abs(b), {float(p)})", f"pow(v, {1 / p})", False)
    flat = reshaped(x, (channels, *x.shape[2:]), call.node)
    y = call.heavy(template, [flat], (channels * prod(window.outside),), x.dtype)
    return reshaped(y, (*x.shape[:2], *window.outside), call.node)


@dataclass(frozen=True)
class PoolIndex(Template):
    """out[channel, o] = where in the whole tensor the largest element of a window is."""

    channels: int
    window: Window
    column_major: bool
    name = "pool_index"

    def build(self, b: Build) -> Launch:
        w = self.window
        rows = self.channels * prod(w.outside)
        groups = spread(ceil_div(rows, 64), b.target.workgroups)
        b.read("x_in", 0, (variable("channel", self.channels), *w.position()), ("channel", *AXES))
        w.declare(b)
        b.text.const(COLUMN_MAJOR=self.column_major)
        b.text.uniform(rows=rows, groups_x=groups[0])
        b.text.helpers.setdefault("is_nan")
        b.store("store_out", ["i"], [(variable("i", rows),)], [("v", "i32")])
        return Launch(wgsl(__file__, "pool_index.wgsl"), (*groups, 1), rows * prod(w.taps))


def _with_indices(call: Call, x: Tensor, channels: int, window: Window) -> list[Tensor]:
    """The index of each maximum, and the value that is there. Column-major indices are turned for the reading."""
    shape, rows = (*x.shape[:2], *window.outside), channels * prod(window.outside)
    flat = reshaped(x, (channels, *x.shape[2:]), call.node)
    places = [
        call.heavy(PoolIndex(channels, window, turned), [flat], (rows,), ir.DataType.INT64)
        for turned in dict.fromkeys([False, bool(call.attr("storage_order", 0))])
    ]
    values = Take(reshaped(x, (x.size,)), places[0], 0, call.node)
    return [reshaped(t, shape, call.node) for t in (values, places[-1])]


@op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> Tensor:
    """Over all spatial axes."""
    x = call.x(0)
    kind = KINDS["ReduceMean" if call.op_type == "GlobalAveragePool" else "ReduceMax"]
    return reduced(call, x, list(range(2, len(x.shape))), kind, True)
