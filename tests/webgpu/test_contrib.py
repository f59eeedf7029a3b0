"""ONNX Runtime's own operators, beside ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import headrace

pytestmark = pytest.mark.webgpu
rng = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def both(
    op: str, inputs: list[np.ndarray | None], constant: set[int], outputs: int = 1, **attributes: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What the device and ONNX Runtime give for one node; `constant` inputs are part of the model."""
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    results = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, domain="com.microsoft", **attributes)
    fed = {n: a for k, (n, a) in enumerate(zip(names, inputs, strict=True)) if a is not None and k not in constant}
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()
    ]
    weights = [onnx.numpy_helper.from_array(inputs[k], names[k]) for k in sorted(constant) if inputs[k] is not None]
    wanted = [helper.make_tensor_value_info(o, onnx.TensorProto.FLOAT, None) for o in results]
    graph = helper.make_graph([node], "test", values, wanted, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            return session.run(None, fed), theirs.run(None, fed)


ROWS = [
    ("FastGelu", [normal(2, 5, 33), normal(33)], {1}, {}),
    ("FastGelu", [normal(7, 9)], set(), {}),
    ("BiasGelu", [normal(4, 12), normal(12)], {1}, {}),
    ("Gelu", [normal(4, 12)], set(), {}),
    ("QuickGelu", [normal(4, 12)], set(), {"alpha": 1.3}),
    ("SkipLayerNormalization", [normal(2, 5, 64), normal(2, 5, 64), normal(64), normal(64)], {2, 3}, {"epsilon": 1e-5}),
    ("SkipLayerNormalization", [normal(1, 3, 40), normal(1, 3, 40), normal(40), None, normal(40)], {2, 4}, {}),
    ("SkipSimplifiedLayerNormalization", [normal(2, 3, 40), normal(2, 3, 40), normal(40)], {2}, {"epsilon": 1e-6}),
    ("FusedMatMul", [normal(3, 7, 5), normal(3, 7, 6)], set(), {"transA": 1, "alpha": 0.3}),
    ("FusedMatMul", [normal(5, 7), normal(6, 7)], {1}, {"transB": 1}),
    ("FusedMatMul", [normal(2, 3, 5, 7), normal(7, 6)], {1}, {"alpha": -2.0}),
]


@pytest.mark.parametrize(("op", "inputs", "constant", "attributes"), ROWS)
def test_float_operators(op: str, inputs: list[Any], constant: set[int], attributes: dict[str, Any]) -> None:
    got, want = both(op, inputs, constant, **attributes)
    np.testing.assert_allclose(got[0], want[0], rtol=2e-5, atol=2e-5)


def test_the_sum_before_a_normalization() -> None:
    x, skip = normal(2, 5, 32), normal(2, 5, 32)
    model = [x, skip, normal(32), normal(32)]
    node = helper.make_node(
        "SkipLayerNormalization", ["x", "s", "g", "b"], ["y", "", "", "sum"], domain="com.microsoft"
    )
    fed = dict(zip("xs", model[:2], strict=True))
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info(n, 1, a.shape) for n, a in fed.items()],
        [helper.make_tensor_value_info(n, 1, None) for n in ("y", "sum")],
        [onnx.numpy_helper.from_array(a, n) for n, a in zip("gb", model[2:], strict=True)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        with headrace.InferenceSession(loaded, device="webgpu", fallback=False) as session:
            np.testing.assert_allclose(session.run(["sum"], fed)[0], x + skip, rtol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_lstm(direction: str, per_channel: bool, dtype: Any) -> None:
    """Rounded as ONNX Runtime does: the results are as near as one step of the rounding lets them be."""
    directions, steps, size, hidden = 2 if direction == "bidirectional" else 1, 9, 6, 17
    info = np.iinfo(dtype)
    w = rng.integers(info.min, info.max, (directions, size, 4 * hidden)).astype(dtype)
    r = rng.integers(info.min, info.max, (directions, hidden, 4 * hidden)).astype(dtype)
    shape = (directions, 4 * hidden) if per_channel else (directions,)
    scales = [(rng.uniform(0.5, 1, shape) * 0.006).astype(np.float32) for _ in "wr"]
    zero = np.full(shape, 0 if dtype == np.int8 else 128, dtype)
    inputs = [normal(steps, 1, size), w, r, normal(directions, 8 * hidden) * 0.1, None]
    inputs += [normal(directions, 1, hidden) * 0.3, normal(directions, 1, hidden) * 0.3, None]
    inputs += [scales[0], zero, scales[1], zero]
    got, want = both("DynamicQuantizeLSTM", inputs, {1, 2, 3, 8, 9, 10, 11}, 3, direction=direction, hidden_size=hidden)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)
        assert np.abs(a - b).mean() < 2e-4
