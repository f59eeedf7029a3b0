"""Shifts and reinterpretation of bits."""

from __future__ import annotations

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor
from .elementwise import NARROW, cast
from .registry import Call, Refuse, broadcast, op

_WORDS = {ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.UINT32}


@op("BitShift", since=11, dtypes="int, uint")
def bit_shift(call: Call) -> Tensor:
    """A shift by at least the width, or by less than nothing, moves every bit out but the sign."""
    a, b = broadcast([call.x(0), call.x(1)], call.node)
    width = min(a.dtype.bitwidth, 32)
    bits = Fill(width, a.shape, a.dtype)
    left = call.attr("direction", "") == "LEFT"
    if a.type == "u32":
        text = f"select({{0}} {'<<' if left else '>>'} min({{1}}, 31u), 0u, {{1}} >= {{2}})"
    elif left:
        text = "select({0} << u32(clamp({1}, 0, 31)), 0, {1} < 0 || {1} >= {2})"
    else:
        text = "{0} >> u32(select({1}, 31, {1} < 0 || {1} >= {2}))"
    y: Tensor = Map(text, [a, b, bits], a.dtype, call.node, 3)
    return Map(NARROW[a.dtype], [y], a.dtype, call.node) if left and a.dtype in NARROW else y


@op("BitCast", since=26, dtypes="all but 64 bits")
def bit_cast(call: Call) -> Tensor:
    """The same bits as another dtype of the same width."""
    x, to = call.x(0), ir.DataType(call.attr("to"))
    if x.dtype == to:
        return x
    if x.dtype.bitwidth == 64 or x.dtype.bitwidth != to.bitwidth:
        raise Refuse(f"the bits of {x.dtype.name.lower()} are not kept on the device")
    result = Fill(0, (), to)
    if x.dtype in _WORDS and to in _WORDS:
        return Map(f"bitcast<{result.type}>({{0}})", [x], to, call.node)
    if x.dtype == ir.DataType.FLOAT16 and result.type in ("i32", "u32"):
        text = "pack2x16float(vec2<f32>({0}, 0.0))"
        text = f"bitcast<i32>({text} << 16u) >> 16u" if result.type == "i32" else text
        return Map(text, [x], to, call.node, 2)
    if to == ir.DataType.FLOAT16 and x.type in ("i32", "u32"):
        return Map("unpack2x16float(u32({0}) & 65535u).x", [x], to, call.node, 2)
    if "f32" in (x.type, result.type):
        raise Refuse(f"the bits of {x.dtype.name.lower()} as {to.name.lower()}")
    return cast(x, to, call.node)
