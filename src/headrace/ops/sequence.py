"""Sequences whose length and positions are known while a graph is lowered: a list of values, and no kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels.expr import reshaped
from .movement import axis_of, sliced
from .registry import OPS, Call, Op, Refuse, Value, op

NAMES = (
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceInsert",
    "SequenceErase",
    "SequenceAt",
    "SequenceLength",
    "SplitToSequence",
    "ConcatFromSequence",
)
NOTE = "lengths and positions known on the host"


def sequence_op(name: str, known: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Register a lowering of a sequence operator."""
    return op(name, since=11, dtypes="all", known=known, note=NOTE)


class TensorSequence(tuple[Value, ...]):
    """An ONNX sequence of tensors while it is lowered."""

    __slots__ = ()


def _sequence(call: Call) -> TensorSequence:
    value: Any = call.inputs[0]
    if not isinstance(value, TensorSequence):
        raise Refuse("a sequence that is known only when it runs")
    return value


def _position(call: Call, i: int, length: int, end: int) -> int:
    """A position in a sequence, negative ones from its end; `end` where none is given."""
    if not call.has(i):
        return end
    at = int(call.need(i, "position").ravel()[0])
    if not -length <= at <= end:
        raise IndexError(f"position {at} in a sequence of {length}")
    return at % length if at < 0 else at


@sequence_op("SequenceConstruct")
def construct(call: Call) -> TensorSequence:
    """The inputs."""
    return TensorSequence(v for v in call.inputs if v is not None)


@sequence_op("SequenceEmpty")
def empty(call: Call) -> TensorSequence:
    """Nothing."""
    return TensorSequence()


@sequence_op("SequenceInsert", known=(2,))
def insert(call: Call) -> TensorSequence:
    """Before a position, or at the end."""
    values, new = list(_sequence(call)), call.inputs[1]
    assert new is not None
    values.insert(_position(call, 2, len(values), len(values)), new)
    return TensorSequence(values)


@sequence_op("SequenceErase", known=(1,))
def erase(call: Call) -> TensorSequence:
    """All but one."""
    values = list(_sequence(call))
    del values[_position(call, 1, len(values), len(values) - 1)]
    return TensorSequence(values)


@sequence_op("SequenceAt", known=(1,))
def at(call: Call) -> Value:
    """One of them."""
    values = _sequence(call)
    return values[_position(call, 1, len(values), len(values) - 1)]


@sequence_op("SequenceLength")
def length(call: Call) -> Value:
    """How many they are."""
    return np.array(len(_sequence(call)), np.int64)


@sequence_op("SplitToSequence", known=(1,))
def split(call: Call) -> TensorSequence:
    """Into pieces of one size, of given sizes, or of one element each (without the axis if keepdims is 0)."""
    x = call.x(0)
    axis = axis_of(call.attr("axis", 0), len(x.shape))
    n = x.shape[axis]
    if call.has(1):
        given = call.need(1, "sizes")
        one = int(given.ravel()[0]) if given.ndim == 0 else 0
        sizes = [min(one, n - i) for i in range(0, n, one)] if one else [int(v) for v in given.ravel()]
        if sum(sizes) != n:
            raise ValueError(f"parts of {sizes} from {n}")
    else:
        sizes = [1] * int(n)
    squeeze = not call.has(1) and not call.attr("keepdims", 1)
    return TensorSequence(_pieces(call, axis, sizes, squeeze))


def _pieces(call: Call, axis: int, sizes: Sequence[int], squeeze: bool) -> list[Value]:
    x, start = call.x(0), 0
    result: list[Value] = []
    rank = len(x.shape)
    for n in sizes:
        shape = [n if a == axis else m for a, m in enumerate(x.shape)]
        piece = sliced(x, [start if a == axis else 0 for a in range(rank)], [1] * rank, shape, call.node)
        start += n
        result.append(reshaped(piece, [m for a, m in enumerate(shape) if a != axis], call.node) if squeeze else piece)
    return result


@sequence_op("ConcatFromSequence")
def concat(call: Call) -> Value:
    """Joined along an axis, or along a new one."""
    values = _sequence(call)
    if not values:
        raise ValueError("the sequence is empty")
    axis = axis_of(call.attr("axis"), len(values[0].shape) + bool(call.attr("new_axis", 0)))
    call.inputs = list(values)
    if call.attr("new_axis", 0):
        call.inputs = [_unsqueezed(call, i, axis) for i in range(len(values))]
    call.attributes, call.op_type = {"axis": axis}, "Concat"
    joined: Op = OPS["", "Concat"]
    result: Value = joined.lower(call)  # type: ignore[assignment]
    return result


def _unsqueezed(call: Call, i: int, axis: int) -> Value:
    x = call.x(i)
    return reshaped(x, (*x.shape[:axis], 1, *x.shape[axis:]), call.node)
