"""Resize. Sizes are known on the host, so the source index of each position is a table made there, exactly as ONNX
says."""

from __future__ import annotations

import numpy as np

from ..dtypes import Array
from ..kernels.expr import Tensor, View
from .movement import Take, sliced
from .registry import Call, Refuse, op


def source_positions(mode: str, n: int, m: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where each of `m` positions lies among `n`, as float64, for a coordinate transformation mode."""
    o = np.arange(m, dtype=np.float64)
    if mode == "asymmetric":
        return o / scale
    if mode == "align_corners":
        return o * (n - 1) / (m - 1) if m > 1 else np.zeros(m)
    if mode == "pytorch_half_pixel":
        return (o + 0.5) / scale - 0.5 if m > 1 else np.zeros(m)
    if mode == "half_pixel_symmetric":
        adjusted = m / (scale * n)
        center = n / 2 * (1 - adjusted)
        return center + (o + 0.5) / scale - 0.5
    if mode == "tf_crop_and_resize":
        a, b = roi
        return a * (n - 1) + o * (b - a) * (n - 1) / (m - 1) if m > 1 else np.full(m, 0.5 * (a + b) * (n - 1))
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


def sizes_and_scales(call: Call, shape: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """The result's shape and the scale of each axis, from scales or sizes, axes and keep_aspect_ratio_policy."""
    rank = len(shape)
    if call.op_type == "Upsample" or call.opset < 11:
        scales = [float(v) for v in call.need(1, "scales").ravel()] if call.has(1) else list(call.attr("scales"))
        return [int(np.floor(n * s)) for n, s in zip(shape, scales, strict=True)], scales
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
            out[a], factors[a] = int(np.floor(shape[a] * float(f))), float(f)
    else:
        raise Refuse("its scales or sizes are computed on the device, and shapes must be known before it runs")
    return out, factors


@op("Resize", "Upsample", dtypes="all", known=(1, 2, 3), note="mode nearest")
def resize(call: Call) -> Tensor:
    """Nearest is an index map; the other modes are not here yet."""
    x, mode = call.x(0), call.attr("mode", "nearest")
    if mode != "nearest":
        raise Refuse(f"mode {mode}")
    shape, scales = sizes_and_scales(call, x.shape)
    old = call.op_type == "Upsample" or call.opset < 11
    transform = "asymmetric" if old else call.attr("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else call.attr("nearest_mode", "round_prefer_floor")
    if transform == "tf_crop_and_resize":
        raise Refuse("tf_crop_and_resize")
    for axis, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        if n != m or scales[axis] != 1.0:
            index = nearest(source_positions(transform, n, m, scales[axis], (0.0, 1.0)), rounding)
            x = taken(x, axis, np.clip(index, 0, n - 1).astype(np.int64), call)
    return x
