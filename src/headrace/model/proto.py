"""From a `Model` back to protobuf: a skeleton for shape inference, and a proto for ONNX Runtime that shares weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto

from .load import Model

INLINE_BYTES = 4096  # smaller tensors travel inside the proto; larger are handed over by reference


@dataclass(slots=True)
class SharedProto:
    """A model whose large tensors stay outside the protobuf: `arrays[name]` holds them."""

    proto: onnx.ModelProto
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def model_shell(model: Model) -> onnx.ModelProto:
    """An empty model with the opsets and IR version of `model`."""
    shell = onnx.ModelProto(ir_version=max(int(model.ir.ir_version or 8), 4), producer_name="headrace")
    for domain, version in model.graph.opset_imports.items():
        shell.opset_import.add(domain=domain, version=version)
    return shell


def value_info(value: ir.Value, dims: Sequence[int | None] | None = None) -> onnx.ValueInfoProto:
    proto: onnx.ValueInfoProto = ir.serde.serialize_value(value)
    if dims is not None:
        shape = proto.type.tensor_type.shape
        shape.ClearField("dim")
        for i, size in enumerate(dims):
            dim = shape.dim.add()
            if size is not None:
                dim.dim_value = size
            else:
                dim.dim_param = f"{value.name}_{i}"
    return proto


def skeleton(model: Model, inputs: Mapping[str, Sequence[int | None] | None]) -> onnx.ModelProto:
    """The graph with its large weights reduced to typed inputs: cheap to hand to onnx.shape_inference."""
    proto = model_shell(model)
    for domain in {n.domain for n in model.graph} - set(model.graph.opset_imports) - {"ai.onnx"}:
        proto.opset_import.add(domain=domain, version=1)  # of our own steps
    graph = proto.graph
    graph.name = model.graph.name or "graph"
    for value in model.graph.inputs:
        graph.input.append(value_info(value, inputs.get(str(value.name))))
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        assert tensor is not None
        if tensor.nbytes <= INLINE_BYTES and not isinstance(tensor, ir.ExternalTensor):
            graph.initializer.append(tensor_proto(tensor, name))
        else:
            shape = [int(d) for d in tensor.shape]  # type: ignore[arg-type]
            graph.input.append(onnx.helper.make_tensor_value_info(name, int(tensor.dtype), shape))
    graph.node.extend(ir.serde.serialize_node(node) for node in model.graph)
    graph.output.extend(value_info(value) for value in model.graph.outputs)
    return proto


def tensor_proto(tensor: ir.TensorProtocol, name: str) -> onnx.TensorProto:
    proto: onnx.TensorProto = ir.serde.serialize_tensor(tensor)
    proto.name = name
    return proto


def shared_proto(
    model: Model,
    nodes: Iterable[ir.Node],
    inputs: Iterable[ir.Value],
    outputs: Iterable[ir.Value],
    initializers: Iterable[ir.Value],
) -> SharedProto:
    """A model of `nodes` whose large initializers are external data, to be given to ONNX Runtime by reference."""
    shared = SharedProto(model_shell(model))
    graph = shared.proto.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(ir.serde.serialize_node(node) for node in nodes)
    graph.input.extend(value_info(v) for v in inputs)
    graph.output.extend(value_info(v) for v in outputs)
    for value in initializers:
        name, tensor = str(value.name), value.const_value
        assert tensor is not None
        if tensor.nbytes <= INLINE_BYTES or tensor.dtype == ir.DataType.STRING or tensor.dtype.bitwidth < 8:
            graph.initializer.append(tensor_proto(tensor, name))
            continue
        entry = graph.initializer.add(name=name, data_type=int(tensor.dtype), dims=[int(d) for d in tensor.shape])  # type: ignore[arg-type]
        entry.data_location = TensorProto.EXTERNAL
        entry.external_data.add(key="location", value=name)
        shared.arrays[name] = tensor.numpy()
    return shared
