"""Every elementwise operator at the values where shaders differ from ONNX: NaN, infinities, zeros, halves, huge and
tiny numbers; and reductions that meet NaN."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace

pytestmark = pytest.mark.webgpu
rng = np.random.default_rng(3)
INF, NAN = np.inf, np.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -3.0, 1e-30, -1e-30, 1e-4, -1e-4, 88.0, 89.5]
SPECIAL += [-80.0, -120.0, 1e4, -8191.7, 12345.678, 1e10, -1e10, 3e38, -3e38, INF, -INF, NAN]
X = np.concatenate([np.array(SPECIAL), rng.standard_normal(200) * 3, rng.uniform(-1, 1, 50)]).astype(np.float32)
X = np.concatenate([X, (rng.uniform(0, 1, 60) * 10.0 ** rng.integers(3, 38, 60)).astype(np.float32)])
PAIRS = np.array(list(itertools.product(SPECIAL, SPECIAL)), np.float32)
A, B = PAIRS[:, 0].copy(), PAIRS[:, 1].copy()
ABSOLUTE = {"Gelu": 1e-6}  # 1 + erf(x) loses what erf has left to -1
Unary = Callable[[np.ndarray], Any]


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0.0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _shrink(x: np.ndarray) -> np.ndarray:
    return np.where(x < -0.7, x + 0.2, np.where(x > 0.7, x - 0.2, 0.0))


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x])


UNARY: dict[str, tuple[Unary, dict[str, Any]]] = {
    "Neg": (np.negative, {}),
    "Abs": (np.abs, {}),
    "Sign": (np.sign, {}),
    "Reciprocal": (lambda x: 1 / x, {}),
    "Sqrt": (np.sqrt, {}),
    "Exp": (np.exp, {}),
    "Log": (np.log, {}),
    "Floor": (np.floor, {}),
    "Ceil": (np.ceil, {}),
    "Round": (np.round, {}),
    "Erf": (_erf, {}),
    "Sin": (np.sin, {}),
    "Cos": (np.cos, {}),
    "Tan": (np.tan, {}),
    "Asin": (np.arcsin, {}),
    "Acos": (np.arccos, {}),
    "Atan": (np.arctan, {}),
    "Sinh": (np.sinh, {}),
    "Cosh": (np.cosh, {}),
    "Tanh": (np.tanh, {}),
    "Asinh": (np.arcsinh, {}),
    "Acosh": (np.arccosh, {}),
    "Atanh": (np.arctanh, {}),
    "Relu": (lambda x: np.maximum(x, 0), {}),
    "Sigmoid": (_sigmoid, {}),
    "LeakyRelu": (lambda x: np.where(x >= 0, x, 0.1 * x), {"alpha": 0.1}),
    "Elu": (lambda x: np.where(x >= 0, x, 1.5 * np.expm1(x)), {"alpha": 1.5}),
    "Selu": (lambda x: 1.2 * np.where(x > 0, x, 1.5 * np.expm1(x)), {"alpha": 1.5, "gamma": 1.2}),
    "Celu": (lambda x: np.where(x >= 0, x, 1.5 * np.expm1(x / 1.5)), {"alpha": 1.5}),
    "ThresholdedRelu": (lambda x: np.where(x > 0.7, x, 0), {"alpha": 0.7}),
    "HardSigmoid": (lambda x: np.clip(0.3 * x + 0.4, 0, 1), {"alpha": 0.3, "beta": 0.4}),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "Softplus": (_softplus, {}),
    "Softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), {}),
    "Shrink": (_shrink, {"bias": 0.2, "lambd": 0.7}),
    "Clip": (lambda x: np.clip(x, -0.7, 1.2), {}),
    "Gelu": (lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), {}),
    "IsNaN": (np.isnan, {}),
    "IsInf": (np.isinf, {}),
    "IsInf/positive": (np.isposinf, {"detect_negative": 0}),
    "IsInf/negative": (np.isneginf, {"detect_positive": 0}),
}
BINARY: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Add": (np.add, {}),
    "Sub": (np.subtract, {}),
    "Mul": (np.multiply, {}),
    "Div": (np.divide, {}),
    "Pow": (np.power, {}),
    "Max": (np.maximum, {}),
    "Min": (np.minimum, {}),
    "Mod": (np.fmod, {"fmod": 1}),
    "PRelu": (lambda a, b: np.where(a >= 0, a, a * b), {}),
    "Equal": (np.equal, {}),
    "Less": (np.less, {}),
    "LessOrEqual": (np.less_equal, {}),
    "Greater": (np.greater, {}),
    "GreaterOrEqual": (np.greater_equal, {}),
}


def run_all(table: Mapping[str, Any], feeds: Mapping[str, np.ndarray], **session: Any) -> dict[str, np.ndarray]:
    """All operators of a table in one model."""
    nodes, outputs = [], []
    for name, (_, attributes) in table.items():
        op = name.split("/")[0]
        bounds = ["low", "high"] if op == "Clip" else []
        nodes.append(helper.make_node(op, [*feeds, *bounds], [name], name=name, **attributes))
        outputs.append(onnx.ValueInfoProto(name=name))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    constants = [onnx.numpy_helper.from_array(np.float32(v), n) for n, v in (("low", -0.7), ("high", 1.2))]
    graph = helper.make_graph(nodes, "test", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as s:
            return dict(zip(table, s.run(None, feeds), strict=True))


def same(got: np.ndarray, want: Any, inputs: np.ndarray, absolute: float = 1e-37) -> None:
    """Raise unless all elements agree: each to its own size, NaN and infinities exactly."""
    want = np.asarray(want)
    if want.dtype == bool:
        np.testing.assert_array_equal(got, want)
        return
    with np.errstate(over="ignore"):
        want = want.astype(np.float32)
    tiny = np.abs(want) < 1.2e-38  # a device may make these zero
    want, got = np.where(tiny, 0, want), np.where(tiny & (np.abs(got) < 1.2e-38), 0, got)
    close = np.isclose(got, want, rtol=3e-5, atol=absolute, equal_nan=True)
    if not close.all():
        wrong = [(inputs[i].tolist(), float(got[i]), float(want[i])) for i in np.flatnonzero(~close)[:12]]
        raise AssertionError(f"input, got, want: {wrong}")


@pytest.fixture(scope="module")
def unary() -> dict[str, np.ndarray]:
    return run_all(UNARY, {"x": X})


@pytest.fixture(scope="module")
def binary() -> dict[str, np.ndarray]:
    return run_all(BINARY, {"a": A, "b": B})


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(unary: dict[str, np.ndarray], name: str) -> None:
    with np.errstate(all="ignore"):
        want = UNARY[name][0](X.astype(np.float64))
    same(unary[name], want, X, ABSOLUTE.get(name, 1e-37))


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(binary: dict[str, np.ndarray], name: str) -> None:
    with np.errstate(all="ignore"):
        want = BINARY[name][0](A.astype(np.float64), B.astype(np.float64))
    same(binary[name], want, PAIRS)


INTEGERS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 31, 32, -32, 33, 64, 100, -100, 2**31 - 1, -(2**31)]
I_PAIRS = np.array(list(itertools.product(INTEGERS, INTEGERS)), np.int64)


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def wrapped(a: np.ndarray, dtype: Any) -> np.ndarray:
    """Integers modulo the width of `dtype`."""
    return a.astype(np.int64).astype(dtype)


I_BINARY: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Add": (np.add, {}),
    "Sub": (np.subtract, {}),
    "Mul": (np.multiply, {}),
    "Max": (np.maximum, {}),
    "Min": (np.minimum, {}),
    "Less": (np.less, {}),
    "GreaterOrEqual": (np.greater_equal, {}),
    "Equal": (np.equal, {}),
    "BitwiseAnd": (np.bitwise_and, {}),
    "BitwiseXor": (np.bitwise_xor, {}),
    "Div": (_truncated, {}),
    "Mod": (np.mod, {}),
    "Mod/fmod": (np.fmod, {"fmod": 1}),
}


def integer_model(names: list[str], dtype: Any, n: int) -> onnx.ModelProto:
    nodes = [helper.make_node(k.split("/")[0], ["a", "b"], [k], **I_BINARY[k][1]) for k in names]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [helper.make_tensor_value_info(i, kind, [n]) for i in "ab"]
    graph = helper.make_graph(nodes, "test", inputs, [onnx.ValueInfoProto(name=k) for k in names])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def quietly(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], **options: Any) -> list[np.ndarray]:
    """One run on the device, without the warning about software adapters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False, **options) as session:
            return session.run(None, feeds)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8, np.uint8, np.int16, np.int64])
