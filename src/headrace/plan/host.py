"""Known values: computes a node on the host, at once, with numpy. Short ways for what shape arithmetic is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ..dtypes import Array

Inputs = Sequence[Any]  # arrays, or None for an input that is not given
Fast = Callable[[Inputs, Mapping[str, Any]], Any]


def _gather(x: Inputs, a: Mapping[str, Any]) -> Any:
    return np.take(x[0], x[1], axis=a.get("axis", 0))


def _unsqueeze(x: Inputs, a: Mapping[str, Any]) -> Any:
    array = x[0]
    assert array is not None
    axes = [int(v) for v in (x[1].ravel() if len(x) > 1 and x[1] is not None else a["axes"])]
    rank = array.ndim + len(axes)
    places, rest = {v % rank for v in axes}, iter(array.shape)
    return array.reshape([1 if i in places else next(rest) for i in range(rank)])


def _slice(x: Inputs, a: Mapping[str, Any]) -> Any:
    array = x[0]
    assert array is not None
    lists = [[int(v) for v in y.ravel()] if y is not None else None for y in x[1:]]
    lists += [None] * (4 - len(lists))
    starts, ends = lists[0] or list(a.get("starts", ())), lists[1] or list(a.get("ends", ()))
    axes = lists[2] or list(a.get("axes") or range(len(starts)))
    steps = lists[3] or [1] * len(starts)
    index = [slice(None)] * array.ndim
    for axis, s, e, k in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(s, e if k > 0 or e >= -array.shape[axis] else None, k)
    return array[tuple(index)]


def _reshape(x: Inputs, a: Mapping[str, Any]) -> Any:
    array, shape = x[0], x[1]
    assert array is not None and shape is not None
    want = [int(n) for n in shape]
    if not a.get("allowzero", 0):
        want = [array.shape[i] if n == 0 else n for i, n in enumerate(want)]
    return array.reshape(want)


def _squeeze(x: Inputs, a: Mapping[str, Any]) -> Any:
    array = x[0]
    assert array is not None
    axes = x[1].ravel() if len(x) > 1 and x[1] is not None else a.get("axes")
    return np.squeeze(array) if axes is None else np.squeeze(array, tuple(int(v) for v in axes))


def _divide(x: Inputs, a: Mapping[str, Any]) -> Any:
    p, q = x
    assert p is not None and q is not None
    if p.dtype.kind in "iu":
        if not np.all(q):
            raise ZeroDivisionError("an integer division by zero in the graph")
        return (np.sign(p) * np.sign(q) * (np.abs(p) // np.abs(q))).astype(p.dtype)
    return np.divide(p, q)


def _cast(x: Inputs, a: Mapping[str, Any]) -> Any:
    array, to = x[0], ir.DataType(a["to"])
    assert array is not None
    if array.dtype.kind not in "fiub" or to in (ir.DataType.STRING,) or int(to) > 13:
        return NotImplemented
    return array.astype(to.numpy())


def _two(f: Callable[..., Any]) -> Fast:
    return lambda x, a: f(x[0], x[1])


FAST: dict[str, Fast] = {
    "Gather": _gather,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Cast": _cast,
    "Div": _divide,
    "Add": _two(np.add),
    "Sub": _two(np.subtract),
    "Mul": _two(np.multiply),
    "Equal": _two(np.equal),
    "Less": _two(np.less),
    "Greater": _two(np.greater),
    "And": _two(np.logical_and),
    "Or": _two(np.logical_or),
    "GreaterOrEqual": _two(np.greater_equal),
    "LessOrEqual": _two(np.less_equal),
    "Concat": lambda x, a: np.concatenate([v for v in x if v is not None], axis=a.get("axis", 1)),
    "Where": lambda x, a: np.where(x[0], x[1], x[2]),
    "Transpose": lambda x, a: np.transpose(x[0], a.get("perm")),
    "Expand": lambda x, a: np.broadcast_to(x[0], np.broadcast_shapes(x[0].shape, tuple(map(int, x[1])))),
    "Range": lambda x, a: np.arange(x[0].reshape(()), x[1].reshape(()), x[2].reshape(()), dtype=x[0].dtype),
    "Not": lambda x, a: np.logical_not(x[0]),
    "Identity": lambda x, a: x[0],
    "Floor": lambda x, a: np.floor(x[0]),
    "Ceil": lambda x, a: np.ceil(x[0]),
    "Neg": lambda x, a: np.negative(x[0]),
}


def evaluate(node: ir.Node, inputs: Inputs, attributes: Mapping[str, Any], opset: int) -> list[Array]:
    """Outputs of a node whose inputs are all known. Raises what numpy or onnx.reference raises on impossible values."""
    if node.domain == "" and node.op_type in FAST:
        with np.errstate(all="ignore"):
            result = FAST[node.op_type](inputs, attributes)
        if result is not NotImplemented:
            return [np.asarray(result)]
    from onnx.reference import ReferenceEvaluator

    proto = ir.to_proto(node)
    assert isinstance(proto, onnx.NodeProto)
    evaluator = ReferenceEvaluator(proto, opsets={node.domain or "": opset})
    feeds = {n: a for n, a in zip(proto.input, inputs, strict=False) if n and a is not None}
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in evaluator.run(None, feeds)]
