"""What must be true of a graph before anything else looks at it."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from ..errors import ModelError


def check_graph(graph: ir.Graph) -> None:
    """Raise ModelError where a name is used that nothing defines, or external data is missing or too short."""
    known = {v.name for v in graph.inputs} | set(graph.initializers)
    for node in graph.all_nodes():
        known.update(v.name for v in node.outputs)
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                known.update(v.name for v in attribute.value.inputs)
                known.update(attribute.value.initializers)
    for node in graph.all_nodes():
        for value in node.inputs:
            if value is not None and value.name not in known:
                raise ModelError(
                    f"Node {node.name or node.op_type!r} ({node.op_type}) reads {value.name!r}, "
                    "which no node, input or initializer defines."
                )
    for value in graph.outputs:
        if value.name not in known:
            raise ModelError(f"The graph's output {value.name!r} is defined by no node, input or initializer.")
    for value in graph.initializers.values():
        _check_external(value)


def _check_external(value: ir.Value) -> None:
    tensor = value.const_value
    if tensor is None:
        raise ModelError(f"The initializer {value.name!r} has no value.")
    if not isinstance(tensor, ir.ExternalTensor):
        return
    try:
        size = (tensor.offset or 0) + tensor.nbytes
        if Path(tensor.path).stat().st_size < size:
            raise ModelError(f"External data of {value.name!r} ends early: {tensor.path} should hold {size} bytes.")
    except FileNotFoundError as error:
        raise ModelError(
            f"External data of {value.name!r} is missing: {tensor.path} (it belongs beside the model)."
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"External data of {value.name!r} cannot be read: {error}") from error
