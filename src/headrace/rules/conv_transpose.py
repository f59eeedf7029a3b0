"""ConvTranspose as an ordinary convolution: ceil(K/S) taps, S·Cout channels, then a pixel shuffle.

An input element t and a tap k meet at output place t·S + k·d. Writing k·d = j·S + p, output place q·S + p gathers the
input elements q - j over the taps with phase p: a convolution over j for each of the S phases. No zero is multiplied
but those that fill the last tap when S does not divide K, nothing is scattered, and no column matrix exists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from . import cost
from .driver import Context, Refusal, Replacement, Target, initializer, is_onnx, label
from .geometry import Crop, conv_transpose_crop, integer


@dataclass(frozen=True, slots=True)
class Phases:
    """A polyphase convolution: its padding, and what the pixel shuffle has too much at either end."""

    taps: tuple[int, ...]
    pads: tuple[int, ...]  # begin of every axis, then end
    crop_begin: tuple[int, ...]
    crop_end: tuple[int, ...]


def size_of(node: ir.Node, context: Context) -> cost.ConvTransposeSize | None:
    """Sizes of a ConvTranspose whose ranks are known; unknown extents are taken as typical ones."""
    x, w = context.shape(node.inputs[0]), context.shape(node.inputs[1])
    if x is None or w is None or len(x) != len(w) or len(x) < 3 or None in w:
        return None
    kernel = [int(k) for k in w[2:] if k is not None]
    crop = conv_transpose_crop(node, x, kernel)
    strides, spans = (
        ((1,) * len(kernel), tuple(kernel)) if isinstance(crop, str) else (crop.strides, crop.spans(kernel))
    )
    groups, spatial = integer(node, "group", 1), cost.filled(x[2:])
    channels = int(w[0] or 0) // groups
    return cost.ConvTransposeSize(x[0] or 1, groups, channels, int(w[1] or 0), spatial, spans, strides)


def phases(crop: Crop, kernel: Sequence[int]) -> Phases:
    """Whole phases that the crop throws away are never computed; what output_padding adds is padding of the input."""
    taps, before, after, crop_begin, crop_end = [], [], [], [], []
    for span, stride, begin, end in zip(crop.spans(kernel), crop.strides, crop.begin, crop.end, strict=True):
        count = -(-span // stride)
        skip = min(begin // stride, count - 1)
        rest = count * stride - span + end  # places too many at the end
        spare = min(rest // stride, count - 1)  # negative: input padding to add
        taps.append(count)
        before.append(count - 1 - skip)
        after.append(count - 1 - spare)
        crop_begin.append(begin - skip * stride)
        crop_end.append(rest - spare * stride)
    return Phases(tuple(taps), (*before, *after), tuple(crop_begin), tuple(crop_end))


def pack_weight(w: np.ndarray, groups: int, crop: Crop) -> np.ndarray:
    """[Cin, Cout/g, *K] -> the weight of the ordinary convolution, [Cout·ΠS, Cin/g, *taps]: phases within channels."""
    kernel, axes = w.shape[2:], range(w.ndim - 2)
    taps = [-(-span // s) for span, s in zip(crop.spans(kernel), crop.strides, strict=True)]
    dilated = np.zeros((*w.shape[:2], *(r * s for r, s in zip(taps, crop.strides, strict=True))), w.dtype)
    places = tuple(slice(0, (k - 1) * d + 1, d) for k, d in zip(kernel, crop.dilations, strict=True))
    dilated[(slice(None), slice(None), *places)] = w
    split = dilated.reshape(
        groups, w.shape[0] // groups, w.shape[1], *itertools.chain(*zip(taps, crop.strides, strict=True))
    )
    order = (0, 2, *(4 + 2 * i for i in axes), 1, *(3 + 2 * i for i in axes))
    reversed_taps = np.flip(split.transpose(order), axis=tuple(range(-len(kernel), 0)))
    return np.ascontiguousarray(reversed_taps.reshape(-1, w.shape[0] // groups, *taps))


def polyphase(node: ir.Node, context: Context) -> Replacement | Refusal | None:
    """ConvTranspose -> Conv + pixel shuffle, where the cost model promises a gain."""
    if not is_onnx(node, "ConvTranspose") or context.target is Target.WEBGPU:
        return None
    size, w = size_of(node, context), context.constant(node.inputs[1])
    if w is None:
        return Refusal("the weight of this ConvTranspose is not constant: it cannot be packed beforehand")
    if size is None:
        return Refusal("the rank of the input of this ConvTranspose is not known")
    crop = conv_transpose_crop(node, context.shape(node.inputs[0]), w.shape[2:])
    if isinstance(crop, str):
        return Refusal(f"kept as ConvTranspose: {crop}")
    own, poly = cost.scatter_ms(size), cost.polyphase_ms(size)
    estimate = f"estimated {poly:.3g} ms as polyphase, {own:.3g} ms as it stands"
    if own < context.margin * poly:
        return Refusal(f"kept as ConvTranspose: {estimate}; a rewrite must promise {context.margin:g}x")
    return _build(node, context, w, size, crop, estimate)


def _build(
    node: ir.Node, context: Context, w: np.ndarray, size: cost.ConvTransposeSize, crop: Crop, estimate: str
) -> Replacement | Refusal:
    name, shape = label(node), context.shape(node.inputs[0])
    plan, spatial = phases(crop, w.shape[2:]), len(w.shape) - 2
    if w.size == 0 or (shape is not None and 0 in shape):
        return Refusal("kept as ConvTranspose: it has a dimension of size zero")
    weight = initializer(f"{name}_phases", pack_weight(w, size.groups, crop))
    constants = [weight]
    inputs: list[ir.Value | None] = [node.inputs[0], weight]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = context.constant(node.inputs[2])
        if bias is None:
            return Refusal("kept as ConvTranspose: its bias is not constant")
        constants.append(initializer(f"{name}_bias", np.repeat(bias, math.prod(crop.strides))))
        inputs.append(constants[-1])
    attributes: dict[str, Sequence[int] | int] = {"pads": plan.pads, "kernel_shape": plan.taps, "group": size.groups}
    conv = ir.node("Conv", inputs, attributes, name=f"{name}_polyphase")
    shuffle = _shuffle(name, conv.outputs[0], size.groups * size.out_channels, crop, plan, shape)
    if isinstance(shuffle, str):
        return Refusal(f"kept as ConvTranspose: {shuffle}")
    nodes, extra = shuffle
    nodes, extra = _crop(name, [conv, *nodes], [*constants, *extra], plan, spatial, context.opset)
    reason = f"ConvTranspose as a convolution of {'×'.join(map(str, plan.taps))} taps with a pixel shuffle: {estimate}"
    return Replacement(nodes, nodes[-1].outputs, reason, extra)


def _shuffle(
    name: str, value: ir.Value, channels: int, crop: Crop, plan: Phases, x: Sequence[int | None] | None
) -> tuple[list[ir.Node], list[ir.Value]] | str:
    """[N, C·ΠS, *T] -> [N, C, *(T·S)]."""
    strides, spatial = crop.strides, len(crop.strides)
    if all(s == 1 for s in strides):
        return [], []
    if spatial == 2 and strides[0] == strides[1]:
        return [ir.node("DepthToSpace", [value], {"blocksize": strides[0], "mode": "CRD"}, name=f"{name}_shuffle")], []
    if spatial == 1:
        apart, together = [0, channels, strides[0], -1], [0, channels, -1]
    else:
        if x is None or None in x[2:]:
            return "the pixel shuffle of this kind needs the spatial sizes before the run"
        places = [int(t or 0) + plan.pads[i] + plan.pads[spatial + i] - plan.taps[i] + 1 for i, t in enumerate(x[2:])]
        apart = [0, channels, *strides, *places]
        together = [0, channels, *(s * t for s, t in zip(strides, places, strict=True))]
        apart[0] = together[0] = -1 if x[0] is None else int(x[0])
    order = [0, 1, *itertools.chain(*((2 + spatial + i, 2 + i) for i in range(spatial)))]
    shapes = [
        initializer(f"{name}_apart", np.array(apart, np.int64)),
        initializer(f"{name}_together", np.array(together, np.int64)),
    ]
    split = ir.node("Reshape", [value, shapes[0]], name=f"{name}_split")
    turn = ir.node("Transpose", [split.outputs[0]], {"perm": order}, name=f"{name}_shuffle")
    join = ir.node("Reshape", [turn.outputs[0], shapes[1]], name=f"{name}_join")
    return [split, turn, join], shapes


def _crop(
    name: str, nodes: list[ir.Node], constants: list[ir.Value], plan: Phases, spatial: int, opset: int
) -> tuple[list[ir.Node], list[ir.Value]]:
    if not any(plan.crop_begin) and not any(plan.crop_end):
        return nodes, constants
    huge = np.iinfo(np.int64).max
    starts, axes = list(plan.crop_begin), list(range(2, 2 + spatial))
    ends = [-c if c else huge for c in plan.crop_end]
    value = nodes[-1].outputs[0]
    if opset < 10:
        cut = ir.node("Slice", [value], {"starts": starts, "ends": ends, "axes": axes}, name=f"{name}_crop")
        return [*nodes, cut], constants
    limits = [
        initializer(f"{name}_{which}", np.array(values, np.int64))
        for which, values in (("starts", starts), ("ends", ends), ("axes", axes))
    ]
    cut = ir.node("Slice", [value, *limits], name=f"{name}_crop")
    return [*nodes, cut], [*constants, *limits]
