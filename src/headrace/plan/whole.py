"""The plan of a whole model for given sizes, without a device: for export, and for `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..dtypes import Array
from ..errors import UnsupportedNode
from ..kernels.expr import Tensor
from ..kernels.known import SizeArray
from ..model import Note
from ..target import Target
from .compile import make_plan
from .lower import Graph, Spec, Walk, unsupported
from .plan import Plan


@dataclass(frozen=True, slots=True)
class Whole:
    """The plan up to the first node that has to run on the host, those nodes, and what lowering had to say."""

    plan: Plan
    notes: tuple[Note, ...]
    refused: tuple[UnsupportedNode, ...]
    waiting: int  # nodes that come after the refused ones


def whole_plan(
    graph: Graph,
    inputs: Mapping[str, Spec | Array],
    target: Target,
    stored: dict[str, Array] | None = None,
    host_nodes: Iterable[str] = (),
    exact: bool = False,
) -> Whole:
    """Lower `graph` for inputs of the given shapes (or, where shapes depend on them, values)."""
    walk = Walk(graph, target, host_nodes, exact)
    lowered = walk.run(inputs)
    wanted = [str(v.name) for v in graph.model.graph.outputs]
    for step, _ in lowered.refused:
        wanted += [str(v.name) for v in step.node.inputs if v is not None]
    known = {n for n in wanted if n in lowered.values or n in graph.constants}
    outputs: dict[str, Tensor | Array] = {n: walk.lookup(n) for n in wanted if n in known and n not in inputs}
    outputs = {n: walk.lift(v, n) if isinstance(v, SizeArray) else v for n, v in outputs.items()}
    specs = {n: s for n, s in inputs.items() if isinstance(s, Spec)}
    plan, notes = make_plan(outputs, specs, target, {} if stored is None else stored)
    refused = tuple(unsupported(step, reason) for step, reason in lowered.refused)
    return Whole(plan, (*lowered.notes, *notes), refused, len(lowered.pending))
