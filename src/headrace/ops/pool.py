"""Pooling windows, and pooling over everything."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from ..kernels.expr import Tensor, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .conv import AXES, Window, window_of
from .reduce import KINDS, reduced
from .registry import Call, Refuse, op


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


@op("MaxPool", "AveragePool", "LpPool")
def pool(call: Call) -> Tensor:
    """1-, 2- and 3-D with pads, dilation and ceil_mode."""
    x = call.x(0)
    if call.outputs > 1:
        raise Refuse("the indices output")
    if x.type != "f32":
        raise Refuse(f"{call.op_type} has no kernel for {x.dtype.name.lower()}")
    window = window_of(call, call.attr("kernel_shape"), x.shape[2:])
    if len(window.taps) > 3:
        raise Refuse("more than three spatial axes")
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


@op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> Tensor:
    """Over all spatial axes."""
    x = call.x(0)
    kind = KINDS["ReduceMean" if call.op_type == "GlobalAveragePool" else "ReduceMax"]
    return reduced(call, x, list(range(2, len(x.shape))), kind, True)
