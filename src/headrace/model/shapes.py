"""Concrete shapes: binding symbolic dimensions, and inferring the shape of every value from those of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx_ir as ir

from ..errors import InputError
from .load import Model
from .proto import skeleton

Dims = tuple[int | None, ...]


def bind_dims(model: Model, dims: Mapping[str, int]) -> Model:
    """A copy of `model` in which symbolic dimensions have the given sizes.

    Raises:
        InputError: a name that no input dimension has, or a size that is not a positive integer.
    """
    if not isinstance(dims, Mapping):
        raise InputError(f"dims gives sizes by name, as {{'batch': 1}}, not {dims!r}.")
    known = {str(d.value) for v in model.graph.inputs for d in v.shape or () if not isinstance(d, int) and d.value}
    for name, size in dims.items():
        if name not in known:
            raise InputError(
                f"No input has a dimension named {name!r}; the model has: {', '.join(sorted(known)) or 'none'}."
            )
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InputError(f"Dimension {name!r} must be a positive integer, not {size!r}.")
    bound = model.clone()
    for value in bound.graph.inputs:
        if value.shape is not None:
            value.shape = ir.Shape([d if isinstance(d, int) else dims.get(str(d.value), d) for d in value.shape])
    for node in bound.graph.all_nodes():  # inferred shapes were for the symbols
        for value in node.outputs:
            value.shape = _bound(value.shape, dims)
    bound.changed = True
    return bound


def _bound(shape: ir.Shape | None, dims: Mapping[str, int]) -> ir.Shape | None:
    if shape is None:
        return None
    return ir.Shape([d if isinstance(d, int) else dims.get(str(d.value), d) for d in shape])


def dims_of(value: ir.Value) -> Dims | None:
    """The shape as far as it is known: an int or None a dimension; None when even the rank is not known."""
    if value.shape is None:
        return None
    return tuple(int(d) if isinstance(d, int) else None for d in value.shape)


def input_dims(model: Model) -> dict[str, Dims | None]:
    return {str(v.name): dims_of(v) for v in model.graph.inputs}


def infer_shapes(model: Model, inputs: Mapping[str, Sequence[int | None] | None]) -> dict[str, Dims]:
    """Shapes of all values that can be known when the inputs have the given shapes (int or None a dimension)."""
    shapes: dict[str, Dims] = {}
    for info in _inferred(model, inputs):
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
            dims = info.type.tensor_type.shape.dim
            shapes[info.name] = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            shapes[name] = tuple(d if isinstance(d, int) else None for d in value.const_value.shape)
    return shapes


def annotate_types(model: Model) -> None:
    """Give every value of the main graph its type, where the file does not say it and it can be inferred."""
    values = {str(v.name): v for node in model.graph for v in node.outputs if v.type is None}
    if not values:
        return
    for info in _inferred(model, input_dims(model)):
        value = values.get(info.name)
        if value is not None:
            value.type = ir.serde.deserialize_type_proto_for_type(info.type)


def _inferred(model: Model, inputs: Mapping[str, Sequence[int | None] | None]) -> list[onnx.ValueInfoProto]:
    proto = skeleton(model, inputs)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # an op that the inference does not know must not stop a model that runs
        inferred = proto
    return [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]
