"""If and Loop with known conditions: the branch is inlined, the loop is unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from ..kernels.expr import Tensor, reshaped
from ..ops import Refuse
from ..ops.movement import Concat
from ..ops.registry import Value

if TYPE_CHECKING:
    from .lower import Step, Walk

MOST_TURNS = 1024


def lower_control(walk: Walk, step: Step, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
    """Outputs of an If or Loop. Raises Refuse where the condition is computed on the device."""
    if step.node.op_type == "If":
        condition = inputs[0]
        if not isinstance(condition, np.ndarray):
            raise Refuse("its condition is computed on the device")
        return _body(walk, step.attributes["then_branch" if bool(condition.ravel()[0]) else "else_branch"], {})
    if step.node.op_type == "Loop":
        return _loop(walk, step, inputs)
    raise Refuse("no kernel for this operator")


def _body(walk: Walk, graph: ir.Graph, bound: dict[str, Value]) -> list[Value]:
    from .lower import Step, attributes_of

    if id(graph) not in walk.graph.inner:
        walk.graph.inner[id(graph)] = [
            Step(n, attributes_of(n), n.name or (n.outputs[0].name or n.op_type)) for n in graph
        ]
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
        outputs = _body(walk, body, dict(zip(names, values, strict=False)))
        if isinstance(outputs[0], Tensor):
            raise Refuse("its condition is computed on the device")
        going = bool(outputs[0].ravel()[0])
        state = list(outputs[1 : 1 + len(state)])
        for scan, value in zip(scans, outputs[1 + len(state) :], strict=True):
            scan.append(value)
        turn += 1
    if not turn and scans:
        raise Refuse("a scan output of no turns")
    return [*state, *(_stack(walk, step.name, s) for s in scans)]


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
