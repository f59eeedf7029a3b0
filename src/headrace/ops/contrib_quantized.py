"""ONNX Runtime's operators on 8-bit tensors, which its quantizer writes in the format QOperator: the numbers that they
stand for go through the operator of that name, and the result is rounded to 8 bits again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor, expanded, reshaped, transposed
from .elementwise import cast
from .integer_product import integer_product
from .quantize import quantized
from .registry import OPS, Call, Refuse, Value, broadcast, op

DOMAIN = "com.microsoft"
FLOAT, I32 = ir.DataType.FLOAT, ir.DataType.INT32
NAMES = {"QLinear" + name: name for name in ("Add", "Mul", "Sigmoid", "LeakyRelu", "Softmax")}
POOLS = {"QLinear" + name: name for name in ("AveragePool", "GlobalAveragePool")}


def _along(call: Call, i: int, shape: tuple[int, ...], axis: int) -> Tensor:
    """Input `i`, a scale or zero point, over a tensor: one number, or one for each slice of `axis`."""
    p = call.x(i)
    if p.size == 1:
        return expanded(reshaped(p, ()), shape, call.node)
    if p.size != shape[axis]:
        raise Refuse(f"scales of shape {list(p.shape)} for {list(shape)}")
    return expanded(reshaped(p, [p.size if a == axis else 1 for a in range(len(shape))], call.node), shape, call.node)


def _real(call: Call, i: int, axis: int = 0) -> Tensor:
    """What input `i` stands for, with the scale and zero point that follow it; a zero point may be left out."""
    x = cast(call.x(i), I32, call.node)
    if call.has(i + 2):
        zero = cast(_along(call, i + 2, x.shape, axis), I32, call.node)
        x = Map("{0} - {1}", [x, zero], I32, call.node)
    return Map("{0} * {1}", [cast(x, FLOAT, call.node), _along(call, i + 1, x.shape, axis)], FLOAT, call.node)


def _rounded(call: Call, y: Tensor, scale: int, axis: int = 0) -> Tensor:
    """`y` in 8 bits, with the scale at input `scale` and the zero point after it."""
    zero = _along(call, scale + 1, y.shape, axis) if call.has(scale + 1) else None
    to = call.dtype(scale + 1) if zero is not None else call.dtype(0)
    return quantized(call, y, _along(call, scale, y.shape, axis), zero, to)


def _by(call: Call, name: str, inputs: list[Value | None], **attributes: Any) -> Tensor:
    """The result of ONNX's operator `name`."""
    opset = int(call.attr("opset", 13))
    inner = replace(call, op_type=name, inputs=inputs, attributes=call.attributes | attributes, opset=opset)
    result: Any = OPS["", name].lower(inner)
    assert isinstance(result, Tensor)
    return result


@op(*NAMES, domain=DOMAIN, since=1, dtypes="int, uint")
def by_numbers(call: Call) -> Tensor:
    """One or two 8-bit tensors, each with its scale and zero point."""
    count = 2 if call.op_type in ("QLinearAdd", "QLinearMul") else 1
    parts: list[Value | None] = [_real(call, 3 * i) for i in range(count)]
    extra = {"axis": call.attr("axis", -1)} if call.op_type == "QLinearSoftmax" else {}
    return _rounded(call, _by(call, NAMES[call.op_type], parts, **extra), 3 * count)


@op(*POOLS, domain=DOMAIN, since=1, dtypes="int, uint")
def pool(call: Call) -> Tensor:
    """With channels first or last."""
    x, rank = _real(call, 0), len(call.shape(0))
    last = bool(call.attr("channels_last", 0))
    if last:
        x = transposed(x, [0, rank - 1, *range(1, rank - 1)], call.node)
    y = _by(call, POOLS[call.op_type], [x])
    return _rounded(call, transposed(y, [0, *range(2, rank), 1], call.node) if last else y, 3)


@op("QLinearConcat", domain=DOMAIN, since=1, dtypes="int, uint")
def concat(call: Call) -> Tensor:
    """Parts with a scale and zero point each; the result's come first."""
    parts: list[Value | None] = [_real(call, i) for i in range(2, len(call.inputs), 3)]
    return _rounded(call, _by(call, "Concat", parts), 0)


@op("QLinearWhere", domain=DOMAIN, since=1, dtypes="int, uint")
def where(call: Call) -> Tensor:
    """A choice between two 8-bit tensors."""
    return _rounded(call, _by(call, "Where", [call.x(0), _real(call, 1), _real(call, 4)]), 7)


@op("QGemm", domain=DOMAIN, since=1, dtypes="int, uint")
def gemm(call: Call) -> Tensor:
    """alpha * A' * B' + C: sums are exact, C has their scale; float32 where the result has no scale."""
    total = integer_product(call, _matrix(call, 0, "transA"), _matrix(call, 3, "transB"))
    if call.has(6):
        total = Map("{0} + {1}", broadcast([total, call.x(6)], call.node), I32, call.node)
    scales = [_along(call, 1, total.shape, 1), _along(call, 4, total.shape, 1)]
    alpha = Fill(float(call.attr("alpha", 1.0)), total.shape, FLOAT)
    y = Map("{0} * ({1} * {2} * {3})", [cast(total, FLOAT, call.node), *scales, alpha], FLOAT, call.node, 3)
    return _rounded(call, y, 7) if call.has(7) else y


def _matrix(call: Call, i: int, turned: str) -> Tensor:
    """Input `i` less its zero point, which may be one a column of the matrix that is multiplied."""
    x = cast(call.x(i), I32, call.node)
    if call.attr(turned, 0):
        x = transposed(x, (1, 0), call.node)
    zero = cast(_along(call, i + 2, x.shape, 1), I32, call.node)
    return Map("{0} - {1}", [x, zero], I32, call.node)
