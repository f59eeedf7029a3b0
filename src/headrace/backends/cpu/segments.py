"""A rewritten graph cut into ONNX Runtime sessions and steps, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ...model import Model
from ...model.proto import shared_proto
from .ort_session import create
from .steps import Step, Workers
from .watch import Watch


@dataclass(frozen=True, slots=True)
class Stage:
    """One stretch of the road: what it reads and writes by name, and how."""

    inputs: tuple[str, ...]  # "" where a step's optional input is left out
    outputs: tuple[str, ...]
    run: Callable[[list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Segments:
    """The stages, and after which of them a value is needed no longer."""

    stages: tuple[Stage, ...]
    constants: Mapping[str, np.ndarray]
    last_use: Mapping[str, int]

    def run(self, names: Sequence[str], feeds: Mapping[str, Any]) -> list[Any]:
        values: dict[str, Any] = {**self.constants, **feeds}
        for i, stage in enumerate(self.stages):
            results = stage.run([values.get(name) for name in stage.inputs])
            values.update(zip(stage.outputs, results, strict=True))
            for name in stage.inputs:
                if self.last_use.get(name) == i and name not in names:
                    values.pop(name, None)
        return [values[name] for name in names]


class UntypedValue(Exception):
    """A value that would cross from a step to ONNX Runtime or back has a type that cannot be inferred."""


def captured(node: ir.Node) -> set[str]:
    """Names that a node reads: its inputs, and what the graphs in its attributes take from outside."""
    names = {str(v.name) for v in node.inputs if v is not None}
    for attribute in node.attributes.values():
        graphs = [attribute.value] if attribute.type == ir.AttributeType.GRAPH else []
        graphs += list(attribute.value) if attribute.type == ir.AttributeType.GRAPHS else []
        for graph in graphs:
            inner = {str(v.name) for v in graph.inputs} | set(graph.initializers)
            read: set[str] = {str(v.name) for v in graph.outputs}
            for child in graph:
                read |= captured(child)
                inner |= {str(v.name) for v in child.outputs}
            names |= read - inner
    return names


def levels(graph: ir.Graph) -> dict[ir.Node, int]:
    """Even levels are ONNX Runtime's, odd ones are steps: the fewest changes between the two along any path."""
    made: dict[str, int] = {}
    found: dict[ir.Node, int] = {}
    for node in graph:
        level = max((made.get(name, 0) for name in captured(node)), default=0)
        parity = 1 if "step" in node.meta else 0
        if level % 2 != parity:
            level += 1
        found[node] = level
        made.update({str(v.name): level for v in node.outputs})
    return found


def build(model: Model, threads: int, workers: Workers, watch: Watch | None = None) -> Segments:
    """Cut `model`, and create an ONNX Runtime session for every stretch between steps. `watch` times them."""
    graph, stages = model.graph, []
    groups: dict[int, list[ir.Node]] = {}
    for node, level in levels(graph).items():
        groups.setdefault(level, []).append(node)
    wanted = {str(v.name) for v in graph.outputs}
    spinning = not any(node.meta.get("threads") for node in graph)
    for level in sorted(groups):
        if level % 2:
            stages += [_step_stage(node, workers, watch) for node in groups[level]]
        else:
            later = set().union(*(captured(n) for other, ns in groups.items() if other > level for n in ns))
            stages.append(_ort_stage(model, groups[level], wanted | later, threads, spinning, watch))
    last_use = {name: i for i, stage in enumerate(stages) for name in stage.inputs}
    needed = {name for stage in stages for name in stage.inputs} | wanted
    constants = {
        n: v.const_value.numpy() for n, v in graph.initializers.items() if n in needed and v.const_value is not None
    }
    return Segments(tuple(stages), constants, {n: i for n, i in last_use.items() if n not in constants})


def _step_stage(node: ir.Node, workers: Workers, watch: Watch | None) -> Stage:
    step: Step = node.meta["step"]
    inputs = tuple(str(v.name) if v is not None else "" for v in node.inputs)

    def run(arrays: list[Any]) -> list[Any]:
        return step(arrays, workers)

    outputs = tuple(str(v.name) for v in node.outputs)
    return Stage(inputs, outputs, run if watch is None else watch.step(node, run))


def _ort_stage(
    model: Model, nodes: list[ir.Node], read_later: set[str], threads: int, spinning: bool, watch: Watch | None
) -> Stage:
    made = {str(v.name): v for node in nodes for v in node.outputs}
    outside = sorted(set().union(*(captured(n) for n in nodes)) - set(made))
    initializers = [model.graph.initializers[n] for n in outside if n in model.graph.initializers]
    every_value = {str(v.name): v for v in model.graph.inputs}
    every_value |= {str(v.name): v for n in model.graph for v in n.outputs}
    inputs = [every_value[n] for n in outside if n in every_value]
    outputs = [v for name, v in made.items() if name in read_later]
    for value in (*inputs, *outputs):
        if value.type is None:
            raise UntypedValue(str(value.name))
    shared = shared_proto(model, nodes, inputs, outputs, initializers)
    session = create(shared, threads, spinning=spinning, profiles=watch.folder if watch is not None else None)
    session_run = session.run if watch is None else watch.session(session)
    output_names, input_names = [str(v.name) for v in outputs], tuple(str(v.name) for v in inputs)

    def run(arrays: list[Any]) -> list[Any]:
        results: list[Any] = session_run(output_names, dict(zip(input_names, arrays, strict=True)))
        return results

    return Stage(input_names, tuple(output_names), run)
