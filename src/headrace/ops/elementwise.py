"""Elementwise operators: one row each.

A row is WGSL for each kind of value, with {0}, {1} for the arguments, which are names, never expressions. `params` are
attributes that follow the tensor arguments as further numbers, with their defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor
from .registry import Call, Refuse, broadcast, op

BOOL = ir.DataType.BOOL
_KIND = {"f32": "f", "i32": "i", "u32": "u", "bool": "b"}


@dataclass(frozen=True, slots=True)
class Row:
    """One operator. `text` serves every kind in `kinds`; `i`, `u`, `b` replace it for that kind."""

    name: str
    text: str
    kinds: str = "f"
    i: str = ""
    u: str = ""
    b: str = ""
    params: tuple[tuple[str, float], ...] = ()
    bool_result: bool = False
    cost: int = 1
    helper: str = ""

    def for_kind(self, kind: str) -> str:
        """WGSL for one kind of value."""
        return {"i": self.i, "u": self.u, "b": self.b}.get(kind, "") or self.text


ROWS = [
    # arithmetic
    Row("Add", "{0} + {1}", "fiu"),
    Row("Sub", "{0} - {1}", "fiu"),
    Row("Mul", "{0} * {1}", "fiu"),
    Row("Div", "{0} / {1}", "fiu", cost=3),
    Row("Neg", "-{0}", "fi"),
    Row("Abs", "abs({0})", "fiu", u="{0}"),
    Row("Sign", "sign_of({0})", "fiu", i="sign({0})", u="min({0}, 1u)", helper="sign_of"),
    Row("Reciprocal", "1.0 / {0}", cost=3),
    Row("Pow", "power({0}, {1})", "fi", i="int_power({0}, {1})", cost=8, helper="power"),
    Row("Sqrt", "sqrt_exact({0})", cost=4, helper="sqrt_exact"),
    Row("Exp", "exp_exact({0})", cost=6, helper="exp_exact"),
    Row("Log", "log_exact({0})", cost=6, helper="log_exact"),
    Row("Floor", "floor({0})"),
    Row("Ceil", "ceil({0})"),
    Row("Round", "round({0})"),
    Row("Erf", "erf({0})", cost=12, helper="erf"),
    # trigonometry
    Row("Sin", "sin_exact({0})", cost=16, helper="sin_exact"),
    Row("Cos", "cos_exact({0})", cost=16, helper="cos_exact"),
    Row("Tan", "tan_exact({0})", cost=20, helper="tan_exact"),
    Row("Asin", "asin_exact({0})", cost=20, helper="asin_exact"),
    Row("Acos", "acos_exact({0})", cost=20, helper="acos_exact"),
    Row("Atan", "atan_exact({0})", cost=20, helper="atan_exact"),
    Row("Sinh", "sinh_exact({0})", cost=20, helper="sinh_exact"),
    Row("Cosh", "cosh_exact({0})", cost=20, helper="cosh_exact"),
    Row("Tanh", "tanh_safe({0})", cost=8, helper="tanh_safe"),
    Row("Asinh", "asinh_exact({0})", cost=20, helper="asinh_exact"),
    Row("Acosh", "acosh_exact({0})", cost=20, helper="acosh_exact"),
    Row("Atanh", "atanh_exact({0})", cost=20, helper="atanh_exact"),
    # activations
    Row("Relu", "select({0}, 0.0, {0} < 0.0)", "fi", i="max({0}, 0)"),
    Row("Sigmoid", "sigmoid({0})", cost=8, helper="sigmoid"),
    Row("LeakyRelu", "select({1} * {0}, {0}, {0} >= 0.0)", params=(("alpha", 0.01),)),
    Row("PRelu", "select({1} * {0}, {0}, {0} >= 0.0)", "fi", i="select({1} * {0}, {0}, {0} >= 0)"),
    Row("Elu", "select({1} * expm1({0}), {0}, {0} >= 0.0)", params=(("alpha", 1.0),), cost=8, helper="expm1"),
    Row(
        "Selu",
        "{2} * select({1} * expm1({0}), {0}, {0} > 0.0)",
        params=(("alpha", 1.6732632), ("gamma", 1.0507010)),
        cost=8,
        helper="expm1",
    ),
    Row("Celu", "select({0}, {1} * expm1({0} / {1}), {0} < 0.0)", params=(("alpha", 1.0),), cost=8, helper="expm1"),
    Row("ThresholdedRelu", "select(0.0, {0}, {0} > {1})", params=(("alpha", 1.0),)),
    Row(
        "HardSigmoid",
        "clamp_nan({1} * {0} + {2}, 0.0, 1.0)",
        params=(("alpha", 0.2), ("beta", 0.5)),
        helper="clamp_nan",
    ),
    Row("HardSwish", "{0} * clamp_nan({0} / 6.0 + 0.5, 0.0, 1.0)", helper="clamp_nan"),
    Row("Softplus", "softplus({0})", cost=14, helper="softplus"),
    Row("Softsign", "{0} / (1.0 + abs({0}))", cost=4),
    Row("Mish", "{0} * tanh_softplus({0})", cost=20, helper="tanh_softplus"),
    Row("Swish", "{0} * sigmoid({1} * {0})", params=(("alpha", 1.0),), cost=8, helper="sigmoid"),
    Row(
        "Shrink",
        "select(select(0.0, {0} + {1}, {0} < -{2}), {0} - {1}, {0} > {2})",
        params=(("bias", 0.0), ("lambd", 0.5)),
    ),
    # comparisons and logic
    Row("Equal", "{0} == {1}", "fiub", bool_result=True),
    Row("Less", "{0} < {1}", "fiu", bool_result=True),
    Row("LessOrEqual", "{0} <= {1}", "fiu", bool_result=True),
    Row("Greater", "{0} > {1}", "fiu", bool_result=True),
    Row("GreaterOrEqual", "{0} >= {1}", "fiu", bool_result=True),
    Row("And", "{0} && {1}", "b", bool_result=True),
    Row("Or", "{0} || {1}", "b", bool_result=True),
    Row("Xor", "{0} != {1}", "b", bool_result=True),
    Row("Not", "!{0}", "b", bool_result=True),
    Row("IsNaN", "is_nan({0})", bool_result=True, helper="is_nan"),
    Row("BitwiseAnd", "{0} & {1}", "iu"),
    Row("BitwiseOr", "{0} | {1}", "iu"),
    Row("BitwiseXor", "{0} ^ {1}", "iu"),
    Row("BitwiseNot", "~{0}", "iu"),
]
VARIADIC = [
    Row("Sum", "{0} + {1}"),
    Row("Max", "nan_max({0}, {1})", "fiu", i="max({0}, {1})", u="max({0}, {1})", helper="nan_max"),
    Row("Min", "nan_min({0}, {1})", "fiu", i="min({0}, {1})", u="min({0}, {1})", helper="nan_min"),
]
NARROW = {
    ir.DataType.INT8: "({0} << 24u) >> 24u",
    ir.DataType.INT16: "({0} << 16u) >> 16u",
    ir.DataType.UINT8: "{0} & 255u",
    ir.DataType.UINT16: "{0} & 65535u",
}
_WRAPS = {"Add", "Sub", "Mul", "Neg", "Abs", "Pow", "BitwiseNot", "Sum"}


def apply(row: Row, args: Sequence[Tensor], node: str) -> Tensor:
    """One row applied to tensors. Raises Refuse for a dtype that the row does not have."""
    tensors = broadcast(args, node)
    kind = _KIND[tensors[0].type]
    if kind not in row.kinds:
        raise Refuse(f"{row.name} has no kernel for {tensors[0].dtype.name.lower()}")
    helper = row.helper if not getattr(row, kind, "") or kind == "f" else ("int_power" if row.name == "Pow" else "")
    dtype = BOOL if row.bool_result else tensors[0].dtype
    result: Tensor = Map(row.for_kind(kind), tensors, dtype, node, row.cost, helper)
    if dtype in NARROW and row.name in _WRAPS:
        result = Map(NARROW[dtype], [result], dtype, node)
    return result


def lower_row(row: Row, call: Call) -> Tensor:
    """Lowering of an elementwise operator: its inputs, then its attributes."""
    args = [call.x(i) for i in range(len(call.inputs)) if call.has(i)]
    args += [Fill(float(call.attr(n, d)), (), args[0].dtype) for n, d in row.params]
    if row.name == "Pow" and args[0].dtype != args[1].dtype:
        if args[0].type != "f32" and args[1].type == "f32":
            wide = [cast(args[0], args[1].dtype, call.node), args[1]]
            return cast(apply(row, wide, call.node), args[0].dtype, call.node)
        args[1] = cast(args[1], args[0].dtype, call.node)
    return apply(row, args, call.node)


def _register() -> None:
    words = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    for row in ROWS:
        op(row.name, dtypes=", ".join(words[k] for k in row.kinds))(lambda call, row=row: lower_row(row, call))
    for row in VARIADIC:
        op(row.name, dtypes=", ".join(words[k] for k in row.kinds))(lambda call, row=row: _fold(row, call))


def _fold(row: Row, call: Call) -> Tensor:
    total = call.x(0)
    for i in range(1, len(call.inputs)):
        total = apply(row, [total, call.x(i)], call.node)
    return total


_register()


@op("Mean")
def mean(call: Call) -> Tensor:
    """The arithmetic mean of all inputs."""
    total = _fold(VARIADIC[0], call)
    return Map(
        "{0} * {1}",
        broadcast([total, Fill(1.0 / len(call.inputs), (), total.dtype)], call.node),
        total.dtype,
        call.node,
    )


@op("Where", dtypes="all")
def where(call: Call) -> Tensor:
    """A choice by a condition."""
    c, a, b = broadcast([call.x(0), call.x(1), call.x(2)], call.node)
    return Map("select({2}, {1}, {0})", [c, a, b], a.dtype, call.node)


@op("Clip", dtypes="float, int, uint")
def clip(call: Call) -> Tensor:
    """Bounds as inputs (opset 11) or attributes; NaN stays NaN."""
    x = call.x(0)
    low = call.x(1) if call.has(1) else Fill(call.attr("min"), (), x.dtype) if call.attr("min") is not None else None
    high = call.x(2) if call.has(2) else Fill(call.attr("max"), (), x.dtype) if call.attr("max") is not None else None
    if low is not None:
        x = Map(
            "max({0}, {1})" if x.type != "f32" else "select({0}, {1}, {0} < {1})",
            broadcast([x, low], call.node),
            x.dtype,
            call.node,
        )
    if high is not None:
        x = Map(
            "min({0}, {1})" if x.type != "f32" else "select({0}, {1}, {0} > {1})",
            broadcast([x, high], call.node),
            x.dtype,
            call.node,
        )
    return x


@op("Mod", dtypes="float, int, uint")
def mod(call: Call) -> Tensor:
    """fmod=1 takes the sign of the dividend, 0 that of the divisor."""
    a, b = broadcast([call.x(0), call.x(1)], call.node)
    truncated = bool(call.attr("fmod", 0))
    if a.type == "u32" or (truncated and a.type == "i32"):
        return Map("{0} % {1}", [a, b], a.dtype, call.node, 3)
    name = ("trunc_mod" if truncated else "floor_mod") if a.type == "f32" else "int_floor_mod"
    return Map(name + "({0}, {1})", [a, b], a.dtype, call.node, 4, name)


@op("Gelu", since=20)
def gelu(call: Call) -> Tensor:
    """approximate="tanh" or exact."""
    x = call.x(0)
    if call.attr("approximate", "none") == "tanh":
        return Map(
            "0.5 * {0} * (1.0 + tanh_safe(0.7978845608 * ({0} + 0.044715 * {0} * {0} * {0})))",
            [x],
            x.dtype,
            call.node,
            14,
            "tanh_safe",
        )
    return Map("0.5 * {0} * (1.0 + erf({0} * 0.70710678))", [x], x.dtype, call.node, 14, "erf")


@op("IsInf", since=10)
def is_inf(call: Call) -> Tensor:
    """Either sign, or one of them."""
    positive, negative = call.attr("detect_positive", 1), call.attr("detect_negative", 1)
    sign = {(1, 1): "", (1, 0): " && {0} > 0.0", (0, 1): " && {0} < 0.0", (0, 0): " && false"}[positive, negative]
    return Map("is_inf({0})" + sign, [call.x(0)], BOOL, call.node, 2, "is_inf")


_CASTS = {
    ("f32", "i32"): ("to_i32({0})", "to_i32"),
    ("f32", "u32"): ("to_u32({0})", "to_u32"),
    ("f32", "bool"): ("{0} != 0.0", ""),
    ("i32", "bool"): ("{0} != 0", ""),
    ("u32", "bool"): ("{0} != 0u", ""),
    ("bool", "f32"): ("select(0.0, 1.0, {0})", ""),
    ("bool", "i32"): ("select(0, 1, {0})", ""),
    ("bool", "u32"): ("select(0u, 1u, {0})", ""),
}


def cast(x: Tensor, to: ir.DataType, node: str) -> Tensor:
    """`x` converted. float16 rounds to float16's values; narrow integers wrap; other floats keep their bits."""
    probe = Fill(0, (), to)
    if to == x.dtype:
        return x
    text, helper = _CASTS.get((x.type, probe.type), (f"{probe.type}({{0}})", ""))
    result: Tensor = Map(text, [x], to, node, 1, helper) if x.type != probe.type else Map("{0}", [x], to, node, 0)
    if to == ir.DataType.FLOAT16:
        return Map("quantizeToF16({0})", [result], to, node)
    return Map(NARROW[to], [result], to, node) if to in NARROW else result


