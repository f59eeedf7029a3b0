"""Mistakes of common exporters that have one plain meaning. Each repair is one function, and leaves a note."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

INT64_INDICES = {"ScatterND": 1, "GatherND": 1}  # op -> input that ONNX wants as int64


def needs_types(graph: ir.Graph) -> bool:
    """Does a repair depend on the type of a value that the file does not state?"""
    slots = ((n, INT64_INDICES[n.op_type]) for n in graph if n.domain == "" and n.op_type in INT64_INDICES)
    indices = (n.inputs[slot] for n, slot in slots if len(n.inputs) > slot)
    return any(v is not None and v.dtype is None for v in indices)


def repair(graph: ir.Graph) -> Iterator[tuple[str, str]]:
    """Repair `graph` in place; yield (node name, what was done)."""
    for node in list(graph):
        slot = INT64_INDICES.get(node.op_type) if node.domain == "" else None
        indices = node.inputs[slot] if slot is not None and len(node.inputs) > slot else None
        if slot is None or indices is None:
            continue
        if indices.dtype == ir.DataType.INT32:
            _to_int64(graph, node, slot)
            yield (
                node.name or "",
                f"{node.op_type} had int32 indices, ONNX wants int64: cast (a known slip of torch.istft's export)",
            )


def _to_int64(graph: ir.Graph, node: ir.Node, slot: int) -> None:
    indices = node.inputs[slot]
    assert indices is not None
    name = f"{indices.name}_int64_{node.name}"
    if indices.const_value is not None:
        array = indices.const_value.numpy().astype(np.int64)
        value = ir.Value(
            name=name,
            const_value=ir.tensor(array, name=name),
            type=ir.TensorType(ir.DataType.INT64),
            shape=ir.Shape(array.shape),
        )
        graph.register_initializer(value)
    else:
        cast = ir.node("Cast", [indices], {"to": int(ir.DataType.INT64)}, name=name)
        cast.outputs[0].name = name
        graph.insert_before(node, cast)
        value = cast.outputs[0]
    node.replace_input_with(slot, value)
