"""BatchNormalization and per-channel scale and shift folded into the convolution before them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .driver import Context, Refusal, Replacement, Target, initializer, is_onnx, label, only_reader
from .geometry import integer

CONVOLUTIONS = ("Conv", "ConvTranspose")


def fold_into_convolution(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """Either of the two; one rule, so that a chain folds in the order in which it stands."""
    return fold_batch_normalization(node, context) or fold_scale_and_shift(node, context)


def fold_batch_normalization(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """Conv → BatchNormalization: scale/√(var + ε) goes into the weight, the rest into the bias."""
    if not is_onnx(node, "BatchNormalization") or len([v for v in node.outputs if v.uses()]) > 1:
        return None
    conv = _conv_before(node, node.inputs[0], context)
    if not isinstance(conv, ir.Node):
        return conv
    if integer(node, "training_mode", 0):
        return Refusal("BatchNormalization in training mode computes its statistics from the input")
    parameters = [context.constant(v) for v in node.inputs[1:5]]
    if any(p is None for p in parameters):
        return Refusal("BatchNormalization with statistics that are not constant")
    scale, shift, mean, variance = (np.asarray(p, np.float64) for p in parameters)
    epsilon = node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5
    gain = scale / np.sqrt(variance + epsilon)
    return _folded(node, conv, context, gain, shift - mean * gain)


def fold_scale_and_shift(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """Conv → Mul, Div, Add or Sub by a constant per channel."""
    if not is_onnx(node, "Mul", "Div", "Add", "Sub"):
        return None
    for i in (0, 1):
        value, other = node.inputs[i], node.inputs[1 - i]
        producer = value.producer() if value is not None else None
        if producer is None or not is_onnx(producer, *CONVOLUTIONS) or (i == 1 and node.op_type == "Div"):
            continue
        constant = context.constant(other)
        per_channel = None if constant is None else _per_channel(constant, context, producer)
        if per_channel is None:
            return None  # a residual or a full tensor: nothing to fold
        conv = _conv_before(node, value, context)
        if not isinstance(conv, ir.Node):
            return conv
        one, zero = np.ones_like(per_channel), np.zeros_like(per_channel)
        gain, shift = {
            "Mul": (per_channel, zero),
            "Div": (1 / per_channel, zero),
            "Add": (one, per_channel),
            "Sub": (one, -per_channel) if i == 0 else (-one, per_channel),
        }[node.op_type]
        return _folded(node, conv, context, gain, shift)
    return None


def _per_channel(constant: np.ndarray, context: Context, conv: ir.Node) -> np.ndarray | None:
    """[Cout] if the constant varies along the channel axis alone."""
    w = context.shape(conv.inputs[1])
    if w is None or None in w or constant.ndim > len(w) or constant.dtype.kind != "f":
        return None
    channels = int(w[0] or 0) if conv.op_type == "Conv" else int(w[1] or 0) * integer(conv, "group", 1)
    aligned = constant.reshape((1,) * (len(w) - constant.ndim) + constant.shape)
    if aligned.size not in (1, channels) or aligned.shape[1] != aligned.size:
        return None
    return np.broadcast_to(aligned.reshape(-1), (channels,)).astype(np.float64)


def _conv_before(node: ir.Node, value: ir.Value | None, context: Context) -> ir.Node | Refusal | None:
    conv = value.producer() if value is not None else None
    if conv is None or not is_onnx(conv, *CONVOLUTIONS):
        return None
    if context.target is Target.CPU and conv.op_type == "Conv":
        return None  # ONNX Runtime does it while it loads the model
    assert value is not None
    if only_reader(value) is not node:
        return Refusal(
            f"{node.op_type} after {label(conv)} is not folded: other nodes read the result of the convolution too"
        )
    if context.constant(conv.inputs[1]) is None:
        return Refusal(f"{node.op_type} after {label(conv)} is not folded: the weight is not constant")
    if len(conv.inputs) > 2 and conv.inputs[2] is not None and context.constant(conv.inputs[2]) is None:
        return Refusal(f"{node.op_type} after {label(conv)} is not folded: the bias is not constant")
    return conv


def _folded(
    node: ir.Node, conv: ir.Node, context: Context, gain: np.ndarray, shift: np.ndarray
) -> Replacement | Refusal:
    w = context.constant(conv.inputs[1])
    assert w is not None
    if not (np.isfinite(gain).all() and np.isfinite(shift).all()):
        return Refusal(f"{node.op_type} after {label(conv)} is not folded: its constants are not finite")
    channels, groups = len(gain), integer(conv, "group", 1)
    if conv.op_type == "Conv":
        scaled = w.astype(np.float64) * gain.reshape(-1, *[1] * (w.ndim - 1))
    else:  # [Cin, Cout/g, *K]: the channels of a group stand along axis 1
        split = w.astype(np.float64).reshape(groups, w.shape[0] // groups, *w.shape[1:])
        scaled = (split * gain.reshape(groups, 1, -1, *[1] * (w.ndim - 2))).reshape(w.shape)
    old = context.constant(conv.inputs[2]) if len(conv.inputs) > 2 else None
    bias = (np.zeros(channels) if old is None else old.astype(np.float64)) * gain + shift
    name = f"{label(conv)}_{node.op_type}"
    constants = [
        initializer(f"{name}_weight", scaled.astype(w.dtype)),
        initializer(f"{name}_bias", bias.astype(w.dtype)),
    ]
    fresh = ir.node(conv.op_type, [conv.inputs[0], *constants], dict(conv.attributes), name=label(conv))
    outputs = [*fresh.outputs, *node.outputs[1:]]
    return Replacement([fresh], outputs, f"{node.op_type} folded into {label(conv)}", constants, absorbed=(conv,))
