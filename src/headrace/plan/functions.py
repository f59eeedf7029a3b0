"""Operators that ONNX defines by a function of simpler ones: the body is lowered in place of the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as ir
from onnx import compose

from ..kernels.expr import Tensor
from ..kernels.known import dtype_of
from ..kernels.size import Size
from ..ops import Refuse
from ..ops.registry import Value

if TYPE_CHECKING:
    from .lower import Step, Walk


@dataclass(frozen=True, slots=True)
class Body:
    """A definition made concrete for one node: its steps, and the names of what goes in and comes out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]


def lower_function(
    walk: Walk, step: Step, inputs: Sequence[Value | None], reason: Refuse
) -> Sequence[Value | None] | None:
    """Outputs of a node by its definition; None where ONNX gives none. `reason` is why the node itself has no kernel.
    Raises Refuse where a part of the definition has none either."""
    types = tuple(None if v is None else (_dtype(v), _known_sizes(v.shape)) for v in inputs)
    key = (id(step.node), types)
    if key not in walk.graph.functions:
        walk.graph.functions[key] = _body(step, types, walk.opset_of(step))
    body = walk.graph.functions[key]
    if body is None:
        return None
    walk.env.update({n: v for n, v in zip(body.inputs, inputs, strict=False) if v is not None})
    before = len(walk.refused)
    for inner in body.steps:
        walk.step(inner)
        if len(walk.refused) > before:
            part, why = walk.refused.pop()
            raise Refuse(f"{reason}; in its definition, {part.node.op_type}: {why}")
    return [walk.lookup(n) if n else None for n in body.outputs]


def _dtype(value: Value) -> ir.DataType:
    return value.dtype if isinstance(value, Tensor) else ir.DataType.from_numpy(dtype_of(value))


def _known_sizes(shape: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(None if isinstance(n, Size) else n for n in shape)


def _body(step: Step, types: Sequence[Any], opset: int) -> Body | None:
    from .lower import Step, attributes_of

    node = ir.to_proto(step.node)
    assert isinstance(node, onnx.NodeProto)
    function = _function(node, types, opset)
    if function is None:
        return None
    given = {a.name: a for a in node.attribute} | {
        a.name: a for a in function.attribute_proto if a.name not in {b.name for b in node.attribute}
    }
    graph = onnx.GraphProto(name="function")
    graph.node.extend(function.node)
    skipped = {n for n, t in zip(function.input, types, strict=False) if t is None}
    skipped |= set(function.input[len(types) :])
    for n in graph.node:
        _resolve(n, given, skipped)
    graph.input.extend(onnx.ValueInfoProto(name=n) for n in function.input)
    prefix = f"{node.output[0] or step.name}/"
    compose.add_prefix_graph(graph, prefix, inplace=True)
    inner = ir.from_proto(graph)
    assert isinstance(inner, ir.Graph)
    version = next((o.version for o in function.opset_import if o.domain == ""), opset)
    steps = tuple(Step(n, attributes_of(n), step.name, version) for n in inner)
    outputs = tuple(
        prefix + inside if outside else "" for inside, outside in zip(function.output, node.output, strict=False)
    )
    return Body(tuple(v.name for v in graph.input), outputs, steps)


def _function(node: onnx.NodeProto, types: Sequence[Any], opset: int) -> onnx.FunctionProto | None:
    """The definition of an operator in an opset; some depend on the node's attributes and input types."""
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    result = onnx.FunctionProto()
    if schema.has_function:
        version = max((v for v in schema.function_opset_versions if v <= opset), default=0)
        text = schema.get_function_with_opset_version(version) if version else None
    elif schema.has_context_dependent_function:
        version = max((v for v in schema.context_dependent_function_opset_versions if v <= opset), default=0)
        protos = [_type(t).SerializeToString() for t in types]
        text = (
            schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), protos)
            if version
            else None
        )
    else:
        return None
    if not text:
        return None
    result.ParseFromString(text)
    known = {a.name for a in result.attribute_proto}
    result.attribute_proto.extend(
        a.default_value for n, a in schema.attributes.items() if n not in known and a.default_value.name
    )
    return result


def has_definition(op_type: str, domain: str, opset: int) -> bool:
    """Whether ONNX defines an operator by a function, at least for some of its attributes and types."""
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _type(known: Any) -> onnx.TypeProto:
    if known is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(int(known[0]), known[1])


def _resolve(node: onnx.NodeProto, given: dict[str, onnx.AttributeProto], skipped: set[str]) -> None:
    """Put the caller's attributes where a function's node refers to them, in its subgraphs too."""
    node.input[:] = ["" if n in skipped else n for n in node.input]
    kept = []
    for a in node.attribute:
        if a.ref_attr_name:
            if a.ref_attr_name in given:
                kept.append(onnx.AttributeProto())
                kept[-1].CopyFrom(given[a.ref_attr_name])
                kept[-1].name = a.name
            continue
        kept.append(a)
        for inner in a.g.node:
            _resolve(inner, given, skipped)
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