@op("Cast", "CastLike", dtypes="all")
def lower_cast(call: Call) -> Tensor:
    """To the dtype of an attribute or of the second input."""
    to = call.dtype(1) if call.op_type == "CastLike" else ir.DataType(call.attr("to"))
    try:
        probe = Fill(0, (), to).type
    except AssertionError:
        probe = ""
    if not probe or to in (ir.DataType.BFLOAT16, ir.DataType.INT4, ir.DataType.UINT4):
        raise Refuse(f"a cast to {to.name.lower()}")
    if to == ir.DataType.UINT64 and call.x(0).type in ("i32", "f32"):
        raise Refuse("a cast to uint64 of numbers that may be negative: what they become does not fit 32 bits")
    return cast(call.x(0), to, call.node)


@op("Identity", "OptionalGetElement", dtypes="all")
def identity(call: Call) -> Tensor:
    """The input itself."""
    return call.x(0)


@op("Dropout", dtypes="all", known=(1, 2))
def dropout(call: Call) -> list[Tensor]:
    """Inference only: the input passes on, and the mask keeps everything."""
    x = call.x(0)
    if call.has(2) and bool(call.need(2, "training mode")) and not (call.has(1) and float(call.need(1, "ratio")) == 0):
        raise Refuse("dropout in training mode is random")
    return [x, Fill(True, x.shape, BOOL)]
