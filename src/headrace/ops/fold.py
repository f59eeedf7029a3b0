"""Windows turned round: Col2Im and MaxUnpool, where each pixel finds the windows that cover it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..kernels.expr import Fill, Tensor, reshaped
from ..kernels.index import unflatten, variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .conv import Window
from .elementwise import cast
from .masks import I32
from .movement import Pad
from .registry import Call, Refuse, check_loops, op


def _declare(b: Build, channels: int, w: Window) -> tuple[int, int]:
    """Sizes and the store of a kernel with one thread a pixel of `w.inside`."""
    total = channels * prod(w.inside)
    groups = spread(ceil_div(total, 64), b.target.workgroups)
    w.declare(b)
    outside = (*(1 for _ in range(3 - len(w.outside))), *w.outside)
    b.text.uniform(total=total, OUT_Z=outside[0], OUT_Y=outside[1], groups_x=groups[0])
    q = variable("q", total)
    b.store("store_out", ["q"], [unflatten(q, (channels, *w.inside))], [("v", "f32")])
    return groups


@dataclass(frozen=True)
class Col2Im(Template):
    """out[channel, pixel] = the sum of x[channel, tap, window] over the windows and taps that meet it."""

    channels: int
    window: Window
    name = "col2im"

    def build(self, b: Build) -> Launch:
        w = self.window
        c, t, o = variable("c", self.channels), variable("t", prod(w.taps)), variable("o", prod(w.outside))
        b.read("x", 0, (c, t, o), ("c", "t", "o"))
        groups = _declare(b, self.channels, w)
        return Launch(wgsl(__file__, "col2im.wgsl"), (*groups, 1), self.channels * prod(w.inside) * prod(w.taps))


@op("Col2Im", since=18, known=(1, 2))
def col2im(call: Call) -> Tensor:
    """Up to three spatial axes, with strides, dilations and pads."""
    x, image, taps = call.x(0), call.ints(1, "image shape"), call.ints(2, "block shape")
    rank = len(taps)
    if rank > 3 or x.type != "f32":
        raise Refuse("more than three spatial axes, or integers")
    ones = (1,) * rank
    strides, dilations = tuple(call.attr("strides") or ones), tuple(call.attr("dilations") or ones)
    pads = tuple(call.attr("pads") or (0,) * 2 * rank)
    outside = tuple(
        (n + pads[i] + pads[i + rank] - (k - 1) * d - 1) // s + 1
        for i, (n, k, d, s) in enumerate(zip(image, taps, dilations, strides, strict=True))
    )
    channels = x.shape[0] * (x.shape[1] // prod(taps))
    window = Window(tuple(taps), strides, dilations, pads[:rank], tuple(image), outside)
    check_loops(call, window.iterations, f"a window of {prod(taps)} elements")
    flat = reshaped(x, (channels, prod(taps), prod(outside)), call.node)
    y = call.heavy(Col2Im(channels, window), [flat], (channels, *image), x.dtype)
    return reshaped(y, (x.shape[0], channels // x.shape[0], *image), call.node)


@dataclass(frozen=True)
class Unpool(Template):
    """out[channel, pixel] = x[channel, w] for the window w over the pixel whose index is the pixel's; else 0."""

    channels: int
    window: Window
    name = "unpool"

    def build(self, b: Build) -> Launch:
        w = self.window
        c, o = variable("c", self.channels), variable("o", prod(w.outside))
        b.read("x", 0, (c, o), ("c", "o"))
        b.read("index", 1, (c, o), ("c", "o"))
        groups = _declare(b, self.channels, w)
        return Launch(wgsl(__file__, "unpool.wgsl"), (*groups, 1), self.channels * prod(w.inside) * 4)


@op("MaxUnpool", since=9, known=(2,))
def max_unpool(call: Call) -> Tensor:
    """Values back to where MaxPool found them. An output shape beyond the windows' is padded with zeros."""
    x, index = call.x(0), call.x(1)
    taps = tuple(call.attr("kernel_shape"))
    rank = len(taps)
    if rank > 3:
        raise Refuse("more than three spatial axes")
    strides = tuple(call.attr("strides") or (1,) * rank)
    pads = tuple(call.attr("pads") or (0,) * 2 * rank)
    outside = x.shape[2:]
    inside = tuple(
        (o - 1) * s + k - pads[i] - pads[i + rank]
        for i, (o, s, k) in enumerate(zip(outside, strides, taps, strict=True))
    )
    channels = x.shape[0] * x.shape[1]
    window = Window(taps, strides, (1,) * rank, pads[:rank], inside, outside)
    flat = [reshaped(t, (channels, prod(outside)), call.node) for t in (x, cast(index, I32, call.node))]
    y = reshaped(call.heavy(Unpool(channels, window), flat, (channels, *inside), x.dtype), (*x.shape[:2], *inside))
    if not call.has(2):
        return y
    after = [n - m for n, m in zip(call.ints(2, "output shape"), y.shape, strict=True)]
    return Pad(y, Fill(0, (), x.dtype), [0] * len(after), after, call.node) if any(after) else y
