"""Reading between pixels: GridSample, RoiAlign and DeformConv."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..kernels.expr import Fill, Tensor, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .conv import AXES, Window, window_of, with_bias
from .elementwise import cast
from .masks import I32
from .matmul import floats_only
from .registry import Call, Refuse, op

MODES = {"nearest": 0, "linear": 1, "bilinear": 1, "cubic": 2, "bicubic": 2}
TAPS = (1, 2, 4)
PADDING = {"zeros": 0, "border": 1, "reflection": 2}


@dataclass(frozen=True)
class GridSample(Template):
    """out[n, c, p] = x[n, c] read at grid[n, p], whose last axis holds x, y, z in -1..1."""

    batch: int
    channels: int
    size: tuple[int, ...]
    positions: int
    mode: int
    padding: int
    align: bool
    name = "grid_sample"

    def build(self, b: Build) -> Launch:
        rank = len(self.size)
        n, c, p = variable("n", self.batch), variable("c", self.channels), variable("p", self.positions)
        place = [variable(a, s) for a, s in zip(AXES[3 - rank :], self.size, strict=True)]
        b.read("x_in", 0, (n, c, *place), ("n", "c", *AXES))
        b.read("grid", 1, (n, p, variable("k", rank)), ("n", "p", "k"))
        total = self.batch * self.channels * self.positions
        groups = spread(ceil_div(total, 64), b.target.workgroups)
        size = (*(1 for _ in range(3 - rank)), *self.size)
        b.text.const(MODE=self.mode, TAPS=TAPS[self.mode], PADDING=self.padding, ALIGN=self.align, RANK=rank)
        b.text.uniform(total=total, channels=self.channels, positions=self.positions, groups_x=groups[0])
        b.text.uniform(size_z=size[0], size_y=size[1], size_x=size[2])
        b.store("store_out", ["n", "c", "p"], [(n, c, p)], [("v", "f32")])
        return Launch(wgsl(__file__, "grid_sample.wgsl"), (*groups, 1), total * 4 * TAPS[self.mode] ** rank)


@op("GridSample", since=16)
def grid_sample(call: Call) -> Tensor:
    """Nearest, linear and cubic over one, two or three axes, with every kind of padding."""
    x, grid = call.x(0), call.x(1)
    floats_only(x, "GridSample")
    size, outside = x.shape[2:], grid.shape[1:-1]
    if len(size) > 3:
        raise Refuse("more than three spatial axes")
    shape = (*x.shape[:2], *outside)
    if not prod(shape):
        return Fill(0, shape, x.dtype)
    mode, padding = MODES[call.attr("mode", "linear")], PADDING[call.attr("padding_mode", "zeros")]
    align = bool(call.attr("align_corners", 0))
    template = GridSample(x.shape[0], x.shape[1], size, prod(outside), mode, padding, align)
    flat = reshaped(grid, (x.shape[0], prod(outside), len(size)), call.node)
    return reshaped(call.heavy(template, [x, flat], (*x.shape[:2], prod(outside)), x.dtype), shape, call.node)


@dataclass(frozen=True)
class RoiAlign(Template):
    """out[r, c, y, x] = the average (or largest) of samples in a bin of box r; `ratio` samples an axis, 0: as many as
    pixels."""

    boxes: int
    batch: int
    channels: int
    size: tuple[int, int]
    bins: tuple[int, int]
    ratio: int
    scale: float
    half_pixel: bool
    largest: bool
    name = "roi_align"

    def build(self, b: Build) -> Launch:
        r, c, n = variable("r", self.boxes), variable("c", self.channels), variable("n", self.batch)
        y, x = variable("y", self.size[0]), variable("x", self.size[1])
        b.read("x_in", 0, (n, c, y, x), ("n", "c", "y", "x"))
        b.read("box", 1, (r, variable("k", 4)), ("r", "k"))
        b.read("batch_of", 2, (r,), ("r",))
        total = self.boxes * self.channels * prod(self.bins)
        groups = spread(ceil_div(total, 64), b.target.workgroups)
        b.text.const(RATIO=self.ratio, HALF_PIXEL=self.half_pixel, LARGEST=self.largest)
        b.text.uniform(total=total, batch=self.batch, channels=self.channels, height=self.size[0], width=self.size[1])
        b.text.uniform(bins_y=self.bins[0], bins_x=self.bins[1], scale=float(self.scale), groups_x=groups[0])
        out = (r, c, variable("y", self.bins[0]), variable("x", self.bins[1]))
        b.store("store_out", ["r", "c", "y", "x"], [out], [("v", "f32")])
        work = total * 16 * max(self.ratio, 2) ** 2
        return Launch(wgsl(__file__, "roi_align.wgsl"), (*groups, 1), work)


@op("RoiAlign", since=10)
def roi_align(call: Call) -> Tensor:
    """Boxes of an image, read between its pixels."""
    x, boxes = call.x(0), call.x(1)
    floats_only(x, "RoiAlign")
    bins = (call.attr("output_height", 1), call.attr("output_width", 1))
    half = call.opset >= 16 and call.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    shape = (boxes.shape[0], x.shape[1], *bins)
    if not prod(shape):
        return Fill(0, shape, x.dtype)
    size = (x.shape[2], x.shape[3])
    ratio, scale = call.attr("sampling_ratio", 0), call.attr("spatial_scale", 1.0)
    largest = call.attr("mode", "avg") == "max"
    template = RoiAlign(boxes.shape[0], x.shape[0], x.shape[1], size, bins, ratio, scale, half, largest)
    return call.heavy(template, [x, boxes, cast(call.x(2), I32, call.node)], shape, x.dtype)


@dataclass(frozen=True)
class DeformConv(Template):
    """A 2-D convolution whose taps are moved by `offset` and weighed by `mask`, and read between pixels."""

    batch: int
    rows: int
    channels: int
    groups: int
    offset_groups: int
    window: Window
    name = "deform_conv"

    def build(self, b: Build) -> Launch:
        w, taps = self.window, prod(self.window.taps)
        total_channels = self.channels * self.groups
        n, g, t = variable("n", self.batch), variable("g", self.offset_groups), variable("t", taps)
        c, m, o = variable("c", total_channels), variable("m", self.rows), variable("o", prod(w.outside))
        y, x = variable("y", w.inside[0]), variable("x", w.inside[1])
        b.read("x_in", 0, (n, c, y, x), ("n", "c", "y", "x"))
        b.read("weight", 1, (m, variable("c", self.channels), t), ("m", "c", "t"))
        b.read("offset", 2, (n, g, t, variable("k", 2), o), ("n", "g", "t", "k", "o"))
        b.read("mask", 3, (n, g, t, o), ("n", "g", "t", "o"))
        total = self.batch * self.rows * prod(w.outside)
        groups = spread(ceil_div(total, 64), b.target.workgroups)
        w.declare(b)
        b.text.uniform(total=total, rows=self.rows, rows_group=self.rows // self.groups, channels=self.channels)
        b.text.uniform(channels_offset=total_channels // self.offset_groups, groups_x=groups[0])
        b.store("store_out", ["n", "m", "o"], [(n, m, o)], [("v", "f32")])
        return Launch(wgsl(__file__, "deform_conv.wgsl"), (*groups, 1), 16 * total * taps * self.channels)


@op("DeformConv", since=19)
def deform_conv(call: Call) -> Tensor:
    """Two spatial axes, groups and offset groups, with or without a mask."""
    x, w, offset = call.x(0), call.x(1), call.x(2)
    floats_only(x, "DeformConv")
    if len(x.shape) != 4:
        raise Refuse(f"{len(x.shape) - 2} spatial axes instead of 2")
    window = window_of(call, w.shape[2:], x.shape[2:])
    groups, parts = call.attr("group", 1), call.attr("offset_group", 1)
    taps, places = prod(window.taps), prod(window.outside)
    moved = reshaped(offset, (x.shape[0], parts, taps, 2, places), call.node)
    shape = (x.shape[0], parts, taps, places)
    mask = reshaped(call.x(4), shape, call.node) if call.has(4) else Fill(1, shape, x.dtype)
    template = DeformConv(x.shape[0], w.shape[0], w.shape[1], groups, parts, window)
    flat = reshaped(w, (*w.shape[:2], taps), call.node)
    y = call.heavy(template, [x, flat, moved, mask], (x.shape[0], w.shape[0], places), x.dtype)
    call.inputs = [call.inputs[0], call.inputs[1], call.inputs[3] if call.has(3) else None]
    return with_bias(call, reshaped(y, (x.shape[0], w.shape[0], *window.outside), call.node))
