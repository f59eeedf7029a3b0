"""Resize where sizes are expressions: positions in the source are quotients of integers, computed by the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels.emit import Scope
from ..kernels.expr import Coords, Tensor
from ..kernels.index import Lin
from ..kernels.size import Number, Size, at_least, same
from .registry import Call

LARGEST_RATIO = 4096  # of the two integers that a scale is the quotient of
Ratio = tuple[Number, Number, Number]  # position = (a * o + b) / d


class Sampled(Tensor):
    """`x` read at (a * o + b) / d along an axis: its whole part, or between it and the next by the rest."""

    __slots__ = ("axis", "linear", "ratio")

    def __init__(self, x: Tensor, axis: int, length: Number, ratio: Ratio, linear: bool, node: str) -> None:
        super().__init__((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype, (x,), node)
        self.axis, self.ratio, self.linear, self.cost = axis, ratio, linear, 12 if linear else 4

    def emit(self, scope: Scope, coords: Coords) -> str:
        a, b, d = self.ratio
        place = coords[self.axis] * a + b
        first = self._read(scope, coords, place // d)
        if not self.linear:
            return first
        second = self._read(scope, coords, place // d + 1)
        part = scope.let(f"f32({scope.lin(place % d)}) / {scope.param(d, 'f32')}", "f32")
        return f"({first} * (1.0 - {part}) + {second} * {part})"

    def _read(self, scope: Scope, coords: Coords, at: Lin) -> str:
        x = self.inputs[0]
        n = x.shape[self.axis]
        if not (at_least(at.lo, 0) and at_least(n - 1, at.hi)):
            at = scope.data_index(f"clamp({scope.lin(at)}, 0, {scope.param(n - 1, 'i32')})", n)
        return scope.value(x, (*coords[: self.axis], at, *coords[self.axis + 1 :]))


def resized(call: Call, x: Tensor) -> Tensor | None:
    """The whole of a nearest or linear Resize. None where no size is an expression, or positions are no such
    quotients: then tables are made for the sizes that are traced."""
    mode, scaled = call.attr("mode", "nearest"), _scaled(call, x.shape)
    if mode not in ("nearest", "linear") or call.attr("antialias", 0) or call.attr("exclude_outside", 0) or not scaled:
        return None
    old = call.op_type == "Upsample" or call.opset < 11
    transform = "asymmetric" if old else call.attr("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else call.attr("nearest_mode", "round_prefer_floor")
    for axis, (m, num, den) in enumerate(scaled):
        n = x.shape[axis]
        if same(n, m) and same(num, den):
            continue
        ratio = _position(transform, n, m, num, den)
        if ratio is None:
            return None
        if mode == "nearest":
            ratio = _rounded(ratio, rounding)
        x = Sampled(x, axis, m, ratio, mode == "linear", call.node)
    return x


def _scaled(call: Call, shape: Sequence[Number]) -> list[tuple[Number, Number, Number]] | None:
    """For each axis its new size and the two integers whose quotient is the scale's inverse."""
    axes = [a % len(shape) for a in call.attr("axes") or range(len(shape))]
    result: list[tuple[Number, Number, Number]] = [(n, 1, 1) for n in shape]
    sizes = call.ints(3, "sizes") if call.has(3) else None
    if not any(isinstance(v, Size) for v in (*shape, *(sizes or ()))):
        return None
    if sizes is not None:
        if call.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            return None
        for a, m in zip(axes, sizes, strict=True):
            result[a] = (m, 1, 1) if same(m, shape[a]) else (m, shape[a], m)
        return result
    where = 1 if call.op_type == "Upsample" or call.opset < 11 else 2
    known = call.known(where)
    scales = known.ravel() if known is not None else call.attr("scales") or ()
    for a, scale in zip(axes, scales, strict=False):
        up, down = float(scale).as_integer_ratio()
        if max(up, down) > LARGEST_RATIO:
            return None
        result[a] = (shape[a] * up // down, down, up)
    return result if len(scales) else None


def _position(transform: str, n: Number, m: Number, num: Number, den: Number) -> Ratio | None:
    if transform == "asymmetric":
        return num, 0, den
    if transform == "half_pixel" or (transform == "pytorch_half_pixel" and m != 1):
        return 2 * num, num - den, 2 * den
    if transform == "pytorch_half_pixel":
        return 0, 0, 1
    if transform == "align_corners" and same(m * num, n * den):
        return (n - 1, 0, m - 1) if m != 1 else (0, 0, 1)
    return None


def _rounded(ratio: Ratio, mode: str) -> Ratio:
    """Such that the whole part of the new quotient is the old one rounded."""
    a, b, d = ratio
    if mode == "floor":
        return ratio
    if mode == "ceil":
        return a, b + d - 1, d
    return 2 * a, 2 * b + (d if mode == "round_prefer_ceil" else d - 1), 2 * d
