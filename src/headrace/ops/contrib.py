"""ONNX Runtime's own operators, which its optimizer and its quantizer leave in saved models."""

from __future__ import annotations

import numpy as np

from ..dtypes import Array
from ..kernels.expr import Fill, Map, Tensor, transposed
from .dynamic_quantize import quantization_range
from .elementwise import cast
from .matmul import product
from .normalize import CENTERED, RMS, normalized
from .recurrent import recurrent
from .registry import Call, Refuse, broadcast, op

DOMAIN = "com.microsoft"
TANH_GELU = "0.5 * {0} * (1.0 + tanh_safe(0.7978845608 * ({0} + 0.044715 * {0} * {0} * {0})))"
ERF_GELU = "0.5 * {0} * (1.0 + erf({0} * 0.70710678))"


def _sum(call: Call, parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = Map("{0} + {1}", broadcast([total, part], call.node), total.dtype, call.node)
    return total


@op("FastGelu", "BiasGelu", "Gelu", domain=DOMAIN, since=1)
def gelu(call: Call) -> Tensor:
    """Of x, or of x + bias; FastGelu by tanh, the others exact."""
    x = _sum(call, [call.x(i) for i in range(len(call.inputs)) if call.has(i)])
    text, helper = (TANH_GELU, "tanh_safe") if call.op_type == "FastGelu" else (ERF_GELU, "erf")
    return Map(text, [x], x.dtype, call.node, 14, helper)


@op("QuickGelu", domain=DOMAIN, since=1)
def quick_gelu(call: Call) -> Tensor:
    """x * sigmoid(alpha * x)."""
    x = call.x(0)
    alpha = Fill(float(call.attr("alpha", 1.702)), x.shape, x.dtype)
    return Map("{0} * sigmoid({1} * {0})", [x, alpha], x.dtype, call.node, 8, "sigmoid")


@op("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN, since=1)
def skip_layer_normalization(call: Call) -> list[Tensor | None]:
    """The normalisation of x + skip (+ bias) over the last axis, and that sum."""
    if call.outputs in (2, 3):
        raise Refuse("the mean and deviation outputs")
    simple = call.op_type != "SkipLayerNormalization"
    bias = 3 if simple else 4
    x = _sum(call, [call.x(i) for i in (0, 1, bias) if call.has(i)])
    y = normalized(call, x, len(x.shape) - 1, RMS if simple else CENTERED, call.attr("epsilon", 1e-12))
    y = Map("{0} * {1}", broadcast([y, call.x(2)], call.node), x.dtype, call.node)
    beta = not simple and call.has(3)
    return [_sum(call, [y, call.x(3)]) if beta else y, None, None, x][: call.outputs]


@op("FusedMatMul", domain=DOMAIN, since=1)
def fused_matmul(call: Call) -> Tensor:
    """alpha * A' * B', with the last two axes of either turned."""
    if call.attr("transBatchA", 0) or call.attr("transBatchB", 0):
        raise Refuse("batch axes that are turned")
    a, b = (_turned(call, call.x(i), name) for i, name in ((0, "transA"), (1, "transB")))
    y, alpha = product(call, a, b, a.dtype), float(call.attr("alpha", 1.0))
    return y if alpha == 1.0 else Map("{0} * {1}", [y, Fill(alpha, y.shape, y.dtype)], y.dtype, call.node)


def _turned(call: Call, x: Tensor, name: str) -> Tensor:
    rank = len(x.shape)
    return transposed(x, [*range(rank - 2), rank - 1, rank - 2], call.node) if call.attr(name, 0) and rank > 1 else x


@op("DynamicQuantizeLSTM", domain=DOMAIN, since=1)
def dynamic_quantize_lstm(call: Call) -> list[Tensor]:
    """An LSTM with 8-bit weights, whose inputs and state are rounded to 256 steps over their range at every step."""
    if call.shape(0)[1] != 1:
        raise Refuse("a quantised LSTM of several sequences, which share one range")
    call.inputs[0] = _rounded(call, call.x(0))
    for i, scale in ((1, 8), (2, 10)):
        call.inputs[i] = _weights(call, i, call.need(scale, "scales"), call.need(scale + 1, "zero points"))
    return recurrent(call)


def _rounded(call: Call, x: Tensor) -> Tensor:
    """x as 8-bit numbers show it, over the range of all of it and zero."""
    scale, zero = quantization_range(call, x)
    parts = broadcast([x, scale, cast(zero, x.dtype, call.node)], call.node)
    return Map("(clamp(round({0} / {1}) + {2}, 0.0, 255.0) - {2}) * {1}", parts, x.dtype, call.node, 6)


def _weights(call: Call, i: int, scale: Array, zero: Array) -> Tensor:
    """[directions, inputs, gates] in 8 bits as ONNX's float [directions, gates, inputs]."""

    def pack(value: Array) -> Array:
        s, z = (v.reshape(value.shape[0], 1, -1).astype(np.float32) for v in (scale, zero))
        return np.ascontiguousarray(((value.astype(np.float32) - z) * s).transpose(0, 2, 1))

    return call.packed(i, "lstm", pack)
