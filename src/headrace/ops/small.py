"""Small operators that are a few others: LpNormalization, LRN, ReduceLogSumExp, Det, and some of ai.onnx.ml."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..kernels.expr import Fill, Map, Tensor, expanded, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .matmul import floats_only
from .movement import Pad, Take, axis_of, sliced
from .reduce import KINDS, SUM, axes_of, reduced
from .registry import Call, Refuse, broadcast, check_loops, op

WIDEST = 64


@op("LpNormalization", since=1)
def lp_normalization(call: Call) -> Tensor:
    """x over its norm along an axis; a row of zeros stays zero."""
    x = call.x(0)
    axis = axis_of(call.attr("axis", -1), len(x.shape))
    norm = reduced(call, x, [axis], KINDS["ReduceL1" if call.attr("p", 2) == 1 else "ReduceL2"], True)
    parts = [x, expanded(norm, x.shape, call.node)]
    return Map("select({0} / {1}, 0.0, {1} == 0.0)", parts, x.dtype, call.node, 3)


@op("LRN", since=1)
def lrn(call: Call) -> Tensor:
    """Local response normalisation over neighbouring channels."""
    x, size = call.x(0), call.attr("size")
    if size > WIDEST:
        raise Refuse(f"a window of {size} channels: at most {WIDEST}")
    square = Map("{0} * {0}", [x], x.dtype, call.node)
    before, after = (size - 1) // 2, size // 2
    rest = [0] * (len(x.shape) - 2)
    wide = Pad(square, Fill(0, (), x.dtype), [0, before, *rest], [0, after, *rest], call.node)
    total: Tensor = Fill(call.attr("bias", 1.0), x.shape, x.dtype)
    scale = Fill(call.attr("alpha", 1e-4) / size, x.shape, x.dtype)
    for i in range(size):
        part = sliced(wide, [0, i, *rest], [1] * len(x.shape), x.shape, call.node)
        total = Map("{0} + {1} * {2}", [total, part, scale], x.dtype, call.node, 2)
    beta = Fill(call.attr("beta", 0.75), x.shape, x.dtype)
    return Map("{0} / pow({1}, {2})", [x, total, beta], x.dtype, call.node, 10)


@op("ReduceLogSumExp", known=(1,))
def reduce_log_sum_exp(call: Call) -> Tensor:
    """The logarithm of a sum of exponentials, less the largest element, so that none overflows."""
    x = call.x(0)
    floats_only(x, "ReduceLogSumExp")
    axes = axes_of(call, len(x.shape))
    if not axes:
        return x
    keep = bool(call.attr("keepdims", 1))
    if not x.size:
        return reduced(call, x, axes, KINDS["ReduceLogSum"], keep)
    most = reduced(call, x, axes, KINDS["ReduceMax"], True)
    shift = Map("select({0}, 0.0, is_inf({0}))", [most], x.dtype, call.node, 2, "is_inf")
    powers = Map("exp({0} - {1})", [x, expanded(shift, x.shape, call.node)], x.dtype, call.node, 7)
    total = reduced(call, powers, axes, SUM, True)
    y = Map("log_exact({0}) + {1}", [total, shift], x.dtype, call.node, 7, "log_exact")
    left = [n for a, n in enumerate(x.shape) if a not in axes]
    return y if keep else reshaped(y, left, call.node)


@dataclass(frozen=True)
class Det(Template):
    """out[i] = the determinant of x[i], by elimination with pivots; a thread has a matrix."""

    count: int
    n: int
    name = "det"

    def build(self, b: Build) -> Launch:
        i, r, c = variable("i", self.count), variable("r", self.n), variable("c", self.n)
        b.read("x", 0, (i, r, c), ("i", "r", "c"))
        groups = spread(ceil_div(self.count, 64), b.target.workgroups)
        b.text.const(N=self.n)
        b.text.uniform(total=self.count, groups_x=groups[0])
        b.store("store_out", ["i"], [(i,)], [("v", "f32")])
        return Launch(wgsl(__file__, "det.wgsl"), (*groups, 1), self.count * self.n**3)


@op("Det", since=11)
def det(call: Call) -> Tensor:
    """Determinants of small matrices."""
    x = call.x(0)
    floats_only(x, "Det")
    n = x.shape[-1]
    if not 0 < n <= WIDEST:
        raise Refuse(f"a matrix of size {n}: 1 to {WIDEST}")
    check_loops(call, n * n + (n * n + n) // 2 + n**3 // 3, f"a matrix of size {n}")
    count = prod(x.shape[:-2])
    y = call.heavy(Det(count, n), [reshaped(x, (count, n, n), call.node)], (count,), x.dtype)
    return reshaped(y, x.shape[:-2], call.node)


@op("Binarizer", domain="ai.onnx.ml", since=1)
def binarizer(call: Call) -> Tensor:
    """1 above a threshold, else 0."""
    x = call.x(0)
    parts = broadcast([x, Fill(call.attr("threshold", 0.0), (), x.dtype)], call.node)
    return Map("select(0.0, 1.0, {0} > {1})", parts, x.dtype, call.node)


@op("ArrayFeatureExtractor", domain="ai.onnx.ml", since=1, dtypes="all")
def array_feature_extractor(call: Call) -> Tensor:
    """Columns of the last axis."""
    x, index = call.x(0), call.x(1)
    rows = reshaped(x, (prod(x.shape[:-1]), x.shape[-1]), call.node)
    y = Take(rows, reshaped(index, (index.size,)), 1, call.node)
    return reshaped(y, (*x.shape[:-1], index.size), call.node) if len(x.shape) > 1 else y
