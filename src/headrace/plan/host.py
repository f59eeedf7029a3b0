"""Known values: computes a node on the host, at once, with numpy. Short ways for what shape arithmetic is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.known import SizeArray, dtype_of, is_whole, known_array
from ..kernels.size import largest

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


def _truncated(a: Any, b: Any) -> Any:
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


def _reduced(f: Callable[..., Any]) -> Fast:
    def reduce(x: Inputs, a: Mapping[str, Any]) -> Any:
        axes = x[1].ravel().tolist() if len(x) > 1 and x[1] is not None else a.get("axes")
        if axes is not None and not axes and a.get("noop_with_empty_axes", 0):
            return x[0]
        return f(x[0], axis=tuple(axes) if axes else None, keepdims=bool(a.get("keepdims", 1)))

    return reduce


def _each(f: Callable[..., Any], count: int = 2) -> Fast:
    return lambda x, a: np.frompyfunc(f, count, 1)(*x[:count])


SAME = ("Gather", "Unsqueeze", "Slice", "Reshape", "Squeeze", "Concat", "Transpose", "Expand", "Identity")
TESTS = ("Equal", "Less", "Greater", "GreaterOrEqual", "LessOrEqual")
ON_SIZES: dict[str, Fast] = {
    **{name: FAST[name] for name in (*SAME, *TESTS, "Add", "Sub", "Mul", "Neg")},
    "Div": _each(_truncated),
    "Mod": _each(lambda a, b: a % b),
    "Max": _each(largest),
    "Min": _each(lambda a, b: -largest(-a, -b)),
    "Abs": _each(abs, 1),
    "Where": lambda x, a: np.where(x[0].astype(bool), x[1], x[2]),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(lambda v, **k: np.frompyfunc(largest, 2, 1).reduce(v, **k)),
}
DATA = {"Concat": 1 << 30, "Where": 3, "Gather": 1, **dict.fromkeys(("Unsqueeze", "Squeeze", "Slice", "Reshape"), 1)}


ON_FLOATS = (*SAME, "Add", "Sub", "Mul", "Neg")  # where whole numbers stay whole
WHOLE = (ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE)


def _parts(x: Inputs, a: Mapping[str, Any], count: int, dtype: Any) -> list[Array] | None:
    axis = a.get("axis", 0)
    each = -(-x[0].shape[axis] // count)
    given = x[1].tolist() if len(x) > 1 and x[1] is not None else a.get("split")
    cuts = np.cumsum(given if given else [each] * count)[:-1]
    return [known_array(part, dtype) for part in np.split(np.asarray(x[0], object), cuts, axis)]


def evaluate_sizes(op_type: str, inputs: Inputs, attributes: Mapping[str, Any], count: int = 1) -> list[Array] | None:
    """The output of a node of which some inputs are SizeArrays, exact for all sizes. None where it would need sizes as
    indices, or more than integers."""
    data = DATA.get(op_type, 1 if op_type in ("Expand", "Split") or op_type.startswith("Reduce") else 2)
    if any(isinstance(v, SizeArray) for v in inputs[data:]):
        return None
    dtype = np.dtype(next(dtype_of(v) for v in inputs if isinstance(v, SizeArray)))
    if op_type == "Cast":
        to = ir.DataType(attributes["to"])
        return [known_array(np.asarray(inputs[0]), to.numpy())] if to in WHOLE else None
    if dtype.kind == "f":
        if op_type not in ON_FLOATS or not all(v is None or is_whole(v) for v in inputs[:data]):
            return None
        inputs = [v if v is None or v.dtype.kind != "f" else v.astype(np.int64) for v in inputs]
    if op_type == "Split":
        return _parts(inputs, attributes, count, dtype)
    if op_type not in ON_SIZES or attributes.get("fmod", 0):
        return None
    plain = [
        v if v is None or i >= data else np.asarray(v.tolist() if v.dtype == bool else v, object)
        for i, v in enumerate(inputs)
    ]
    result = ON_SIZES[op_type](plain, attributes)
    return [known_array(result, bool if op_type in TESTS else dtype)]


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
