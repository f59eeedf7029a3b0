"""Where the CPU device leaves ONNX Runtime: products with a DFT basis, STFT and DFT become steps through scipy.fft.

A step stands in the graph as a node of the domain `headrace`, with the callable in its `meta["step"]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...model.shapes import Dims
from ...rules import cost
from ...rules.conv_transpose import size_of
from ...rules.dft import SMALLEST, DftBasis, plausible, recognise
from ...rules.driver import Context, Refusal, Replacement, constant_tensor, is_onnx, label
from ...rules.geometry import conv_transpose_crop, integer, ints, string
from .steps import Dft, FramedTransform, OverlapAdd, ProductTransform, Step, Stft, View
from .transform import Transform

DOMAIN = "headrace"
FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


def may_change(node: ir.Node) -> bool:
    """A cheap look at one node: can any rule of the CPU device replace it for some shapes?"""
    if is_onnx(node, "ConvTranspose", "STFT", "DFT"):
        return True
    if is_onnx(node, "Conv"):
        weight = constant_tensor(node.inputs[1])
        return weight is None or (
            len(weight.shape) > 2 and weight.shape[1] == 1 and _number(weight.shape[2]) >= SMALLEST
        )
    if is_onnx(node, "MatMul"):
        return any(_may_be_dft(v) for v in node.inputs)
    return False


def _number(size: object) -> int:
    return size if isinstance(size, int) else 0


def _may_be_dft(value: ir.Value | None) -> bool:
    weight = stored_weight(value)
    return weight is not None and weight.rows.ndim == 2 and (plausible(weight.rows) or plausible(weight.rows.T))


def step_node(
    node: ir.Node, inputs: Sequence[ir.Value | None], step: Step, reason: str, key: object = None
) -> Replacement:
    made = ir.node(type(step).__name__, inputs, domain=DOMAIN, name=f"{label(node)}_fft")
    made.meta["step"] = step
    made.meta["key"] = key
    made.meta["threads"] = not isinstance(step, View)
    return Replacement([made], made.outputs, reason)


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A constant, and the dtype in which the model stores it: a Cast may widen it."""

    name: str
    rows: np.ndarray
    stored: np.dtype

    def reshaped(self, rows: np.ndarray) -> Weight:
        return Weight(self.name, rows, self.stored)


def stored_weight(value: ir.Value | None) -> Weight | None:
    """The value as a constant, through a Cast, if it is one and holds floats."""
    if value is None:
        return None
    tensor = constant_tensor(value)
    if tensor is not None:
        array = tensor.numpy()
        return Weight(str(value.name), array, array.dtype) if array.dtype.kind == "f" else None
    producer = value.producer()
    if producer is not None and is_onnx(producer, "Cast"):
        inner = constant_tensor(producer.inputs[0])
        if inner is not None and inner.dtype in FLOATS:
            array = inner.numpy()
            return Weight(str(value.name), array.astype(np.float64), array.dtype)
    return None


def _line(kernel: Sequence[int], x: Dims) -> int | None:
    """The one spatial axis along which everything lies, the others being of size 1 in kernel and input; else None."""
    long = [i for i, k in enumerate(kernel) if k > 1]
    if len(long) != 1:
        return None
    return long[0] if all(x[2 + i] == 1 for i in range(len(kernel)) if i != long[0]) else None


def _basis(weight: Weight, side: str, context: Context) -> DftBasis | Refusal | None:
    """`recognise`, once a weight: the result does not depend on the shapes at hand. `side` tells looks apart."""
    key = (weight.name, side)
    if key not in context.memo:
        context.memo[key] = recognise(weight.rows, weight.stored, context.dft_tolerance)
    found = context.memo[key]
    if isinstance(found, DftBasis):
        return found
    return None if found.error is None else Refusal(f"no FFT for this weight: {found.reason}")


def _transform(node: ir.Node, basis: DftBasis, x: ir.Value | None) -> Transform:
    return Transform.of(basis, np.dtype(np.float64 if x is not None and x.dtype == ir.DataType.DOUBLE else np.float32))


