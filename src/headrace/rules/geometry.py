"""Strides, dilations and padding of convolutions, with every `auto_pad` and `output_shape` made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ..model.shapes import Dims


@dataclass(frozen=True, slots=True)
class Crop:
    """A transposed convolution, one entry a spatial axis: output index o = t·stride + k·dilation - begin, and the
    output has (t - 1)·stride + (k - 1)·dilation + 1 - begin - end places. output_padding makes `end` smaller."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]

    def spans(self, kernel: Sequence[int]) -> tuple[int, ...]:
        """Places that one input element reaches: (k - 1)·dilation + 1."""
        return tuple((k - 1) * d + 1 for k, d in zip(kernel, self.dilations, strict=True))


def ints(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    attribute = node.attributes.get(name)
    return tuple(default) if attribute is None else tuple(int(v) for v in attribute.as_ints())


def integer(node: ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else int(attribute.as_int())


def string(node: ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return default if attribute is None else str(attribute.as_string())


def split_padding(total: int, auto_pad: str) -> tuple[int, int]:
    """The odd place goes to the end for SAME_UPPER, to the start otherwise (ONNX ConvTranspose)."""
    half = total // 2
    return (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)


def conv_transpose_crop(node: ir.Node, x: Dims | None, kernel: Sequence[int]) -> Crop | str:
    """What a ConvTranspose node says about its padding, or why it cannot be known before the run."""
    spatial = len(kernel)
    strides, dilations = ints(node, "strides", [1] * spatial), ints(node, "dilations", [1] * spatial)
    added = ints(node, "output_padding", [0] * spatial)
    auto_pad, wanted = string(node, "auto_pad", "NOTSET"), ints(node, "output_shape", [])[-spatial:]
    pads = ints(node, "pads", [0] * 2 * spatial)
    lengths = {len(strides), len(dilations), len(added), len(pads) // 2}
    if lengths != {spatial} or min(*strides, *dilations) < 1 or (wanted and len(wanted) != spatial):
        return "its attributes do not fit its kernel"
    begin, end = list(pads[:spatial]), list(pads[spatial:])
    for i in range(spatial):
        span = (kernel[i] - 1) * dilations[i] + 1
        size = x[2 + i] if x is not None else None
        if wanted:
            if size is None:
                return f"output_shape is given, and the size of spatial axis {i} is not known before the run"
            total = (size - 1) * strides[i] + added[i] + span - wanted[i]
            begin[i], end[i] = split_padding(max(total, 0), auto_pad)
            end[i] = (size - 1) * strides[i] + span - begin[i] - wanted[i]
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            if added[i] + span < strides[i]:
                return f"auto_pad is {auto_pad} and the kernel is under the stride: runtimes differ on the size"
            begin[i], _ = split_padding(max(added[i] + span - strides[i], 0), auto_pad)
            end[i] = span - strides[i] - begin[i]  # the result has size·stride places
        else:
            end[i] -= added[i]
            if auto_pad == "VALID":
                begin[i], end[i] = 0, -added[i]
    return Crop(strides, dilations, tuple(begin), tuple(end))
