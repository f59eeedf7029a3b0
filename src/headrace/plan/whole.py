"""The plan of a whole model for given sizes, without a device: for export, and for `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..dtypes import Array
from ..errors import UnsupportedNode
from ..kernels.expr import Tensor
from ..kernels.known import SizeArray
from ..model import Note
from ..target import Target
from .compile import make_plan
from .lower import Graph, Lowered, Spec, Step, Walk, host_step, reads, unsupported
from .plan import Plan


@dataclass(frozen=True, slots=True)
class Whole:
    """The plan up to a node that has to run on the host and whose outputs are not known beforehand (to the end, where
    there is none), the nodes that run there, and what lowering had to say."""

    plan: Plan
    notes: tuple[Note, ...]
    refused: tuple[UnsupportedNode, ...]
    waiting: int  # nodes that come after the refused ones, for which there is no plan
    hopeless: tuple[UnsupportedNode, ...] = ()  # of those, what has no kernel either


def whole_plan(
    graph: Graph,
    inputs: Mapping[str, Spec | Array],
    target: Target,
    stored: dict[str, Array] | None = None,
    host_nodes: Iterable[str] = (),
    exact: bool = False,
    after_host: Mapping[str, Spec] | None = None,
) -> Whole:
    """Lower `graph` for inputs of the given shapes (or, where shapes depend on them, values). With `after_host`, the
    shapes of what host nodes make as far as they are known, the plans after host steps are made and linked too."""
    stored, host_nodes = {} if stored is None else stored, tuple(host_nodes)
    stages: list[Plan] = []
    notes: list[Note] = []
    refused: list[UnsupportedNode] = []
    steps: list[Step] | None = None
    while True:
        walk = Walk(graph, target, host_nodes, exact)
        lowered = walk.run(inputs, steps)
        plan, said = _stage(walk, lowered, inputs, target, stored)
        stages.append(plan)
        notes += [*lowered.notes, *said]
        refused += [unsupported(step, reason) for step, reason in lowered.refused]
        following = None if after_host is None else _following(walk, lowered, after_host)
        if not lowered.pending or following is None:
            break
        inputs, steps = following, lowered.pending
    whole = stages[-1]
    for plan in reversed(stages[:-1]):
        whole = replace(plan, next=whole)
    hopeless = tuple(walk.hopeless(lowered.pending))
    return Whole(whole, tuple(dict.fromkeys(notes)), tuple(refused), len(lowered.pending), hopeless)


def _stage(
    walk: Walk, lowered: Lowered, inputs: Mapping[str, Spec | Array], target: Target, stored: dict[str, Array]
) -> tuple[Plan, list[Note]]:
    """The plan up to the refused nodes: it ends with what they, those that wait for them, and the model's user read."""
    wanted = [str(v.name) for v in walk.graph.model.graph.outputs]
    for step in (*(s for s, _ in lowered.refused), *lowered.pending):
        wanted += reads(step)
    known = {n for n in wanted if n in lowered.values or n in walk.graph.constants}
    outputs: dict[str, Tensor | Array] = {n: walk.lookup(n) for n in wanted if n in known and n not in inputs}
    outputs = {n: walk.lift(v, n) if isinstance(v, SizeArray) else v for n, v in outputs.items()}
    specs = {n: s for n, s in inputs.items() if isinstance(s, Spec)}
    plan, notes = make_plan(outputs, specs, target, stored)
    steps = tuple(host_step(step, reason) for step, reason in lowered.refused)
    on_host = {name for step in steps for name in step.reads} | {str(v.name) for v in walk.graph.model.graph.outputs}
    back = tuple(r for r in plan.readbacks if r.name in on_host)  # the others stay on the device
    return (replace(plan, host_steps=steps, readbacks=back) if steps else plan), notes


def _following(walk: Walk, lowered: Lowered, after_host: Mapping[str, Spec]) -> dict[str, Spec | Array] | None:
    """What is known of the values that the waiting nodes read; None where a shape is not."""
    made = {v.name for step in lowered.pending for v in step.node.outputs}
    found: dict[str, Spec | Array] = {}
    for step in lowered.pending:
        for name in reads(step):
            if not name or name in made or name in found or name in walk.graph.constants:
                continue
            value = lowered.values.get(name)
            if isinstance(value, np.ndarray):
                found[name] = value
            elif isinstance(value, Tensor):
                found[name] = Spec(value.shape, value.dtype)
            elif name in after_host:
                found[name] = after_host[name]
            else:
                return None
    return found
