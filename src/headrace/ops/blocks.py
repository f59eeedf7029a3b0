"""Blocks of pixels into channels and back."""

from __future__ import annotations

from ..kernels.expr import Tensor, reshaped, transposed
from .registry import Call, Refuse, op


@op("DepthToSpace", dtypes="all")
def depth_to_space(call: Call) -> Tensor:
    """Channels become blocks of pixels, in the order DCR or CRD."""
    x, block = call.x(0), call.attr("blocksize")
    if len(x.shape) != 4:
        raise Refuse(f"{len(x.shape)} axes instead of 4")
    n, c, h, w = x.shape
    rest = c // block**2
    if call.attr("mode", "DCR") == "DCR":
        parts, perm = (n, block, block, rest, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, perm = (n, rest, block, block, h, w), (0, 1, 4, 2, 5, 3)
    y = transposed(reshaped(x, parts, call.node), perm, call.node)
    return reshaped(y, (n, rest, h * block, w * block), call.node)


@op("SpaceToDepth", dtypes="all")
def space_to_depth(call: Call) -> Tensor:
    """Blocks of pixels become channels."""
    x, block = call.x(0), call.attr("blocksize")
    if len(x.shape) != 4:
        raise Refuse(f"{len(x.shape)} axes instead of 4")
    n, c, h, w = x.shape
    parts = (n, c, h // block, block, w // block, block)
    perm = (0, 3, 5, 1, 2, 4) if call.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    y = transposed(reshaped(x, parts, call.node), perm, call.node)
    return reshaped(y, (n, c * block * block, h // block, w // block), call.node)
