"""What a node costs: floating-point operations and bytes, from the shapes of its inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ..model import Model
from ..model.shapes import Dims
from .driver import label
from .geometry import integer

Shape = tuple[int, ...]
UNSIZED = (ir.DataType.STRING, ir.DataType.UNDEFINED)  # their elements count as no bytes


@dataclass(frozen=True, slots=True)
class NodeCost:
    """One node: `flops` counts a multiply-add as two; `bytes` is all that it reads and writes, once."""

    name: str
    op_type: str
    inputs: tuple[Shape, ...]
    output: Shape
    flops: float
    bytes: int


def node_costs(model: Model, shapes: Mapping[str, Dims]) -> list[NodeCost]:
    """Costs of the nodes whose shapes are known, the heaviest first; cheap operators count bytes only."""
    found = [cost for node in model.graph if (cost := node_cost(node, shapes)) is not None]
    return sorted(found, key=lambda c: (-c.flops, -c.bytes))


def node_cost(node: ir.Node, shapes: Mapping[str, Dims]) -> NodeCost | None:
    """The cost of one node, or None where a shape is not known."""
    inputs, sizes = [], []
    for value in node.inputs:
        if value is None:
            continue
        shape = known(shapes.get(str(value.name)))
        if shape is None:
            return None
        inputs.append(shape)
        sizes.append(_bytes(value, shape))
    output = known(shapes.get(str(node.outputs[0].name))) if node.outputs else None
    if output is None:
        return None
    total = sum(sizes) + _bytes(node.outputs[0], output)
    return NodeCost(label(node), node.op_type, tuple(inputs), output, _flops(node, inputs, output), total)


def known(dims: Dims | None) -> Shape | None:
    """The shape if every dimension is known."""
    if dims is None or any(d is None for d in dims):
        return None
    return tuple(d for d in dims if d is not None)


def _bytes(value: ir.Value, shape: Shape) -> int:
    size = 4.0 if value.dtype is None else 0.0 if value.dtype in UNSIZED else value.dtype.itemsize
    return math.ceil(math.prod(shape) * size)


def _flops(node: ir.Node, inputs: list[Shape], output: Shape) -> float:
    match node.op_type:
        case "Conv" | "ConvInteger" | "QLinearConv":
            w = inputs[3] if node.op_type == "QLinearConv" else inputs[1]
            return 2.0 * math.prod(output) * math.prod(w[1:])
        case "ConvTranspose":
            return 2.0 * math.prod(inputs[0]) * math.prod(inputs[1][1:])
        case "MatMul" | "MatMulInteger":
            return 2.0 * math.prod(output) * inputs[0][-1]
        case "Gemm":
            return 2.0 * math.prod(output) * inputs[0][0 if integer(node, "transA", 0) else 1]
        case "LSTM" | "GRU" | "RNN":
            steps = inputs[0][0] * inputs[0][1]
            return 2.0 * steps * (math.prod(inputs[1]) + math.prod(inputs[2]))
        case "STFT" | "DFT":
            n = max(output[-2], 2)
            return 5.0 * math.prod(output[:-1]) * math.log2(n)
        case "Attention":
            return 4.0 * math.prod(output) * inputs[1][-2]
    return 0.0
