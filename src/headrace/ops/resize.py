"""Resize. Sizes are known on the host, so the source positions and weights of each result are tables made there,
exactly as ONNX says. Nearest is an index map; the other modes are a short weighted sum along one axis after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, prod

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.expr import Fill, Map, Tensor, View, expanded, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .elementwise import cast
from .movement import Take, sliced
from .registry import Call, Refuse, check_loops, op
from .resize_sizes import resized

Kernel = Callable[[Array], Array]


def source_positions(mode: str, n: int, m: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where each of `m` positions lies among `n`, as float64, for a coordinate transformation mode."""
    o, exact = np.arange(m, dtype=np.float64), scale * n
    if mode == "asymmetric":
        return o / scale
    if mode == "align_corners":
        return o * (n - 1) / (exact - 1) if exact != 1 else np.zeros(m)
    if mode == "pytorch_half_pixel":
        return (o + 0.5) / scale - 0.5 if exact != 1 else np.full(m, -0.5)
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / exact) + (o + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        a, b = roi
        inside = o * (b - a) * (n - 1) / (exact - 1) if exact != 1 else np.full(m, (b - a) * (n - 1) / 2)
        return a * (n - 1) + inside
    if mode == "tf_half_pixel_for_nn":
        return (o + 0.5) / scale
    return (o + 0.5) / scale - 0.5


def nearest(positions: Array, mode: str) -> Array:
    """Positions rounded as `nearest_mode` says."""
    p = positions
    if mode == "floor":
        return np.floor(p)
    if mode == "ceil":
        return np.ceil(p)
    if mode == "round_prefer_ceil":
        return np.floor(p + 0.5)
    return np.ceil(p - 0.5)


def taken(x: Tensor, axis: int, index: Array, call: Call) -> Tensor:
    """x with `index` along an axis: a slice or a division where the table is one for most sizes, so that sizes share
    kernels."""
    rank, n = len(x.shape), x.shape[axis]
    shape = (*x.shape[:axis], len(index), *x.shape[axis + 1 :])
    steps = np.diff(index)
    if (steps == 1).all():
        return sliced(x, [int(index[0]) if a == axis else 0 for a in range(rank)], [1] * rank, shape, call.node)
    if len(index) % n == 0 and (index == np.arange(len(index)) // (len(index) // n)).all():
        each = len(index) // n
        return View("repeat", x, shape, lambda c: (*c[:axis], c[axis] // each, *c[axis + 1 :]), call.node)
    return Take(x, call.lift(index.astype(np.int32), call.node), axis, call.node)


def _scaled(n: int, scale: float) -> int:
    """A size times a scale, rounded down; the product is a float32 as in ONNX's shape inference: 700 * 0.7 is 490."""
    return n if scale == 1 else int(np.floor(np.float32(n) * np.float32(scale)))


def sizes_and_scales(call: Call, shape: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """The result's shape and the scale of each axis, from scales or sizes, axes and keep_aspect_ratio_policy."""
    rank = len(shape)
    if call.op_type == "Upsample" or call.opset < 11:
        scales = [float(v) for v in call.need(1, "scales").ravel()] if call.has(1) else list(call.attr("scales"))
        return [_scaled(n, s) for n, s in zip(shape, scales, strict=True)], scales
    axes = [a % rank for a in call.attr("axes") or range(rank)]
    out, factors = list(shape), [1.0] * rank
    scales_in = call.known(2)
    if call.has(3):
        sizes = call.ints(3, "sizes")
        policy = call.attr("keep_aspect_ratio_policy", "stretch")
        each = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]
        if policy != "stretch":
            one = min(each) if policy == "not_larger" else max(each)
            sizes, each = [int(np.floor(one * shape[a] + 0.5)) for a in axes], [one] * len(axes)
        for a, s, f in zip(axes, sizes, each, strict=True):
            out[a], factors[a] = s, f
    elif scales_in is not None and scales_in.size:
        for a, f in zip(axes, scales_in.ravel(), strict=True):
            out[a], factors[a] = _scaled(shape[a], f), float(f)
    else:
        raise Refuse("its scales or sizes are computed on the device, and shapes must be known before it runs")
    return out, factors


@dataclass(frozen=True)
class Weighted(Template):
    """out[r, o, s] = sum over t of weight[o, t] * x[r, clamp(first[o] + t), s]."""

    rows: int
    size: int
    result: int
    inner: int
    taps: int
    name = "weighted"

    def build(self, b: Build) -> Launch:
        r, i, s = variable("r", self.rows), variable("i", self.size), variable("s", self.inner)
        o, t = variable("o", self.result), variable("t", self.taps)
        b.read("x", 0, (r, i, s), ("r", "i", "s"))
        b.read("first", 1, (o,), ("o",))
        b.read("weight", 2, (o, t), ("o", "t"))
        total = self.rows * self.result * self.inner
        groups = spread(ceil_div(total, 64), b.target.workgroups)
        b.text.uniform(total=total, size=self.size, result=self.result, inner=self.inner, taps=self.taps)
        b.text.uniform(groups_x=groups[0])
        b.store("store_out", ["r", "o", "s"], [(r, o, s)], [("v", "f32")])
        return Launch(wgsl(__file__, "resize.wgsl"), (*groups, 1), 2 * total * self.taps)


def linear(t: Array) -> Array:
    """Weight at a distance: a triangle."""
    result: Array = np.clip(1 - np.abs(t), 0, 1)
    return result


def cubic(a: float) -> Kernel:
    """Weight at a distance: the cubic convolution kernel with parameter `a`."""

    def weight(t: Array) -> Array:
        d = np.abs(t)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        result: Array = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
        return result

    return weight


def tables(p: Array, n: int, weight: Kernel, reach: int, shrink: float, exclude: bool) -> tuple[Array, Array]:
    """First source index and weights for positions `p`; `shrink` < 1 widens the kernel (antialias)."""
    left = floor(-reach / shrink) + 1
    offsets = np.arange(left, ceil(reach / shrink) + 1)
    base = np.floor(p)
    index = base[:, None] + offsets
    w = weight((index - p[:, None]) * shrink)
    if exclude:
        w = np.where((index < 0) | (index >= n), 0, w)
    if exclude or shrink < 1:
        w = w / w.sum(1, keepdims=True)
    return index[:, 0].astype(np.int32), w.astype(np.float32)


def along_axis(call: Call, x: Tensor, axis: int, first: Array, weights: Array) -> Tensor:
    """x with an axis replaced by weighted sums along it."""
    rows, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    check_loops(call, weights.shape[1], f"a sum over {weights.shape[1]} neighbours")
    template = Weighted(rows, x.shape[axis], len(first), inner, weights.shape[1])
    flat = reshaped(x, (rows, x.shape[axis], inner), call.node)
    parts = [flat, call.lift(first, call.node), call.lift(weights, call.node)]
    y = call.heavy(template, parts, (rows, len(first), inner), x.dtype)
    return reshaped(y, (*x.shape[:axis], len(first), *x.shape[axis + 1 :]), call.node)


@op("Resize", "Upsample", dtypes="all", known=(1, 2, 3))
def resize(call: Call) -> Tensor:
    """Modes nearest, linear and cubic, every coordinate transformation, antialias, and regions of interest."""
    x, mode = call.x(0), call.attr("mode", "nearest")
    by_expressions = resized(call, cast(x, ir.DataType.FLOAT, call.node) if mode != "nearest" else x)
    if by_expressions is not None:
        return cast(by_expressions, x.dtype, call.node)
    shape, scales = sizes_and_scales(call, x.shape)
    old = call.op_type == "Upsample" or call.opset < 11
    transform = "asymmetric" if old else call.attr("coordinate_transformation_mode", "half_pixel")
    roi = _roi(call, len(x.shape)) if transform == "tf_crop_and_resize" else [(0.0, 1.0)] * len(x.shape)
    dtype, source = x.dtype, x.shape
    x = cast(x, ir.DataType.FLOAT, call.node) if mode != "nearest" and x.type != "f32" else x
    outside: Tensor | None = None
    for axis, (n, m) in enumerate(zip(source, shape, strict=True)):
        if n == m and scales[axis] == 1.0 and roi[axis] == (0.0, 1.0):
            continue
        if 0 in (n, m):
            return Fill(0, shape, dtype)
        p = source_positions(transform, n, m, scales[axis], roi[axis])
        x = _one_axis(
            call, x, axis, p, scales[axis], "floor" if old else call.attr("nearest_mode", "round_prefer_floor")
        )
        if transform == "tf_crop_and_resize":
            outside = _or(call, outside, (p < 0) | (p > n - 1), axis, shape)
    if outside is not None:
        value = Fill(call.attr("extrapolation_value", 0.0), shape, x.dtype)
        x = Map("select({0}, {1}, {2})", [x, value, outside], x.dtype, call.node)
    return cast(x, dtype, call.node)


def _one_axis(call: Call, x: Tensor, axis: int, p: Array, scale: float, rounding: str) -> Tensor:
    mode, n = call.attr("mode", "nearest"), x.shape[axis]
    if mode == "nearest":
        return taken(x, axis, np.clip(nearest(p, rounding), 0, n - 1).astype(np.int64), call)
    shrink = min(scale, 1.0) if call.attr("antialias", 0) else 1.0
    exclude = bool(call.attr("exclude_outside", 0))
    kernel, reach = (cubic(call.attr("cubic_coeff_a", -0.75)), 2) if mode == "cubic" else (linear, 1)
    return along_axis(call, x, axis, *tables(p, n, kernel, reach, shrink, exclude))


def _roi(call: Call, rank: int) -> list[tuple[float, float]]:
    values = [float(v) for v in call.need(1, "region of interest").ravel()]
    half, result = len(values) // 2, [(0.0, 1.0)] * rank
    for a, begin, end in zip(call.attr("axes") or range(rank), values[:half], values[half:], strict=True):
        result[a % rank] = (begin, end)
    return result


def _or(call: Call, before: Tensor | None, mask: Array, axis: int, shape: list[int]) -> Tensor:
    """`mask` along an axis, or what was outside before."""
    one = call.lift(mask.reshape([-1 if a == axis else 1 for a in range(len(shape))]), call.node)
    wide = expanded(one, shape, call.node)
    return wide if before is None else Map("{0} || {1}", [before, wide], ir.DataType.BOOL, call.node)
