"""Triangles, identity matrices and one-hot rows: comparisons of coordinates, fused into whatever reads them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..kernels.expr import Fill, Iota, Map, Tensor, expanded, reshaped
from .elementwise import cast
from .movement import axis_of, sliced
from .registry import Call, op
from .resize import taken

I32 = ir.DataType.INT32


def along(shape: tuple[int, ...], axis: int, start: int = 0) -> Tensor:
    """Coordinates along an axis."""
    return Iota(shape, I32, axis, start, 1)


@op("Trilu", since=14, dtypes="all")
def trilu(call: Call) -> Tensor:
    """The upper or lower triangle from diagonal `k` on."""
    x = call.x(0)
    rank = len(x.shape)
    k = cast(call.x(1), I32, call.node) if call.has(1) else Fill(0, (), I32)
    test = "{2} - {1} >= {3}" if call.attr("upper", 1) else "{2} - {1} <= {3}"
    row, column = along(x.shape, rank - 2), along(x.shape, rank - 1)
    k = expanded(reshaped(k, ()), x.shape, call.node)
    return Map(f"select({{4}}, {{0}}, {test})", [x, row, column, k, Fill(0, x.shape, x.dtype)], x.dtype, call.node, 3)


@op("EyeLike", since=9, dtypes="all")
def eye_like(call: Call) -> Tensor:
    """Ones on a diagonal; only the shape of the input matters."""
    shape = call.shape(0)
    dtype = ir.DataType(call.attr("dtype", call.dtype(0)))
    k = Fill(call.attr("k", 0), shape, I32)
    one, zero = Fill(1, shape, dtype), Fill(0, shape, dtype)
    parts = [one, zero, along(shape, 0), along(shape, 1), k]
    return Map("select({1}, {0}, {3} - {2} == {4})", parts, dtype, call.node, 2)


@op("OneHot", since=9, dtypes="all", known=(1,))
def one_hot(call: Call) -> Tensor:
    """A new axis of size `depth`; negative indices count from the end, others outside are nowhere."""
    index, depth = cast(call.x(0), I32, call.node), int(call.need(1, "depth").ravel()[0])
    rank = len(index.shape) + 1
    axis = axis_of(call.attr("axis", -1), rank)
    shape = (*index.shape[:axis], depth, *index.shape[axis:])
    wide = expanded(reshaped(index, (*index.shape[:axis], 1, *index.shape[axis:])), shape, call.node)
    values = call.x(2)
    off, on = (expanded(sliced(values, [i], [1], (1,), call.node), shape, call.node) for i in (0, 1))
    test = "select({2}, {2} + {4}, {2} < 0) == {3}"
    parts = [off, on, wide, along(shape, axis), Fill(depth, shape, I32)]
    return Map(f"select({{0}}, {{1}}, {test})", parts, values.dtype, call.node, 4)


@op("Compress", since=9, dtypes="all", known=(1,))
def compress(call: Call) -> Tensor:
    """The slices where a known condition holds."""
    x, axis = call.x(0), call.attr("axis")
    keep = np.flatnonzero(call.need(1, "condition"))
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    axis = axis_of(axis, len(x.shape))
    keep = np.array([i for i in keep.tolist() if i < x.shape[axis]], np.int64)  # a longer condition is cut
    if not keep.size:
        return Fill(0, (*x.shape[:axis], 0, *x.shape[axis + 1 :]), x.dtype)
    return taken(x, axis, keep, call)


@op("NonZero", since=9, dtypes="all", known=(0,))
def non_zero(call: Call) -> np.ndarray:
    """Where a known value is not zero."""
    found: np.ndarray = np.array(np.nonzero(call.need(0, "values")), np.int64)
    return found
