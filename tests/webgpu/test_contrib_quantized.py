"""ONNX Runtime's operators on 8-bit tensors, beside float64 and ONNX Runtime: at most one step apart, seldom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import headrace

pytestmark = [pytest.mark.webgpu, pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")]
BITS = [np.uint8, np.int8]
Numbers = tuple[np.ndarray, np.ndarray, np.ndarray]  # 8-bit values, their scale and zero point


def numbers(shape: tuple[int, ...], dtype: Any, seed: int, columns: int = 0) -> Numbers:
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    many = (columns,) if columns else ()
    zero = rng.integers(info.min + 108, info.max - 107, many).astype(dtype)
    return (
        rng.integers(info.min, info.max + 1, shape).astype(dtype),
        np.asarray(rng.uniform(0.01, 0.05, many), np.float32),
        np.asarray(zero, dtype),
    )


def real(x: Numbers) -> np.ndarray:
    return (x[0].astype(np.float64) - x[2].astype(np.float64)) * x[1].astype(np.float64)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def average(x: np.ndarray) -> np.ndarray:
    """Windows of 3x2 by steps of 2, without padding."""
    h, w = (x.shape[2] - 3) // 2 + 1, (x.shape[3] - 2) // 2 + 1
    return np.stack(
        [
            np.stack([x[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2].mean((2, 3)) for j in range(w)], -1)
            for i in range(h)
        ],
        -2,
    )


def check(
    op: str, feeds: list[np.ndarray], constants: list[np.ndarray], order: list[str], out: Numbers, **attributes: Any
) -> None:
    """Run `op` with inputs `order` ("x0" is fed, "c0" is constant) and compare with `out`: wanted numbers, and how
    they are rounded."""
    arrays = {f"x{i}": v for i, v in enumerate(feeds)} | {f"c{i}": v for i, v in enumerate(constants)}
    kinds = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in arrays.items()}
    graph = helper.make_graph(
        [helper.make_node(op, order, ["y"], domain="com.microsoft", **attributes)],
        "test",
        [helper.make_tensor_value_info(f"x{i}", kinds[f"x{i}"], v.shape) for i, v in enumerate(feeds)],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(out[2].dtype), None)],
        [numpy_helper.from_array(v, f"c{i}") for i, v in enumerate(constants)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    given = {f"x{i}": v for i, v in enumerate(feeds)}
    with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
        got = session.run(None, given)[0]
    info = np.iinfo(out[2].dtype)
    exact = np.clip(np.rint(out[0] / out[1].astype(np.float64)) + out[2], info.min, info.max)
    plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, given
    )[0]
    assert got.dtype == out[2].dtype and got.shape == exact.shape == plain.shape
    for other in (exact, plain):
        apart = np.abs(got.astype(int) - other.astype(int))
        assert apart.max(initial=0) <= 1 and apart.mean() <= 0.05, apart
    assert len(np.unique(got)) > 3


def fitting(want: np.ndarray, dtype: Any) -> Numbers:
    """A scale and zero point that a few results saturate."""
    info, low, high = np.iinfo(dtype), min(float(np.quantile(want, 0.02)), 0), max(float(np.quantile(want, 0.98)), 0)
    scale = max(high - low, 1e-3) / 255
    zero = int(np.clip(round(info.min - low / scale), info.min, info.max))
    return want, np.array(scale, np.float32), np.array(zero, dtype)


UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[int, ...], dict[str, Any]]] = {
    "QLinearSigmoid": (lambda x: 1 / (1 + np.exp(-x)), (2, 3, 50), {}),
    "QLinearLeakyRelu": (lambda x: np.where(x < 0, 0.2 * x, x), (2, 3, 50), {"alpha": 0.2}),
    "QLinearSoftmax": (softmax, (3, 4, 9), {"axis": -1, "opset": 13}),
    "QLinearGlobalAveragePool": (lambda x: x.mean((2, 3), keepdims=True), (5, 8, 6, 7), {"channels_last": 0}),
    "QLinearAveragePool": (average, (2, 3, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 2]}),
}


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("op", UNARY)
def test_of_one_tensor(op, dtype):
    function, shape, attributes = UNARY[op]
    x = numbers(shape, dtype, 1)
    y = fitting(function(real(x)), dtype)
    check(op, [x[0]], [x[1], x[2], y[1], y[2]], ["x0", "c0", "c1", "c2", "c3"], y, **attributes)


@pytest.mark.parametrize("dtype", BITS)
def test_pools_with_channels_last(dtype):
    x = numbers((2, 6, 7, 12), dtype, 3)
    y = fitting(real(x).mean((1, 2), keepdims=True), dtype)
    order = ["x0", "c0", "c1", "c2", "c3"]
    check("QLinearGlobalAveragePool", [x[0]], [x[1], x[2], y[1], y[2]], order, y, channels_last=1)


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("shapes", [((2, 3, 8), (2, 3, 8)), ((2, 3, 8), (8,)), ((2, 1, 8), (3, 1)), ((4, 5), ())])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_of_two_tensors(op, shapes, dtype):
    a, b = numbers(shapes[0], dtype, 1), numbers(shapes[1], dtype, 2)
    y = fitting(real(a) + real(b) if op == "QLinearAdd" else real(a) * real(b), dtype)
    order = ["x0", "c0", "c1", "x1", "c2", "c3", "c4", "c5"]
    check(op, [a[0], b[0]], [a[1], a[2], b[1], b[2], y[1], y[2]], order, y)


@pytest.mark.parametrize("dtype", BITS)
def test_concatenation(dtype):
    a, b = numbers((2, 3, 5), dtype, 1), numbers((2, 4, 5), dtype, 2)
    y = fitting(np.concatenate([real(a), real(b)], 1), dtype)
    order = ["c0", "c1", "x0", "c2", "c3", "x1", "c4", "c5"]
    check("QLinearConcat", [a[0], b[0]], [y[1], y[2], a[1], a[2], b[1], b[2]], order, y, axis=1)


@pytest.mark.parametrize("dtype", BITS)
def test_choice(dtype):
    a, b = numbers((2, 3, 5), dtype, 1), numbers((2, 3, 5), dtype, 4)
    mask = np.random.default_rng(5).random((2, 1, 5)) < 0.5
    y = fitting(np.where(mask, real(a), real(b)), dtype)
    order = ["x0", "x1", "c2", "c3", "x2", "c4", "c5", "c0", "c1"]
    check("QLinearWhere", [mask, a[0], b[0]], [y[1], y[2], a[1], a[2], b[1], b[2]], order, y)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("dtype", BITS)
def test_matrix_products(dtype, turned, columns):
    m, k, n = 5, 300, 11
    a = numbers((k, m) if turned[0] else (m, k), dtype, 1)
    b = numbers((n, k) if turned[1] else (k, n), dtype, 2, n if columns else 0)
    c = np.random.default_rng(3).integers(-4000, 4000, n).astype(np.int32)
    left = real(a).T if turned[0] else real(a)
    weights = b[0].T if turned[1] else b[0]
    sums = left @ real((weights, b[1], b[2]))
    y = fitting(0.5 * (sums + c * a[1].astype(np.float64) * b[1]), dtype)
    constants = [a[1], a[2], b[0], b[1], b[2], c, y[1], y[2]]
    order = ["x0", *(f"c{i}" for i in range(8))]
    check("QGemm", [a[0]], constants, order, y, transA=turned[0], transB=turned[1], alpha=0.5)
