"""Kernels whose threads would make more iterations than a software adapter allows: llvmpipe leaves loops after 65,535
of them and says nothing, so every such kernel shares the work among threads, or does it in parts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import headrace

pytestmark = pytest.mark.webgpu
rng = np.random.default_rng(2)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run(
    nodes: list[Any],
    feeds: dict[str, np.ndarray],
    constants: dict[str, Any],
    outputs: list[str],
    fallback: bool = False,
) -> Any:
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    weights = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "test", values, [onnx.ValueInfoProto(name=o) for o in outputs], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=fallback) as session:
            return session.run(None, feeds)[0]


def one(op: str, feeds: dict[str, np.ndarray], constants: dict[str, Any] | None = None, **attributes: Any) -> Any:
    outputs = ["y", "z"] if op == "TopK" else ["y"]
    node = helper.make_node(op, [*feeds, *(constants or {})], outputs, **attributes)
    return run([node], feeds, constants or {}, outputs)


def close(got: np.ndarray, want: np.ndarray, tolerance: float = 1e-4) -> None:
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("shape", [(16, 70_000), (2, 1_100_000), (1, 4_300_000)])
def test_reductions(shape: tuple[int, int]) -> None:
    x = np.abs(normal(*shape))
    x[:, -1] = 99
    for op, want in (("ReduceSum", x.astype(np.float64).sum(1)), ("ReduceMax", x.max(1))):
        close(one(op, {"x": x}, {"axes": [1]}, keepdims=0), want)
    np.testing.assert_array_equal(one("ArgMax", {"x": x}, axis=1, keepdims=0), shape[1] - 1)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 700, 6601, 40_000])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceL2", "Softmax", "LayerNormalization"])
def test_sums_keep_their_digits(op: str, length: int) -> None:
    """A thread that adds one number after another loses a digit for every hundred of them; quantisation shows it."""
    x = np.random.default_rng(length).uniform(0.5, 1.5, (9, length)).astype(np.float32)
    wide, scale = x.astype(np.float64), np.ones(length, np.float32)
    mean = wide.mean(1, keepdims=True)
    centred, exponentials = wide - mean, np.exp(wide)
    want = {
        "ReduceSum": wide.sum(1, keepdims=True),
        "ReduceMean": mean,
        "ReduceL2": np.sqrt((wide**2).sum(1, keepdims=True)),
        "Softmax": exponentials / exponentials.sum(1, keepdims=True),
        "LayerNormalization": centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5),
    }[op]
    constants = {"scale": scale} if op == "LayerNormalization" else {} if op == "Softmax" else {"axes": [1]}
    close(one(op, {"x": x}, constants), want, 1.5e-6)


def test_integer_sums() -> None:
    x = rng.integers(0, 9, (9, 90_000)).astype(np.int32)
    np.testing.assert_array_equal(one("ReduceSum", {"x": x}, {"axes": [1]}, keepdims=0), x.sum(1))


@pytest.mark.parametrize("shape", [(1, 16, 40_000), (1, 2, 400_000)])
def test_normalizations(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    constants = {"scale": np.ones(shape[1], np.float32), "bias": np.zeros(shape[1], np.float32)}
    close(one("InstanceNormalization", {"x": x}, constants), want)
    powers = np.exp(wide)
    close(one("Softmax", {"x": x}, axis=-1), powers / powers.sum(2, keepdims=True))


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
@pytest.mark.parametrize("n", [70_000, 131_072])
def test_cumulative_sums(attributes: dict[str, int], n: int) -> None:
    x = rng.integers(-9, 9, (2, n)).astype(np.int32)
    way = slice(None, None, -1) if "reverse" in attributes else slice(None)
    want = np.cumsum(x[:, way], 1)
    want = (want - x[:, way] if "exclusive" in attributes else want)[:, way]
    np.testing.assert_array_equal(one("CumSum", {"x": x}, {"axis": np.array(1)}, **attributes), want)


def test_products() -> None:
    a, b = normal(3, 130_000), normal(130_000, 5)
    want = a.astype(np.float64) @ b
    close(one("MatMul", {"a": a, "b": b}), want)
    close(one("MatMul", {"a": a}, {"b": b}), want)
    m, n = (rng.integers(0, 9, s).astype(np.int32) for s in ((2, 3, 140_000), (140_000, 4)))
    np.testing.assert_array_equal(one("MatMul", {"m": m, "n": n}), m @ n)


@pytest.mark.parametrize("constant", [False, True])
def test_convolutions(constant: bool) -> None:
    x, w, b = normal(1, 2048, 7, 7), normal(3, 2048, 6, 6), normal(3)
    want = np.stack([
        (x[0, :, i : i + 6, j : j + 6].astype(np.float64) * w).sum((1, 2, 3)) + b for i in range(2) for j in range(2)
    ])  # fmt: skip
    fed = {"x": x} if constant else {"x": x, "w": w, "b": b}
    close(one("Conv", fed, {"w": w, "b": b} if constant else {}), want.T.reshape(1, 3, 2, 2))


@pytest.mark.parametrize(("keys", "size"), [(1500, 64), (1500, 128), (5000, 32)])
def test_attention(keys: int, size: int) -> None:
    q, k, v = normal(1, 2, 8, size), normal(1, 2, keys, size), normal(1, 2, keys, size)
    node = helper.make_node
    nodes = [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Mul", ["s", "c"], ["t"]),
        node("Softmax", ["t"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    score = np.exp(q.astype(np.float64) @ np.swapaxes(k, 2, 3) * size**-0.5)
    got = run(nodes, {"q": q, "k": k, "v": v}, {"c": np.float32(size**-0.5)}, ["y"])
    close(got, score / score.sum(-1, keepdims=True) @ v)


@pytest.mark.parametrize("how", ["none", "add"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shape", [(9,), (9, 3)])
def test_scatters(how: str, known: bool, shape: tuple[int, ...]) -> None:
    """Many updates of few slots, the last ones past the limit."""
    count = 130_001
    x, index = normal(*shape), rng.integers(0, 3, (count, 1))
    index[-1] = 8
    update = rng.integers(-3, 4, (count, *shape[1:])).astype(np.float32)
    want = x.astype(np.float64)
    if how == "none":
        for slot in np.unique(index):
            want[slot] = update[np.flatnonzero(index[:, 0] == slot)[-1]]
    else:
        np.add.at(want, index[:, 0], update)
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=how)
    feeds = {"x": x, "u": update} | ({} if known else {"i": index})
    close(run([node], feeds, {"i": index} if known else {}, ["y"]), want)


def test_scatter_of_elements() -> None:
    x, index, update = normal(2, 7), rng.integers(0, 5, (2, 70_000)), normal(2, 70_000)
    index[:, -1], want = 6, x.copy()
    for row in range(2):
        want[row, index[row]] = update[row]  # the last one stays
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)
    np.testing.assert_array_equal(run([node], {"x": x, "i": index, "u": update}, {}, ["y"]), want)


@pytest.mark.parametrize("size", [54, 55, 64])
def test_determinants(size: int) -> None:
    """On the host where a thread would make too many iterations."""
    x = normal(3, size, size) / np.float32(size**0.5)
    got = run([helper.make_node("Det", ["x"], ["y"])], {"x": x}, {}, ["y"], fallback=True)
    close(got, np.linalg.det(x.astype(np.float64)), 1e-3)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("size", [244, 256])
def test_large_windows(op: str, size: int) -> None:
    x = np.abs(normal(1, 2, size + 1, size))
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[size, size])
    parts = [x[:, :, i : i + size].astype(np.float64) for i in range(2)]
    how = {"MaxPool": np.max, "AveragePool": np.mean, "LpPool": lambda v, axis: np.sqrt((v**2).sum(axis))}[op]
    want = np.stack([how(v, axis=(2, 3)) for v in parts], 2)[..., None]
    close(run([node], {"x": x}, {}, ["y"], fallback=True), want)
