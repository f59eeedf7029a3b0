"""The operator Attention, as the matrix products and the softmax that attention.py makes one kernel of."""

from __future__ import annotations

from math import inf, sqrt

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor, expanded, reshaped, transposed
from .masks import along
from .matmul import product
from .movement import Concat, Pad
from .normalize import SOFTMAX, normalized
from .registry import Call, Refuse, broadcast, op


def _heads(x: Tensor, count: int | None, node: str) -> Tensor:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    if len(x.shape) == 4:
        return x
    if not count:
        raise Refuse("inputs of three axes without a number of heads")
    parts = reshaped(x, (*x.shape[:2], count, x.shape[2] // count), node)
    return transposed(parts, (0, 2, 1, 3), node)


def _shared(x: Tensor, heads: int, node: str) -> Tensor:
    """Each head of keys or values for a group of query heads."""
    batch, own, steps, size = x.shape
    if own == heads:
        return x
    wide = expanded(reshaped(x, (batch, own, 1, steps, size), node), (batch, own, heads // own, steps, size), node)
    return reshaped(wide, (batch, heads, steps, size), node)


def _masked(call: Call, scores: Tensor, past: int) -> Tensor:
    """Scores with the mask added, and minus infinity where a query may not look."""
    lowest = Fill(-inf, scores.shape, scores.dtype)
    if call.has(3):
        mask = call.x(3)
        missing = scores.shape[3] - mask.shape[-1]
        if missing and mask.shape[-1] != 1:
            outside = Fill(False if mask.type == "bool" else -inf, (), mask.dtype)
            rest = [0] * (len(mask.shape) - 1)
            mask = Pad(mask, outside, [*rest, 0], [*rest, missing], call.node)
        score, wide = broadcast([scores, mask], call.node)
        if mask.type == "bool":
            scores = Map("select({1}, {0}, {2})", [score, lowest, wide], scores.dtype, call.node)
        else:
            scores = Map("{0} + {1}", [score, wide], scores.dtype, call.node)
    if call.attr("is_causal", 0):
        row, column = along(scores.shape, 2, past), along(scores.shape, 3)
        scores = Map("select({1}, {0}, {2} >= {3})", [scores, lowest, row, column], scores.dtype, call.node)
    return scores


@op("Attention", since=23, note="one kernel; by its definition with windows, lengths, or its scores as an output")
def attention(call: Call) -> list[Tensor]:
    """Three or four axes, shared heads, past keys and values, masks, softcap."""
    if call.outputs > 3 or call.has(6) or max(call.attr(f"{s}_window_size", -1) for s in ("left", "right")) >= 0:
        raise Refuse("windows, lengths of keys, or scores as an output")
    flat = len(call.shape(0)) == 3
    q = _heads(call.x(0), call.attr("q_num_heads"), call.node)
    k, v = (_heads(call.x(i), call.attr("kv_num_heads"), call.node) for i in (1, 2))
    past = call.shape(4)[2] if call.has(4) else 0
    if past:
        k, v = (Concat([call.x(i), new], 2, call.node) for i, new in ((4, k), (5, v)))
    heads = q.shape[1]
    if not k.shape[2] or heads % k.shape[1]:
        raise Refuse("no keys, or heads that do not divide")
    scale = call.attr("scale") or 1 / sqrt(q.shape[3])
    keys, values = _shared(k, heads, call.node), _shared(v, heads, call.node)
    scores = product(call, q, transposed(keys, (0, 1, 3, 2), call.node), q.dtype)
    scores = Map("{0} * {1}", [scores, Fill(scale, scores.shape, q.dtype)], q.dtype, call.node)
    if cap := float(call.attr("softcap", 0.0)):
        bound = Fill(cap, scores.shape, q.dtype)
        scores = Map("{1} * tanh_safe({0} / {1})", [scores, bound], q.dtype, call.node, 10, "tanh_safe")
    p: Tensor = normalized(call, _masked(call, scores, past), 3, SOFTMAX)
    if call.has(3):  # a row in which everything is masked is zero
        test = Map("is_nan({0})", [p], ir.DataType.BOOL, call.node, 2, "is_nan")
        p = Map("select({2}, {1}, {0})", [test, Fill(0, p.shape, p.dtype), p], p.dtype, call.node)
    y = product(call, p, values, q.dtype)
    if flat:
        moved = transposed(y, (0, 2, 1, 3), call.node)
        y = reshaped(moved, (*moved.shape[:2], moved.shape[2] * moved.shape[3]), call.node)
    return [y, k, v][: call.outputs]
