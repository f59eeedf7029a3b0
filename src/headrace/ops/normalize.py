"""Softmax and the normalisations: statistics of a row, then every element of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor, expanded, reshaped, transposed
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .matmul import floats_only
from .movement import axis_of
from .reduce import KINDS, check_length, lanes_for, reduced
from .registry import Call, Refuse, broadcast, op

SOFTMAX, CENTERED, RMS = 0, 1, 2
PASSES = 3


@dataclass(frozen=True)
class Normalize(Template):
    """out[i, k] for rows x[i, :]: softmax (`log` for its logarithm), (x - mean) / deviation, or x / root mean
    square."""

    kind: int
    rows: int
    length: int
    epsilon: float = 0.0
    log: bool = False
    name = "normalize"

    def build(self, b: Build) -> Launch:
        i, k = variable("i", self.rows), variable("k", self.length, 1)
        b.read("x", 0, (i, k), ("i",), ("k",), any_map=True)
        lanes = lanes_for(self.rows, self.length, b.target, PASSES)
        size = 16 if b.target.software and lanes == 1 else max(64, lanes)
        groups = spread(ceil_div(self.rows, size // lanes), b.target.workgroups)
        b.text.helpers.setdefault("is_nan")
        b.text.const(WG=f"{size}u", LANES=lanes, KIND=self.kind, LOG=self.log)
        b.text.uniform(rows=self.rows, length=self.length, groups_x=groups[0], epsilon=float(self.epsilon), lowest=-inf)
        k = variable("k", self.length)
        b.store("store_out", ["i", "k"], [(i, k)], [("v", "f32")])
        return Launch(
            wgsl(__file__, "normalize.wgsl"), (*groups, 1), 8 * self.rows * self.length, (size, 1, 1), size * 4
        )


def normalized(call: Call, x: Tensor, axis: int, kind: int, epsilon: float = 0.0, log: bool = False) -> Tensor:
    """Rows are everything from `axis` on."""
    rows, length = prod(x.shape[:axis]), prod(x.shape[axis:])
    check_length(call, rows, length, PASSES)
    flat = reshaped(x, (rows, length), call.node)
    y = call.heavy(Normalize(kind, rows, length, epsilon, log), [flat], (rows, length), x.dtype)
    return reshaped(y, x.shape, call.node)


@op("Softmax", "LogSoftmax")
def softmax(call: Call) -> Tensor:
    """Along one axis (opset 13), or over all axes from one on."""
    x = call.x(0)
    floats_only(x, call.op_type)
    if x.size == 0:
        return x
    rank, log = len(x.shape), call.op_type == "LogSoftmax"
    axis = axis_of(call.attr("axis", -1 if call.opset >= 13 else 1), rank)
    if call.opset < 13 or axis == rank - 1:
        return normalized(call, x, axis, SOFTMAX, log=log)
    perm = [*(a for a in range(rank) if a != axis), axis]
    y = normalized(call, transposed(x, perm, call.node), rank - 1, SOFTMAX, log=log)
    return transposed(y, [perm.index(a) for a in range(rank)], call.node)


@op("LayerNormalization", "RMSNormalization", since=17)
def layer_normalization(call: Call) -> Tensor:
    """Over all axes from `axis` on; scale and bias are part of the kernel's store."""
    x = call.x(0)
    floats_only(x, call.op_type)
    if call.outputs > 1:
        raise Refuse("the mean and deviation outputs")
    axis = axis_of(call.attr("axis", -1), len(x.shape))
    kind = CENTERED if call.op_type == "LayerNormalization" else RMS
    y = normalized(call, x, axis, kind, call.attr("epsilon", 1e-5))
    y = Map("{0} * {1}", broadcast([y, call.x(1)], call.node), x.dtype, call.node)
    return Map("{0} + {1}", broadcast([y, call.x(2)], call.node), x.dtype, call.node) if call.has(2) else y


@op("InstanceNormalization")
def instance_normalization(call: Call) -> Tensor:
    """Over the spatial axes of each channel."""
    x = call.x(0)
    y = normalized(call, x, 2, CENTERED, call.attr("epsilon", 1e-5))
    return per_channel(call, per_channel(call, y, call.x(1), "{0} * {1}"), call.x(2), "{0} + {1}")


@op("BatchNormalization")
def batch_normalization(call: Call) -> Tensor | list[Tensor]:
    """One multiplication and one addition a channel; in training mode with the batch's own statistics."""
    if call.outputs > 1 and not call.attr("training_mode", 0):
        raise Refuse("batch normalisation with statistics, before opset 14")
    x = call.x(0)
    scale, bias, mean, variance = (call.x(i) for i in range(1, 5))
    if call.attr("training_mode", 0):
        axes = [a for a in range(len(x.shape)) if a != 1]
        now = reduced(call, x, axes, KINDS["ReduceMean"], False)
        square = reduced(call, per_channel(call, x, now, "({0} - {1}) * ({0} - {1})"), axes, KINDS["ReduceMean"], False)
        keep = call.attr("momentum", 0.9)
        running = [_mixed(call, old, new, keep) for old, new in ((mean, now), (variance, square))]
        return [_batch_normalized(call, x, (scale, bias, now, square)), *running][: call.outputs]
    return _batch_normalized(call, x, (scale, bias, mean, variance))


def _mixed(call: Call, old: Tensor, new: Tensor, keep: float) -> Tensor:
    factors = [Fill(keep, old.shape, old.dtype), Fill(1 - keep, old.shape, old.dtype)]
    return Map("{0} * {2} + {1} * {3}", [old, new, *factors], old.dtype, call.node, 3)


def _batch_normalized(call: Call, x: Tensor, parameters: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    scale, bias, mean, variance = parameters
    epsilon = Fill(call.attr("epsilon", 1e-5), (), x.dtype)
    sd = Map("inverseSqrt({0} + {1})", broadcast([variance, epsilon], call.node), x.dtype, call.node, 4)
    y = per_channel(call, per_channel(call, x, mean, "{0} - {1}"), sd, "{0} * {1}")
    return per_channel(call, per_channel(call, y, scale, "{0} * {1}"), bias, "{0} + {1}")


def per_channel(call: Call, x: Tensor, values: Tensor, text: str) -> Tensor:
    """A pointwise operation with one value a channel (axis 1)."""
    wide = reshaped(values, (1, values.size, *(1 for _ in x.shape[2:])), call.node)
    return Map(text, [x, expanded(wide, x.shape, call.node)], x.dtype, call.node)


__all__ = ["CENTERED", "RMS", "SOFTMAX", "Normalize", "ir", "normalized", "per_channel"]