def test_integers(dtype: Any) -> None:
    """Wrapping at the dtype's width; a division by zero, or of the smallest number by -1, ends with some number."""
    info = np.iinfo(dtype)
    a, b = np.clip(I_PAIRS, info.min, info.max).T
    names = [k for k in I_BINARY if info.bits >= 32 or not k.startswith("Mod/")]
    results = quietly(integer_model(names, dtype, len(a)), {"a": a.astype(dtype), "b": b.astype(dtype)})
    got = dict(zip(names, results, strict=True))
    for k in names:
        keep = np.full(len(a), True)
        if k.split("/")[0] in ("Div", "Mod"):
            keep = (b != 0) & ~((b == -1) & (a == info.min))
        want = I_BINARY[k][0](a[keep], b[keep])
        fits = np.full(len(want), True) if want.dtype == bool or info.bits < 64 else np.abs(want) < 2**31
        want = want if want.dtype == bool else wrapped(want, dtype)
        np.testing.assert_array_equal(got[k][keep][fits], want[fits], err_msg=k)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_shifts_of_any_distance(dtype: Any, direction: str) -> None:
    """A shift by the width or more leaves nothing."""
    a = rng.integers(0, np.iinfo(dtype).max, 300).astype(dtype)
    b = rng.integers(0, 70, 300).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("BitShift", ["a", "b"], ["y"], direction=direction)
    inputs = [helper.make_tensor_value_info(i, kind, [300]) for i in "ab"]
    graph = helper.make_graph([node], "test", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    wide, far = a.astype(np.uint64), np.minimum(b, 40).astype(np.uint64)
    want = (wide << far if direction == "LEFT" else wide >> far) & np.uint64(np.iinfo(dtype).max)
    np.testing.assert_array_equal(quietly(model, {"a": a, "b": b})[0], want.astype(dtype))


def test_integer_powers() -> None:
    base = np.array([0, 1, -1, 2, -2, 3, 10, -1, -1, 1, 5, -7], np.int32)
    exponent = np.array([5, -3, -3, 30, 31, 4, 9, 2, -2, 7, 0, 3], np.int32)
    node = helper.make_node("Pow", ["a", "b"], ["y"])
    inputs = [helper.make_tensor_value_info(i, TensorProto.INT32, [len(base)]) for i in "ab"]
    graph = helper.make_graph([node], "test", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    want = wrapped(np.power(base.astype(np.float64), exponent), np.int32)
    np.testing.assert_array_equal(quietly(model, {"a": base, "b": exponent})[0], want)


def test_negative_integers_as_uint64() -> None:
    """Their 64 bits do not fit the device's 32: the host casts them."""
    x = np.array([-1, 0, 1, -(2**31), 2**31 - 1, -77], np.int32)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT64)
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT32, [len(x)])]
    graph = helper.make_graph([node], "test", inputs, [helper.make_tensor_value_info("y", TensorProto.UINT64, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu") as session:
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], x.astype(np.uint64))


ROWS = np.where(rng.random((12, 700)) < 0.002, NAN, rng.standard_normal((12, 700)) * 5).astype(np.float32)
ROWS[0, 5], ROWS[1, :4], ROWS[2, 3], ROWS[3] = INF, -INF, NAN, -INF
REDUCTIONS: dict[str, tuple[Unary, dict[str, Any]]] = {
    "ReduceMax": (lambda x: x.max(1), {}),
    "ReduceMin": (lambda x: x.min(1), {}),
    "ReduceSum": (lambda x: x.sum(1), {}),
    "ReduceMean": (lambda x: x.mean(1), {}),
    "ReduceL1": (lambda x: np.abs(x).sum(1), {}),
    "ReduceL2": (lambda x: np.sqrt((x * x).sum(1)), {}),
    "ReduceSumSquare": (lambda x: (x * x).sum(1), {}),
    "ReduceLogSumExp": (lambda x: np.logaddexp.reduce(x, 1), {}),
    "ArgMax": (lambda x: x.argmax(1), {"axis": 1}),
    "ArgMin": (lambda x: x.argmin(1), {"axis": 1}),
    "Hardmax": (lambda x: np.arange(x.shape[1]) == x.argmax(1)[:, None], {"axis": 1}),
    "Softmax": (lambda x: np.exp(x - np.logaddexp.reduce(x, 1, keepdims=True)), {"axis": 1}),
    "LogSoftmax": (lambda x: x - np.logaddexp.reduce(x, 1, keepdims=True), {"axis": 1}),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("length", [700, 3])
def test_reductions(name: str, length: int) -> None:
    """NaN of a row goes into its result, infinities too."""
    x = ROWS[:, :length].copy()
    attributes = REDUCTIONS[name][1]
    inputs = ["x"] if attributes else ["x", "axes"]
    node = helper.make_node(name, inputs, ["y"], **(attributes or {"keepdims": 0}))
    if "Arg" in name:
        node.attribute.append(helper.make_attribute("keepdims", 0))
    constants = [] if attributes else [onnx.numpy_helper.from_array(np.array([1]), "axes")]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "test", [value], [onnx.ValueInfoProto(name="y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    got = quietly(model, {"x": x})[0]
    with np.errstate(all="ignore"):
        want = np.asarray(REDUCTIONS[name][0](x.astype(np.float64))).astype(got.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 if "Soft" not in name else 1e-6, equal_nan=True)


def test_phases_far_from_zero() -> None:
    """sin and cos of angles up to the largest: reduced by as many digits of pi as they need."""
    x = (rng.uniform(1, 2, 4000) * 2.0 ** rng.integers(-20, 127, 4000) * rng.choice([-1, 1], 4000)).astype(np.float32)
    near = np.round(np.arange(1, 4000) * np.pi / 2, 3).astype(np.float32)
    got = run_all({"Sin": (np.sin, {}), "Cos": (np.cos, {})}, {"x": np.concatenate([x, near])})
    for name, f in (("Sin", np.sin), ("Cos", np.cos)):
        want = f(np.concatenate([x, near]).astype(np.float64))
        assert np.abs(got[name] - want).max() < 2e-7, name


WIDE = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Less": np.less,
    "Equal": np.equal,
    "Div": np.floor_divide,
    "Mod": np.mod,
}


@pytest.mark.parametrize("name", WIDE)
def test_unsigned_of_64_bits_is_never_cut(name: str) -> None:
    """Arithmetic leaves the device, since its results may need all bits; what stays there is exact."""
    a = rng.integers(1, 2**32, 100, dtype=np.uint64)
    b = rng.integers(1, 2**32, 100, dtype=np.uint64)
    node = helper.make_node(name, ["a", "b"], ["y"])
    inputs = [helper.make_tensor_value_info(i, TensorProto.UINT64, [100]) for i in "ab"]
    output = helper.make_tensor_value_info(
        "y", TensorProto.UINT64 if name not in ("Less", "Equal") else TensorProto.BOOL, None
    )
    model = helper.make_model(
        helper.make_graph([node], "test", inputs, [output]), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu") as session:
            np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], WIDE[name](a, b))
