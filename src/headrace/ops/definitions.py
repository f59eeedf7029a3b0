"""Operators without a kernel of their own: plan/functions.py lowers ONNX's definition of them, part by part."""

from __future__ import annotations

from typing import NoReturn

from .registry import Call, Refuse, op

NOTE = "by its definition in ONNX"


@op("LinearAttention", "CausalConvWithState", since=27, note=NOTE)
@op("FlexAttention", domain="ai.onnx.preview", since=1, note=NOTE)
@op("RotaryEmbedding", since=23, note=NOTE)
@op("SwiGLU", since=28, note=NOTE)
@op("MeanVarianceNormalization", since=9, note=NOTE)
@op("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", since=12, note=NOTE)
@op("CenterCropPad", since=18, dtypes="all", known=(1,), note=NOTE)
@op("AffineGrid", since=20, known=(1,), note=NOTE)
@op("HannWindow", "HammingWindow", "BlackmanWindow", since=17, known=(0,), note=NOTE)
def by_definition(call: Call) -> NoReturn:
    """Always refuses; the definition is then lowered instead."""
    raise Refuse(f"{call.op_type} has no kernel of its own")
