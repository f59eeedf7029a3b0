"""Nodes that do nothing, constants computed beforehand, nodes that nothing reads."""

from __future__ import annotations

import warnings

import numpy as np
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes import common as passes

from ..model import Model, Note
from ..model.proto import model_shell, tensor_proto, value_info
from .driver import Context, Replacement, constant_tensor, initializer, label
from .geometry import integer, ints

LARGEST_FOLDED = 1 << 20  # elements; a larger constant is cheaper computed than stored
NEVER_FOLDED = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial",
                "If", "Loop", "Scan", "Constant", "DequantizeLinear", "QuantizeLinear"}  # fmt: skip


def drop_identity(node: ir.Node, context: Context) -> Replacement | None:
    """Identity, inactive Dropout, a Cast to the type it has, a Transpose that keeps the order, a Concat of one."""
    if node.domain not in ("", "ai.onnx") or not node.inputs or node.inputs[0] is None:
        return None
    if len(node.outputs) > 1 and any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        return None
    if not _keeps(node, context):
        return None
    if node.outputs[0].is_graph_output() and (node.inputs[0].producer() is None or node.inputs[0].is_graph_output()):
        return None  # an input or another output goes out under a second name: that is what Identity is for
    rest = list(node.outputs[1:])
    return Replacement([], [node.inputs[0], *rest], f"{node.op_type} does nothing: removed")


def _keeps(node: ir.Node, context: Context) -> bool:
    x = node.inputs[0]
    assert x is not None
    match node.op_type:
        case "Identity":
            return True
        case "Dropout":
            training = context.constant(node.inputs[2]) if len(node.inputs) > 2 else np.array(False)
            return training is not None and not training.any()
        case "Cast":
            return x.dtype is not None and int(x.dtype) == integer(node, "to", 0)
        case "Transpose":
            shape = context.shape(x)
            order = ints(node, "perm", range(len(shape or ()))[::-1])
            return order == tuple(range(len(order))) and (bool(order) or shape == ())
        case "Concat":
            return len(node.inputs) == 1
    return False


def fold_constant(node: ir.Node, context: Context) -> Replacement | None:
    """A node whose inputs are all constant is computed now, by ONNX's reference implementation."""
    if not node.inputs or node.op_type in NEVER_FOLDED or node.domain not in ("", "ai.onnx"):
        return None
    if any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values()):
        return None
    if any(v is not None and constant_tensor(v) is None for v in node.inputs):
        return None
    arrays = evaluate(node, context)
    if arrays is None or sum(a.size for a in arrays) > LARGEST_FOLDED:
        return None
    values = [initializer(str(v.name), a) for v, a in zip(node.outputs, arrays, strict=True)]
    for value, old in zip(values, node.outputs, strict=True):
        if not old.is_graph_output():
            value.name = f"{old.name}_folded"
    if any(v.is_graph_output() for v in node.outputs):
        return None
    return Replacement([], values, "computed beforehand: its inputs are constant", values)


def evaluate(node: ir.Node, context: Context) -> list[np.ndarray] | None:
    """The outputs of a node with constant inputs, or None if the reference implementation cannot compute them."""
    proto = model_shell(context.model)
    graph = proto.graph
    graph.name = label(node)
    graph.node.append(ir.serde.serialize_node(node))
    for value in {v.name: v for v in node.inputs if v is not None}.values():
        tensor = constant_tensor(value)
        if tensor is None or tensor.size > LARGEST_FOLDED:
            return None
        graph.initializer.append(tensor_proto(tensor, str(value.name)))
    graph.output.extend(value_info(v) for v in node.outputs)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(proto).run(None, {})
    except Exception:  # whatever it cannot do stays in the graph, where the device reports it
        return None
    arrays = [np.asarray(r) for r in results]
    return arrays if all(a.dtype.kind in "fiub" for a in arrays) else None


def drop_unused(model: Model) -> None:
    """Remove the nodes and initializers that no output needs."""
    before = model.graph.num_nodes()
    passes.RemoveUnusedNodesPass()(model.ir)
    gone = before - model.graph.num_nodes()
    if gone:
        model.changed = True
        model.notes.append(Note("rules", "", f"{gone} node(s) that no output needs were removed"))