def _pays(dense_ms: float, frames: int, basis: DftBasis, margin: float) -> str | Refusal:
    fft = cost.fft_ms(frames, basis.n)
    estimate = f"estimated {fft:.3g} ms as FFT, {dense_ms:.3g} ms dense"
    if dense_ms < margin * fft:
        return Refusal(f"a DFT of length {basis.n}, kept dense: {estimate}")
    return estimate


def inverse_stft(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """ConvTranspose whose weight [rows, 1, taps] is an inverse DFT basis -> FFT and overlap-add."""
    if not is_onnx(node, "ConvTranspose"):
        return None
    weight, size, x = stored_weight(node.inputs[1]), size_of(node, context), context.shape(node.inputs[0])
    if weight is None or size is None or x is None or weight.rows.ndim != len(x):
        return None
    kernel = weight.rows.shape[2:]
    axis = _line(kernel, x)
    if weight.rows.shape[1] != 1 or size.groups != 1 or axis is None:
        return None
    dense = min(cost.scatter_ms(size), cost.polyphase_ms(size))
    if dense < context.margin * cost.fft_ms(size.frames, kernel[axis]):
        return None
    basis = _basis(weight.reshaped(weight.rows.reshape(-1, kernel[axis])), "rows", context)
    if not isinstance(basis, DftBasis):
        return basis
    crop = conv_transpose_crop(node, x, kernel)
    others = [i for i in range(len(kernel)) if i != axis]
    if isinstance(crop, str) or crop.dilations[axis] != 1 or any(crop.begin[i] or crop.end[i] for i in others):
        why = crop if isinstance(crop, str) else "dilated, or padded along another axis"
        return Refusal(f"an inverse DFT of length {basis.n}, kept dense: {why}")
    estimate = _pays(dense, size.frames, basis, context.margin)
    if isinstance(estimate, Refusal):
        return estimate
    edges = (crop.begin[axis], crop.end[axis])
    ones = (axis, len(kernel) - 1 - axis)
    step = OverlapAdd(_transform(node, basis, node.inputs[0]), crop.strides[axis], *edges, *ones)
    reason = f"inverse STFT: ConvTranspose is an inverse DFT of length {basis.n} with overlap-add"
    return step_node(node, [node.inputs[0], *node.inputs[2:3]], step, f"{reason}{_rebuilt(basis)}: {estimate}", edges)


def _rebuilt(basis: DftBasis) -> str:
    return f" (weight rebuilt to {basis.error:.1e})"


def forward_stft(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """Conv whose weight [rows, 1, taps] is a DFT basis -> FFT of frames."""
    if not is_onnx(node, "Conv"):
        return None
    weight, x = stored_weight(node.inputs[1]), context.shape(node.inputs[0])
    if weight is None or x is None or weight.rows.ndim != len(x) or len(x) < 3:
        return None
    kernel, spatial = weight.rows.shape[2:], len(x) - 2
    axis, strides = _line(kernel, x), ints(node, "strides", [1] * spatial)
    if weight.rows.shape[1] != 1 or integer(node, "group", 1) != 1 or axis is None:
        return None
    if len(strides) != spatial or min(strides) < 1:
        return None
    samples = cost.filled(x[2 + axis : 3 + axis], 512 * strides[axis])[0]
    frames = (x[0] or 1) * max(samples // strides[axis], 1)
    dense = cost.gemm_ms(2.0 * frames * weight.rows.size) + frames * kernel[axis] * 0.5e-6
    if dense < context.margin * cost.fft_ms(frames, kernel[axis]):
        return None
    basis = _basis(weight.reshaped(weight.rows.reshape(-1, kernel[axis])), "rows", context)
    if not isinstance(basis, DftBasis):
        return basis
    pads, auto_pad = ints(node, "pads", [0] * 2 * spatial), string(node, "auto_pad", "NOTSET")
    others = [v for i, v in enumerate(pads) if i % spatial != axis]
    if any(d != 1 for d in ints(node, "dilations", [1] * spatial)) or any(others):
        return Refusal(f"a DFT of length {basis.n}, kept dense: dilated, or padded along another axis")
    estimate = _pays(dense, frames, basis, context.margin)
    if isinstance(estimate, Refusal):
        return estimate
    both = (pads[axis], pads[spatial + axis])
    edges = auto_pad if auto_pad.startswith("SAME") else (0, 0) if auto_pad == "VALID" else both
    ones = (axis, spatial - 1 - axis)
    step = FramedTransform(_transform(node, basis, node.inputs[0]), strides[axis], edges, *ones)
    reason = f"STFT: Conv is a DFT of length {basis.n}{_rebuilt(basis)}: {estimate}"
    return step_node(node, [node.inputs[0], *node.inputs[2:3]], step, reason)


def dft_product(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """MatMul with a DFT matrix, on either side, forward or inverse -> FFT."""
    if not is_onnx(node, "MatMul"):
        return None
    for side in (1, 0):
        weight, x = stored_weight(node.inputs[side]), context.shape(node.inputs[1 - side])
        if weight is None or x is None or weight.rows.ndim != 2 or len(x) < 2:
            continue
        dims = [d for i, d in enumerate(x) if i != len(x) - (1 if side else 2)]
        frames = int(np.prod(cost.filled(dims))) if dims else 1
        dense = cost.gemm_ms(2.0 * frames * weight.rows.size)
        if dense >= context.margin * cost.fft_ms(frames, min(weight.rows.shape)):
            return _product(node, context, weight, side, frames, dense)
    return None


def _product(
    node: ir.Node, context: Context, weight: Weight, side: int, frames: int, dense: float
) -> Replacement | Refusal | None:
    refusal: Refusal | None = None
    w = weight.rows if side == 1 else weight.rows.T  # [in, out]
    for inverse, rows in ((False, w.T), (True, w)):
        basis = _basis(weight.reshaped(rows), f"{side} {inverse}", context)
        if not isinstance(basis, DftBasis):
            refusal = refusal or basis
            continue
        estimate = _pays(dense, frames, basis, context.margin)
        if isinstance(estimate, Refusal):
            return estimate
        x = node.inputs[1 - side]
        step = ProductTransform(_transform(node, basis, x), inverse, -1 if side == 1 else -2)
        kind = "an inverse" if inverse else "a"
        return step_node(node, [x], step, f"MatMul is {kind} DFT of length {basis.n}{_rebuilt(basis)}: {estimate}")
    return refusal


def stft(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """STFT -> scipy.fft; ONNX Runtime's computes one small transform at a time."""
    if not is_onnx(node, "STFT"):
        return None
    return step_node(node, node.inputs, Stft(bool(integer(node, "onesided", 1))), "STFT through scipy.fft")


def dft(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """DFT -> scipy.fft; ONNX Runtime's takes n² operations where n is no power of two."""
    if not is_onnx(node, "DFT"):
        return None
    default_axis = 1 if context.opset < 20 else -2
    step = Dft(
        bool(integer(node, "inverse", 0)), bool(integer(node, "onesided", 0)), integer(node, "axis", default_axis)
    )
    return step_node(node, node.inputs, step, "DFT through scipy.fft")


def reshaped_output(node: ir.Node, context: Context) -> Replacement | None:
    """A Reshape that a rewrite made, and that only gives a graph output its shape -> a view of the array."""
    if not is_onnx(node, "Reshape") or "origins" not in node.meta or integer(node, "allowzero", 0):
        return None
    value, shape = node.inputs[0], context.constant(node.inputs[1])
    if shape is None or value is None or value.producer() is None or value.is_graph_output():
        return None
    if not node.outputs[0].is_graph_output() or node.outputs[0].uses():
        return None
    dims = tuple(int(d) for d in shape)
    return step_node(node, [value], View(dims), "", dims)


FFT_RULES = (inverse_stft, forward_stft, dft_product, stft, dft)
