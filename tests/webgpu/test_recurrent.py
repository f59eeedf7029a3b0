"""RNN, GRU and LSTM against a plain float64 walk over the steps."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import headrace
from conftest import agree

pytestmark = pytest.mark.webgpu
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, SIZE, HIDDEN = 7, 3, 5, 70


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(op: str, x: np.ndarray, h: np.ndarray, c: np.ndarray, d: dict[str, np.ndarray], how: dict[str, Any]) -> Any:
    """One step of one sequence: the new h and c."""
    hold = (lambda v: np.clip(v, -how["clip"], how["clip"])) if "clip" in how else (lambda v: v)
    w, r = (np.split(d[k], GATES[op]) for k in "wr")
    wb, rb = (np.split(b, GATES[op]) for b in np.split(d["b"], 2))
    a = [wi @ x + bi for wi, bi in zip(w, wb, strict=True)]
    b = [ri @ h + bi for ri, bi in zip(r, rb, strict=True)]
    if op == "RNN":
        return np.tanh(hold(a[0] + b[0])), c
    if op == "GRU":
        z, reset = sigmoid(hold(a[0] + b[0])), sigmoid(hold(a[1] + b[1]))
        inner = reset * b[2] if how.get("linear_before_reset") else r[2] @ (reset * h) + rb[2]
        return (1 - z) * np.tanh(hold(a[2] + inner)) + z * h, c
    pi, po, pf = np.split(d["p"], 3)
    i, f = sigmoid(hold(a[0] + b[0] + pi * c)), sigmoid(hold(a[2] + b[2] + pf * c))
    c = f * c + i * np.tanh(hold(a[3] + b[3]))
    return sigmoid(hold(a[1] + b[1] + po * c)) * np.tanh(c), c


def oracle(op: str, feeds: dict[str, np.ndarray], how: dict[str, Any]) -> list[np.ndarray]:
    wide = {k: a.astype(np.float64) for k, a in feeds.items()}
    directions, lengths = feeds["w"].shape[0], feeds["l"]
    y = np.zeros((STEPS, directions, BATCH, HIDDEN))
    h, c = wide["h"].copy(), wide["c"].copy()
    for d, n in itertools.product(range(directions), range(BATCH)):
        weights = {k: wide[k][d] for k in "wrbp"}
        turns = range(lengths[n])
        for t in reversed(turns) if how["direction"] == "reverse" or d else turns:
            h[d, n], c[d, n] = step(op, wide["x"][t, n], h[d, n], c[d, n], weights, how)
            y[t, d, n] = h[d, n]
    return [y, h, c] if op == "LSTM" else [y, h]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "more"),
    [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1, "clip": 0.4}), ("LSTM", {}), ("LSTM", {"clip": 0.4})],
)
def test_sequences_of_different_lengths(op, more, direction):
    rng = np.random.default_rng(3)
    count, gates = 2 if direction == "bidirectional" else 1, GATES[op]
    shapes = {
        "x": (STEPS, BATCH, SIZE),
        "w": (count, gates * HIDDEN, SIZE),
        "r": (count, gates * HIDDEN, HIDDEN),
        "b": (count, 2 * gates * HIDDEN),
        "h": (count, BATCH, HIDDEN),
        "c": (count, BATCH, HIDDEN),
        "p": (count, 3 * HIDDEN),
    }
    feeds = {k: (rng.standard_normal(s) * 0.3).astype(np.float32) for k, s in shapes.items()}
    feeds["l"] = np.array([7, 3, 5], np.int32)
    names = ["x", "w", "r", "b", "l", "h", *(["c", "p"] if op == "LSTM" else [])]
    outputs = ["y", "y_h", *(["y_c"] if op == "LSTM" else [])]
    how = {"direction": direction, **more}
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, **how)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(feeds[n].dtype), feeds[n].shape) for n in names
    ]
    graph = helper.make_graph([node], "test", values, [onnx.ValueInfoProto(name=o) for o in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            got = session.run(None, {n: feeds[n] for n in names})
    for g, want in zip(got, oracle(op, feeds, how), strict=True):
        agree(g, want)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("clip", [None, 0.4])
def test_nan_stays(op, clip):
    """From the step that meets one on, in its own sequence; clipping does not turn it into a number."""
    rng = np.random.default_rng(7)
    shapes = {"x": (5, 2, 3), "w": (1, GATES[op] * 4, 3), "r": (1, GATES[op] * 4, 4)}
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    feeds["x"][2, 1] = np.nan
    how = {} if clip is None else {"clip": clip}
    node = helper.make_node(op, list(feeds), ["y"], hidden_size=4, **how)
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    graph = helper.make_graph([node], "test", values, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            y = session.run(None, feeds)[0][:, 0]
    assert np.isnan(y[2:, 1]).all()
    assert np.isfinite(y[:2]).all() and np.isfinite(y[:, 0]).all()


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("op", "steps", "hidden"), [("LSTM", 260, 256), ("GRU", 90, 330), ("RNN", 3000, 64)])
def test_long_sequences(op, steps, hidden, direction):
    """More steps than one launch may walk where an invocation's loops are counted; one sequence is shorter."""
    rng = np.random.default_rng(5)
    count, gates = 2 if direction == "bidirectional" else 1, GATES[op]
    feeds = {
        "x": rng.standard_normal((steps, 2, 8)),
        "w": rng.standard_normal((count, gates * hidden, 8)) * 0.3,
        "r": rng.standard_normal((count, gates * hidden, hidden)) * 0.7 / np.sqrt(hidden),
        "b": rng.standard_normal((count, 2 * gates * hidden)) * 0.3,
    }
    feeds = {n: a.astype(np.float32) for n, a in feeds.items()} | {"l": np.array([steps, steps - 37], np.int32)}
    outputs = ["y", "y_h"]
    node = helper.make_node(op, list(feeds), outputs, hidden_size=hidden, direction=direction)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    wanted = [helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in outputs]
    graph = helper.make_graph([node], "test", values, wanted)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            got = session.run(None, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)
