"""The phase of a spectrum, where the spectrum is exactly zero.

Exporters write atan2(y, x) as atan(y / x), plus π where y > 0 and minus π elsewhere if x < 0. For y = 0 that is -π, and
for x = y = 0 it is NaN; atan2 itself is π and 0. A transform of a real signal has such places: bin 0, the bin of half
the sampling rate, and whatever a constant signal leaves empty. Runtimes whose transform has rounding noise never meet
them; here those values are exactly 0, so the phase is written as atan2 means it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ..model import Model
from .driver import Context, Replacement, Target, apply_rules, initializer, is_onnx, label

MOVEMENTS = ("Gather", "Slice", "Split", "Squeeze", "Unsqueeze", "Transpose", "Reshape", "Cast", "Identity")
REASON = "the phase of a spectrum, written as atan2: exact zeros have the phase 0 or π, not NaN or -π"


def with_phases(model: Model) -> Model:
    """The model, or a copy of it in which the phases of spectra are right at exact zeros."""
    kinds = {n.op_type for n in model.graph if n.domain == ""}
    if "Atan" not in kinds or not kinds & {"STFT", "DFT"}:
        return model
    copy = model.clone()
    return copy if apply_rules(Context(copy, Target.WEBGPU), (phase_of_zero,)) else model


def phase_of_zero(node: ir.Node, context: Context) -> Replacement | None:
    """Where(x < 0, Where(y > 0, atan(y / x) + π, atan(y / x) - π), atan(y / x)) of a spectrum's x + iy."""
    parts = _parts(node, context)
    if parts is None:
        return None
    y, x = parts
    source = _transform(y)
    if source is None or source is not _transform(x):
        return None
    return _atan2(node, y, x)


def _parts(node: ir.Node, context: Context) -> tuple[ir.Value, ir.Value] | None:
    """y and x of the pattern that ends in `node`."""
    outer = _inputs(node, "Where")
    inner = _inputs(_producer(outer[1]), "Where") if outer else ()
    slope = _inputs(_producer(_inputs(_producer(outer[2]), "Atan")[:1]), "Div") if outer else ()
    if not inner or not slope:
        return None
    y, x = slope
    less, greater = _inputs(_producer(outer[0]), "Less"), _inputs(_producer(inner[0]), "Greater")
    plus, minus = _inputs(_producer(inner[1]), "Add"), _inputs(_producer(inner[2]), "Sub")
    wanted = ((less, x, 0.0), (greater, y, 0.0), (plus, outer[2], np.pi), (minus, outer[2], np.pi))
    return (y, x) if all(_is(got, value, number, context) for got, value, number in wanted) else None


def _is(got: tuple[ir.Value, ...], value: ir.Value, number: float, context: Context) -> bool:
    if len(got) != 2 or got[0] is not value:
        return False
    constant = context.constant(got[1])
    return constant is not None and constant.size == 1 and abs(float(constant.ravel()[0]) - number) < 1e-5


def _inputs(node: ir.Node | None, op: str) -> tuple[ir.Value, ...]:
    """The inputs of a node of this operator; none for another."""
    if node is None or not is_onnx(node, op):
        return ()
    return tuple(v for v in node.inputs if v is not None)


def _producer(value: ir.Value | tuple[ir.Value, ...]) -> ir.Node | None:
    value = value[0] if isinstance(value, tuple) and value else value
    return value.producer() if isinstance(value, ir.Value) else None


def _transform(value: ir.Value) -> ir.Node | None:
    """The Fourier transform that a value is moved from."""
    node = value.producer()
    while node is not None and is_onnx(node, *MOVEMENTS):
        first = node.inputs[0]
        node = None if first is None else first.producer()
    return node if node is not None and is_onnx(node, "STFT", "DFT") else None


def _atan2(node: ir.Node, y: ir.Value, x: ir.Value) -> Replacement:
    name = label(node)
    dtype = x.dtype.numpy() if x.dtype is not None else np.float32
    zero, one, pi = (initializer(f"{name}_{k}", np.array(v, dtype)) for k, v in (("0", 0), ("1", 1), ("pi", np.pi)))
    nodes: list[ir.Node] = []

    def add(op: str, *inputs: ir.Value) -> ir.Value:
        nodes.append(ir.node(op, list(inputs), name=f"{name}_{len(nodes)}"))
        nodes[-1].outputs[0].name = f"{name}_{len(nodes)}_out"
        return nodes[-1].outputs[0]

    nothing = add("Equal", add("Add", add("Abs", y), add("Abs", x)), zero)
    angle = add("Atan", add("Div", y, add("Where", nothing, one, x)))
    turned = add("Where", add("GreaterOrEqual", y, zero), add("Add", angle, pi), add("Sub", angle, pi))
    result = add("Where", add("Less", x, zero), turned, angle)
    return Replacement(nodes, [result], REASON, (zero, one, pi))
