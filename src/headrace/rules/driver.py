"""What a rule is, and the one loop that applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import onnx_ir as ir

from ..model import Model, Note
from ..model.shapes import Dims
from .cost import MARGIN


class Target(Enum):
    """Where the rewritten graph will run; what pays differs."""

    CPU = "cpu"
    EXPORT = "export"  # plain ONNX for any runtime
    WEBGPU = "webgpu"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The rule is about this node, and here is why it leaves it alone."""

    reason: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """New nodes for one node. `outputs` stand in for the node's outputs, one for one."""

    nodes: Sequence[ir.Node]
    outputs: Sequence[ir.Value]
    reason: str  # "" where it is not worth a note
    initializers: Sequence[ir.Value] = ()
    absorbed: Sequence[ir.Node] = ()  # other nodes that this one now does the work of


@dataclass(slots=True)
class Context:
    """What a rule may ask: shapes as far as they are known, constants, the target."""

    model: Model
    target: Target
    shapes: Mapping[str, Dims] = field(default_factory=dict)
    dft_tolerance: float | None = None
    threads: int = 1
    margin: float = MARGIN  # the gain that a rewrite must promise
    memo: dict[object, Any] = field(default_factory=dict)  # what a rule found out about a weight, for other shapes

    @property
    def opset(self) -> int:
        return self.model.opset

    def shape(self, value: ir.Value | None) -> Dims | None:
        if value is None:
            return None
        known = self.shapes.get(str(value.name))
        if known is None and value.shape is not None:
            known = tuple(int(d) if isinstance(d, int) else None for d in value.shape)
        return known

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """The value as numpy when it is an initializer or a Constant node's output; None otherwise."""
        tensor = constant_tensor(value)
        return None if tensor is None else tensor.numpy()


Rule = Callable[[ir.Node, Context], Replacement | Refusal | None]


def constant_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value
    producer = value.producer()
    if producer is not None and producer.op_type == "Constant" and producer.domain in ("", "ai.onnx"):
        attribute = producer.attributes.get("value")
        if attribute is not None and attribute.type == ir.AttributeType.TENSOR:
            tensor: ir.TensorProtocol = attribute.as_tensor()
            return tensor
    return None


def initializer(name: str, array: np.ndarray) -> ir.Value:
    """A new constant for a replacement."""
    array = np.ascontiguousarray(array)
    tensor = ir.tensor(array, name=name)
    return ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape))


def is_onnx(node: ir.Node, *op_types: str) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in op_types


def only_reader(value: ir.Value) -> ir.Node | None:
    """The one node that reads `value`, if there is just one and it is no graph output."""
    uses = value.uses()
    if len(uses) != 1 or value.is_graph_output():
        return None
    return next(iter(uses)).node


def apply_rules(context: Context, rules: Iterable[Rule]) -> int:
    """Apply each rule once over the whole graph, in order; returns how many nodes were replaced."""
    return sum(_apply(context, rule) for rule in rules)


def _apply(context: Context, rule: Rule) -> int:
    graph, count = context.model.graph, 0
    for node in list(graph):
        if node.graph is not graph:  # removed by an earlier replacement of this pass
            continue
        name, result = label(node), rule(node, context)
        if isinstance(result, Refusal):
            context.model.notes.append(Note("rules", name, result.reason, refused=True))
        elif isinstance(result, Replacement):
            _replace(graph, node, result)
            if result.reason:
                context.model.notes.append(Note("rules", name, result.reason))
            context.model.changed = True
            count += 1
    return count


def label(node: ir.Node) -> str:
    """How a node is called in notes and errors: its name, else its op and first output."""
    return node.name or f"{node.op_type}→{node.outputs[0].name if node.outputs else ''}"


def origins(node: ir.Node) -> tuple[str, ...]:
    """Names of the nodes of the user's model that this node does the work of."""
    found: tuple[str, ...] = node.meta.get("origins") or (label(node),)
    return found


def _replace(graph: ir.Graph, node: ir.Node, new: Replacement) -> None:
    names = tuple(dict.fromkeys(name for old in (node, *new.absorbed) for name in origins(old)))
    for value in new.initializers:
        graph.register_initializer(value)
    for made in new.nodes:
        made.meta["origins"] = names
        graph.insert_before(node, made)
    for old, fresh in zip(node.outputs, new.outputs, strict=True):
        _stand_in(graph, old, fresh)
    for gone in (node, *new.absorbed):
        graph.remove(gone, safe=True)


def _stand_in(graph: ir.Graph, old: ir.Value, fresh: ir.Value) -> None:
    if old is fresh:
        return
    if fresh.shape is None:
        fresh.shape = old.shape
    if fresh.type is None:
        fresh.type = old.type
    was_output = old.is_graph_output()
    passes_through = fresh.producer() is None or fresh.is_graph_output()
    if was_output and passes_through:  # an output must keep its name, and its source has a name of its own
        identity = ir.node("Identity", [fresh])
        producer = old.producer()
        assert producer is not None
        graph.insert_before(producer, identity)
        fresh = identity.outputs[0]
        fresh.shape, fresh.type = old.shape, old.type
    old.replace_all_uses_with(fresh, replace_graph_outputs=True)
    if was_output:
        name, old.name = old.name, None
        fresh.name = name
