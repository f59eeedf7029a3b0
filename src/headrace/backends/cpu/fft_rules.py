"""Where the CPU device leaves ONNX Runtime: products with a DFT basis, STFT and DFT become steps through scipy.fft.

A step stands in the graph as a node of the domain `headrace`, with the callable in its `meta["step"]`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...rules import cost
from ...rules.conv_transpose import size_of
from ...rules.dft import DftBasis, recognise
from ...rules.driver import Context, Refusal, Replacement, constant_tensor, is_onnx, label
from ...rules.geometry import conv_transpose_crop, integer, ints, string
from .steps import Dft, FramedTransform, OverlapAdd, ProductTransform, Step, Stft
from .transform import Transform

DOMAIN = "headrace"
FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


def step_node(node: ir.Node, inputs: Sequence[ir.Value | None], step: Step, reason: str) -> Replacement:
    made = ir.node(type(step).__name__, inputs, domain=DOMAIN, name=f"{label(node)}_fft")
    made.meta["step"] = step
    return Replacement([made], made.outputs, reason)


def stored_weight(value: ir.Value | None) -> tuple[np.ndarray, np.dtype] | None:
    """A constant and the dtype it is stored in, through a Cast that widens it."""
    tensor = constant_tensor(value)
    if tensor is not None:
        array = tensor.numpy()
        return (array, array.dtype) if array.dtype.kind == "f" else None
    producer = value.producer() if value is not None else None
    if producer is not None and is_onnx(producer, "Cast"):
        inner = constant_tensor(producer.inputs[0])
        if inner is not None and inner.dtype in FLOATS:
            array = inner.numpy()
            return array.astype(np.float64), array.dtype
    return None


def _one_axis(node: ir.Node, shape: tuple[int, ...]) -> bool:
    """All of the kernel, stride and padding lies along the first spatial axis or the only one that is not of size 1."""
    return len(shape) == 3 or all(k == 1 for k in shape[3:])


def _basis(weight: tuple[np.ndarray, np.dtype], rows: np.ndarray, context: Context) -> DftBasis | Refusal | None:
    found = recognise(rows, weight[1], context.dft_tolerance)
    if isinstance(found, DftBasis):
        return found
    return None if found.error is None else Refusal(f"no FFT for this weight: {found.reason}")


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
    weight, size = stored_weight(node.inputs[1]), size_of(node, context)
    if weight is None or size is None or weight[0].ndim != len(size.kernel) + 2:
        return None
    w = weight[0]
    if w.shape[1] != 1 or size.groups != 1 or not _one_axis(node, w.shape) or w.shape[2] < 2:
        return None
    dense = min(cost.scatter_ms(size), cost.polyphase_ms(size))
    if dense < context.margin * cost.fft_ms(size.frames, w.shape[2]):
        return None
    basis = _basis(weight, w.reshape(w.shape[0], w.shape[2]), context)
    if not isinstance(basis, DftBasis):
        return basis
    crop = conv_transpose_crop(node, context.shape(node.inputs[0]), w.shape[2:])
    if isinstance(crop, str) or any(d != 1 for d in crop.dilations) or any(v for v in (*crop.begin[1:], *crop.end[1:])):
        return Refusal(
            f"an inverse DFT of length {basis.n}, kept dense: {crop if isinstance(crop, str) else 'dilated'}"
        )
    estimate = _pays(dense, size.frames, basis, context.margin)
    if isinstance(estimate, Refusal):
        return estimate
    dtype = np.dtype(
        np.float64 if node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.DOUBLE else np.float32
    )
    step = OverlapAdd(Transform.of(basis, dtype), crop.strides[0], crop.begin[0], crop.end[0], w.ndim - 3)
    return step_node(node, [node.inputs[0], *node.inputs[2:3]], step, f"inverse STFT: ConvTranspose is an inverse DFT of length "
                     f"{basis.n} with overlap-add (weight rebuilt to {basis.error:.1e}): {estimate}")  # fmt: skip


def forward_stft(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """Conv whose weight [rows, 1, taps] is a DFT basis -> FFT of frames."""
    if not is_onnx(node, "Conv"):
        return None
    weight, x = stored_weight(node.inputs[1]), context.shape(node.inputs[0])
    if weight is None or x is None or weight[0].ndim != len(x) or weight[0].ndim < 3:
        return None
    w, spatial = weight[0], weight[0].ndim - 2
    strides = ints(node, "strides", [1] * spatial)
    if w.shape[1] != 1 or integer(node, "group", 1) != 1 or not _one_axis(node, w.shape) or w.shape[2] < 2:
        return None
    frames = (x[0] or 1) * max(cost.filled(x[2:3], 512 * strides[0])[0] // strides[0], 1)
    dense = cost.gemm_ms(2.0 * frames * w.size) + frames * w.shape[2] * 0.5e-6
    if dense < context.margin * cost.fft_ms(frames, w.shape[2]):
        return None
    basis = _basis(weight, w.reshape(w.shape[0], w.shape[2]), context)
    if not isinstance(basis, DftBasis):
        return basis
    pads, auto_pad = ints(node, "pads", [0] * 2 * spatial), string(node, "auto_pad", "NOTSET")
    others = [v for i, v in enumerate(pads) if i % spatial]
    if any(d != 1 for d in ints(node, "dilations", [1] * spatial)) or any(others) or any(s != 1 for s in strides[1:]):
        return Refusal(f"a DFT of length {basis.n}, kept dense: dilated, or padded along another axis")
    estimate = _pays(dense, frames, basis, context.margin)
    if isinstance(estimate, Refusal):
        return estimate
    edges = auto_pad if auto_pad.startswith("SAME") else (0, 0) if auto_pad == "VALID" else (pads[0], pads[spatial])
    dtype = np.dtype(
        np.float64 if node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.DOUBLE else np.float32
    )
    step = FramedTransform(Transform.of(basis, dtype), strides[0], edges, w.ndim - 3)
    return step_node(node, [node.inputs[0], *node.inputs[2:3]], step, f"STFT: Conv is a DFT of length {basis.n} "
                     f"(weight rebuilt to {basis.error:.1e}): {estimate}")  # fmt: skip


def dft_product(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """MatMul with a DFT matrix, on either side, forward or inverse -> FFT."""
    if not is_onnx(node, "MatMul"):
        return None
    for side in (1, 0):
        weight, x = stored_weight(node.inputs[side]), context.shape(node.inputs[1 - side])
        if weight is None or x is None or weight[0].ndim != 2 or len(x) < 2:
            continue
        w = weight[0] if side == 1 else weight[0].T  # [in, out]
        dims = [d for i, d in enumerate(x) if i != len(x) - (1 if side else 2)]
        frames = int(np.prod(cost.filled(dims))) if dims else 1
        dense = cost.gemm_ms(2.0 * frames * w.size)
        if dense < context.margin * cost.fft_ms(frames, min(w.shape)):
            continue
        return _product(node, context, weight, w, side, frames, dense)
    return None


def _product(
    node: ir.Node,
    context: Context,
    weight: tuple[np.ndarray, np.dtype],
    w: np.ndarray,
    side: int,
    frames: int,
    dense: float,
) -> Replacement | Refusal | None:
    refusal: Refusal | None = None
    for inverse, rows in ((False, w.T), (True, w)):
        basis = _basis(weight, rows, context)
        if not isinstance(basis, DftBasis):
            refusal = refusal or basis
            continue
        estimate = _pays(dense, frames, basis, context.margin)
        if isinstance(estimate, Refusal):
            return estimate
        x = node.inputs[1 - side]
        dtype = np.dtype(np.float64 if x is not None and x.dtype == ir.DataType.DOUBLE else np.float32)
        step = ProductTransform(Transform.of(basis, dtype), inverse, -1 if side == 1 else -2)
        return step_node(node, [x], step, f"MatMul is {'an inverse' if inverse else 'a'} DFT of length {basis.n} "
                         f"(weight rebuilt to {basis.error:.1e}): {estimate}")  # fmt: skip
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


FFT_RULES = (inverse_stft, forward_stft, dft_product, stft, dft)
