"""If, Loop with a known count, Scan: a branch is inlined, or both are and one is chosen; a loop is unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from ..errors import InputError
from ..kernels.expr import Map, Tensor, reshaped, transposed
from ..kernels.size import same
from ..ops import Refuse
from ..ops.movement import Concat, sliced
from ..ops.registry import Value, broadcast
from ..ops.sequence import TensorSequence
from ..rules.driver import label

if TYPE_CHECKING:
    from .lower import Step, Walk

MOST_TURNS = 1024
ON_DEVICE = "its condition is computed on the device"


def lower_control(walk: Walk, step: Step, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
    """Outputs of an If, Loop or Scan. Raises Refuse where what the device computes decides about shapes or turns."""
    if step.node.op_type == "If":
        condition = inputs[0]
        if isinstance(condition, Tensor):
            return _either(walk, step, condition)
        assert isinstance(condition, np.ndarray)
        branch = step.attributes["then_branch" if bool(condition.ravel()[0]) else "else_branch"]
        return _body(walk, step, branch, {})
    if step.node.op_type == "Loop":
        return _loop(walk, step, inputs)
    if walk.opset_of(step) > 8:
        return _scan(walk, step, inputs)
    batch = inputs[1].shape[0] if inputs[1] is not None else 0
    if inputs[0] is not None or not batch:
        raise Refuse("lengths of its sequences")
    each = [_scan(walk, step, [None if v is None else _at(v, 0, i) for v in inputs[1:]]) for i in range(batch)]
    return [_stack(walk, step.name, column) for column in zip(*each, strict=True)]


def _body(walk: Walk, step: Step, graph: ir.Graph, bound: dict[str, Value]) -> list[Value]:
    from .lower import Step, attributes_of

    if id(graph) not in walk.graph.inner:
        walk.graph.inner[id(graph)] = [Step(n, attributes_of(n), label(n), step.opset) for n in graph]
        for name, value in graph.initializers.items():
            assert value.const_value is not None
            walk.graph.constants[name] = value.const_value.numpy()
    walk.env.update(bound)
    before = len(walk.refused)
    for inner in walk.graph.inner[id(graph)]:
        walk.step(inner)
        if len(walk.refused) > before:
            inner_step, reason = walk.refused.pop()
            raise Refuse(f"{inner_step.node.op_type} in its body: {reason}")
    return [walk.lookup(v.name or "") for v in graph.outputs]


def _either(walk: Walk, step: Step, condition: Tensor) -> list[Value]:
    """Outputs of an If whose condition the device computes: those of both branches, of which each element is chosen.
    Raises Refuse for branches that differ in more than elements, and for known integers: shapes may come from them."""
    one = reshaped(condition, (), step.name)
    results: list[Value] = []
    for yes, no in zip(*_both(walk, step), strict=True):
        if isinstance(yes, np.ndarray) and isinstance(no, np.ndarray) and yes.dtype.kind in "iu":
            raise Refuse(f"{ON_DEVICE}, and its branches give known integers")
        if isinstance(yes, TensorSequence) or isinstance(no, TensorSequence):
            raise Refuse(f"{ON_DEVICE}, and its branches give sequences")
        sides = [v if isinstance(v, Tensor) else walk.lift(v, step.name) for v in (yes, no)]
        if not same(sides[0].shape, sides[1].shape) or sides[0].dtype != sides[1].dtype:
            raise Refuse(f"{ON_DEVICE}, and its branches differ in shape or type")
        results.append(Map("select({2}, {1}, {0})", broadcast([one, *sides], step.name), sides[0].dtype, step.name))
    return results


def _both(walk: Walk, step: Step) -> list[list[Value]]:
    """Outputs of both branches. Raises Refuse where one is random, or fails: it may be the one that is never taken."""
    from .lower import RANDOM

    graphs: list[ir.Graph] = [step.attributes[name] for name in ("then_branch", "else_branch")]
    if any(n.op_type in RANDOM for graph in graphs for n in graph.all_nodes()):
        raise Refuse(f"{ON_DEVICE}, and a branch is random")
    try:
        return [_body(walk, step, graph, {}) for graph in graphs]
    except InputError as error:
        raise Refuse(f"{ON_DEVICE}, and a branch fails: {error}") from error


def _loop(walk: Walk, step: Step, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
    trips, condition = inputs[0], inputs[1]
    if isinstance(trips, Tensor) or isinstance(condition, Tensor):
        raise Refuse("its trip count or condition is computed on the device")
    limit = int(trips.ravel()[0]) if trips is not None else MOST_TURNS
    going = bool(condition.ravel()[0]) if condition is not None else True
    body: ir.Graph = step.attributes["body"]
    state = list(inputs[2:])
    names = [v.name or "" for v in body.inputs]
    scans: list[list[Value]] = [[] for _ in body.outputs[1 + len(state) :]]
    turn = 0
    while going and turn < limit:
        if turn >= MOST_TURNS:
            raise Refuse(f"more than {MOST_TURNS} turns")
        values: list[Value] = [np.array(turn, np.int64), np.array(True), *(v for v in state if v is not None)]
        outputs = _body(walk, step, body, dict(zip(names, values, strict=False)))
        if isinstance(outputs[0], Tensor):
            raise Refuse(ON_DEVICE)
        going = bool(outputs[0].ravel()[0])
        state = list(outputs[1 : 1 + len(state)])
        for scan, value in zip(scans, outputs[1 + len(state) :], strict=True):
            scan.append(value)
        turn += 1
    if not turn and scans:
        raise Refuse("a scan output of no turns")
    return [*state, *(_stack(walk, step.name, s) for s in scans)]


def _scan(walk: Walk, step: Step, inputs: Sequence[Value | None]) -> Sequence[Value]:
    body: ir.Graph = step.attributes["body"]
    count: int = step.attributes["num_scan_inputs"]
    values = [v for v in inputs if v is not None]
    state, series = values[:-count], values[-count:]
    results = len(body.outputs) - len(state)
    axes = [a % len(v.shape) for a, v in zip(_list(step, "scan_input_axes", count), series, strict=True)]
    turns = series[0].shape[axes[0]]
    if not 0 < turns <= MOST_TURNS:
        raise Refuse(f"{turns} turns: it is unrolled for 1 to {MOST_TURNS}")
    old = walk.opset_of(step) < 9
    back = _list(step, "directions" if old else "scan_input_directions", count)
    names = [v.name or "" for v in body.inputs]
    rows: list[list[Value]] = [[] for _ in range(results)]
    for turn in range(turns):
        now = [_at(v, a, turns - 1 - turn if b else turn) for v, a, b in zip(series, axes, back, strict=True)]
        outputs = _body(walk, step, body, dict(zip(names, [*state, *now], strict=True)))
        state = outputs[: len(state)]
        for row, value in zip(rows, outputs[len(state) :], strict=True):
            row.append(value)
    turned = [r[::-1] if b else r for r, b in zip(rows, _list(step, "scan_output_directions", results), strict=True)]
    places = _list(step, "scan_output_axes", results)
    return [*state, *(_moved(_stack(walk, step.name, r), a, step.name) for r, a in zip(turned, places, strict=True))]


def _list(step: Step, name: str, count: int) -> list[int]:
    return list(step.attributes.get(name) or [0] * count)


def _at(value: Value, axis: int, index: int) -> Value:
    """The slice of a value at an index of an axis, without that axis."""
    if isinstance(value, np.ndarray):
        taken: Value = np.take(value, index, axis)
        return taken
    rank = len(value.shape)
    shape = [1 if a == axis else n for a, n in enumerate(value.shape)]
    part = sliced(value, [index if a == axis else 0 for a in range(rank)], [1] * rank, shape, value.node)
    return reshaped(part, [n for a, n in enumerate(value.shape) if a != axis], value.node)


def _moved(value: Value, axis: int, node: str) -> Value:
    """A value with its first axis at another place."""
    rank = len(value.shape)
    if isinstance(value, np.ndarray):
        return np.moveaxis(value, 0, axis)
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return transposed(value, order, node)


def _stack(walk: Walk, node: str, values: Sequence[Value]) -> Value:
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values)  # type: ignore[arg-type]
    parts = [v if isinstance(v, Tensor) else walk.lift(v, node) for v in values]
    rows: list[Tensor] = [reshaped(p, (1, *p.shape), node) for p in parts]
    while len(rows) > 1:
        rows = [
            Concat(rows[i : i + 6], 0, node) if len(rows[i : i + 6]) > 1 else rows[i] for i in range(0, len(rows), 6)
        ]
    return rows[0]
