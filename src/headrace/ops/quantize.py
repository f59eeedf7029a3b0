"""Quantised numbers: to and from 8- and 16-bit integers, and products of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha1
from math import prod

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.expr import Fill, Map, Tensor, View, expanded, reshaped
from ..kernels.index import Lin, unflatten
from ..kernels.size import largest, same
from .conv import Window, window_of
from .elementwise import cast
from .integer_product import integer_product
from .movement import Pad, axis_of
from .registry import Call, Refuse, broadcast, op

FLOAT, I32 = ir.DataType.FLOAT, ir.DataType.INT32
_RANGE = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-32768, 32767),
    ir.DataType.UINT16: (0, 65535),
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT4: (0, 15),
}


def _spread(p: Tensor, shape: tuple[int, ...], axis: int, block: int, node: str) -> Tensor:
    """A scale or zero point over a tensor: one number, one a slice of `axis`, or one a block of it."""
    if p.size == 1:
        return expanded(reshaped(p, ()), shape, node)
    if len(p.shape) == 1 and not block:
        return expanded(reshaped(p, [n if a == axis else 1 for a, n in enumerate(shape)], node), shape, node)
    if not block:
        raise Refuse(f"scales of shape {list(p.shape)} for {list(shape)}")
    source = list(p.shape)
    source[axis] = shape[axis]
    view = View("blocks", p, source, lambda c: (*c[:axis], c[axis] // block, *c[axis + 1 :]), node)
    return expanded(view, shape, node)


def quantized(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None, to: ir.DataType) -> Tensor:
    """round(x / scale) + zero point, saturated; all of one shape. Halves round to even."""
    if to not in _RANGE:
        raise Refuse(f"quantisation to {to.name.lower()}")
    low, high = (Fill(v, x.shape, FLOAT) for v in _RANGE[to])
    offset = cast(zero, FLOAT, call.node) if zero is not None else Fill(0, x.shape, FLOAT)
    y = Map("clamp(round({0} / {1}) + {2}, {3}, {4})", [x, scale, offset, low, high], FLOAT, call.node, 5)
    return cast(y, to, call.node)


@op("QuantizeLinear", since=10)
def quantize_linear(call: Call) -> Tensor:
    """One scale, one a slice, or one a block."""
    x = cast(call.x(0), FLOAT, call.node)
    axis, block = axis_of(call.attr("axis", 1), max(len(x.shape), 2)), call.attr("block_size", 0)
    to = call.dtype(2) if call.has(2) else ir.DataType(call.attr("output_dtype", 0) or ir.DataType.UINT8)
    scale = _spread(cast(call.x(1), FLOAT, call.node), x.shape, axis, block, call.node)
    zero = _spread(call.x(2), x.shape, axis, block, call.node) if call.has(2) else None
    return quantized(call, x, scale, zero, to)


@op("DequantizeLinear", since=10, dtypes="int, uint")
def dequantize_linear(call: Call) -> Tensor:
    """(x - zero point) * scale, in the dtype of the scale."""
    x, dtype = call.x(0), call.dtype(1)
    dtype = ir.DataType(call.attr("output_dtype", 0) or dtype)
    axis, block = axis_of(call.attr("axis", 1), max(len(x.shape), 2)), call.attr("block_size", 0)
    scale = _spread(call.x(1), x.shape, axis, block, call.node)
    y = x
    if call.has(2) and x.type != "f32":
        zero = _spread(call.x(2), x.shape, axis, block, call.node)
        y = Map("{0} - {1}", [cast(x, I32, call.node), cast(zero, I32, call.node)], I32, call.node)
    return Map("{0} * {1}", [cast(y, FLOAT, call.node), scale], dtype, call.node)


Broadcastable = Callable[[Sequence[int]], Sequence[int]]  # shape of zero points -> the shape in which they broadcast


def _rows(shape: Sequence[int]) -> Sequence[int]:
    """Of one number, or one a row of a matrix."""
    return () if prod(shape) == 1 else (*shape, 1) if len(shape) == 1 else shape


def _columns(shape: Sequence[int]) -> Sequence[int]:
    """Of one number, or one a column of a matrix."""
    return () if prod(shape) == 1 else (1, *shape) if len(shape) == 1 else shape


def _kernels(rank: int) -> Broadcastable:
    """Of one number, or one for each first coordinate of weights of `rank` axes."""
    return lambda shape: () if prod(shape) == 1 else (prod(shape), *(1 for _ in range(rank - 1)))


def _centered(call: Call, i: int, zero: int, spread: Broadcastable) -> Tensor:
    """Input `i` less its zero point (input `zero`), as int32. Of constants, one number is subtracted where they are
    read, and several once, on the host."""
    x, z = cast(call.x(i), I32, call.node), call.known(zero)
    if not call.has(zero) or (z is not None and not z.any()):
        return x
    if z is None:
        offset = cast(call.x(zero), I32, call.node)
    elif z.size == 1 or call.known(i) is None:
        offset = call.lift(z.astype(np.int32), call.node)
    else:
        wide = z.astype(np.int32).reshape(spread(z.shape))
        how = f"less {sha1(wide.tobytes()).hexdigest()[:12]}"
        return cast(call.packed(i, how, lambda w: _narrowest(w.astype(np.int32) - wide)), I32, call.node)
    parts = broadcast([x, reshaped(offset, spread(offset.shape), call.node)], call.node)
    return Map("{0} - {1}", parts, I32, call.node)


def _narrowest(w: Array) -> Array:
    """In 8 bits where they hold it."""
    return w.astype(np.int8) if w.size and w.min() >= -128 and w.max() < 128 else w


@op("MatMulInteger", since=10, dtypes="int, uint")
def matmul_integer(call: Call) -> Tensor:
    """8-bit matrices with their zero points; sums are exact."""
    return integer_product(call, _centered(call, 0, 2, _rows), _centered(call, 1, 3, _columns))


@op("QLinearMatMul", since=10, dtypes="int, uint")
def qlinear_matmul(call: Call) -> Tensor:
    """8-bit matrices to an 8-bit matrix."""
    y = integer_product(call, _centered(call, 0, 2, _rows), _centered(call, 3, 5, _columns))
    a_scale, b_scale = call.x(1), call.x(4)
    if a_scale.size > 1:
        a_scale = reshaped(a_scale, (a_scale.size, 1))
    return _requantized(call, y, a_scale, b_scale, 6, 7)


def _requantized(call: Call, y: Tensor, a: Tensor, b: Tensor, scale: int, zero: int) -> Tensor:
    """Exact sums of products, scaled by a * b / scale and rounded to the dtype of the zero point."""
    factor = [expanded(t if t.size > 1 else reshaped(t, ()), y.shape, call.node) for t in (a, b)]
    out = expanded(reshaped(call.x(scale), ()), y.shape, call.node)
    offset = expanded(reshaped(call.x(zero), ()), y.shape, call.node)
    real = Map("{0} * ({1} * {2})", [cast(y, FLOAT, call.node), *factor], FLOAT, call.node, 2)
    return quantized(call, real, out, offset, call.dtype(zero))


def _convolved(call: Call, x: Tensor, w: Tensor, window: Window) -> Tensor:
    """Integer convolution: weights of a group times its columns of the input; `x` is centred, so zeros pad it."""
    groups, taps, rank = call.attr("group", 1), prod(window.taps), len(window.taps)
    batch, channels, rows = x.shape[0], w.shape[1], w.shape[0] // groups
    after = [
        largest((o - 1) * s + (k - 1) * d + 1 - n - p, 0)
        for o, s, k, d, n, p in zip(
            window.outside, window.strides, window.taps, window.dilations, window.inside, window.before, strict=True
        )
    ]
    if not same((*window.before, *after), (0,) * 2 * rank):
        x = Pad(x, Fill(0, (), I32), (0, 0, *window.before), (0, 0, *after), call.node)
    positions = prod(window.outside)
    steps = list(zip(window.strides, window.dilations, strict=True))

    def source(c: tuple[Lin, ...]) -> tuple[Lin, ...]:
        o, t = unflatten(c[3], window.outside), unflatten(c[2] % taps, window.taps)
        place = (q * s + k * d for q, k, (s, d) in zip(o, t, steps, strict=True))
        return (c[0], c[1] * channels + c[2] // taps, *place)

    columns = View("columns", x, (batch, groups, channels * taps, positions), source, call.node)
    left = expanded(reshaped(w, (1, groups, rows, channels * taps)), (batch, groups, rows, channels * taps), call.node)
    y = integer_product(call, left, columns)
    return reshaped(y, (batch, groups * rows, *window.outside[:rank]), call.node)


@op("ConvInteger", since=10, dtypes="int, uint")
def conv_integer(call: Call) -> Tensor:
    """8-bit convolution with zero points; sums are exact."""
    window = window_of(call, call.shape(1)[2:], call.shape(0)[2:])
    kernels = _kernels(len(call.shape(1)))
    return _convolved(call, _centered(call, 0, 2, kernels), _centered(call, 1, 3, kernels), window)


@op("QLinearConv", since=10, dtypes="int, uint")
def qlinear_conv(call: Call) -> Tensor:
    """8-bit convolution to 8 bits; the bias has the scale of the sums."""
    window = window_of(call, call.shape(3)[2:], call.shape(0)[2:])
    kernels = _kernels(len(call.shape(3)))
    y = _convolved(call, _centered(call, 0, 2, kernels), _centered(call, 3, 5, kernels), window)
    if call.has(8):
        bias = reshaped(call.x(8), (call.x(8).size, *(1 for _ in y.shape[2:])))
        y = Map("{0} + {1}", broadcast([y, bias], call.node), I32, call.node)
    b_scale = call.x(4)
    b_scale = reshaped(b_scale, _kernels(len(y.shape) - 1)(b_scale.shape), call.node)
    return _requantized(call, y, call.x(1), b_scale, 6, 7)
