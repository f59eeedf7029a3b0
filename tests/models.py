"""Small ONNX models for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    dtype: int = TensorProto.FLOAT,
    opset: int = 20,
    output_dtype: int | None = None,
) -> onnx.ModelProto:
    """A model of one graph; inputs and outputs share a dtype, the outputs have no shape."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, dtype, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, output_dtype or dtype, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    ir_version = 10 if opset >= 19 else 8
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def one_node(
    op: str, x: Sequence[Any], w: np.ndarray, bias: np.ndarray | None = None, *, opset: int = 20, **attributes: Any
) -> onnx.ModelProto:
    """y = op(x, w[, bias]) with constant w and bias."""
    constants = {"w": w} | ({} if bias is None else {"b": bias})
    node = helper.make_node(op, ["x", *constants], ["y"], name="node", **attributes)
    dtype = helper.np_dtype_to_tensor_dtype(w.dtype)
    return model_of([node], {"x": x}, ["y"], constants, dtype=dtype, opset=opset)


def normal(shape: Sequence[int], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Random numbers that are never zero."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return np.where(values == 0, 1.0, values).astype(dtype)


def inverse_dft_basis(n: int, dtype: Any = np.float32) -> np.ndarray:
    """Real rows, then imaginary rows, of a windowed inverse real DFT: [2·(n // 2 + 1), 1, n], periodic Hann window."""
    bins, k = np.arange(n // 2 + 1)[:, None], np.arange(n)[None]
    weight = np.where((bins == 0) | (2 * bins == n), 1.0, 2.0)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)
    angle = 2 * np.pi * (bins * k % n) / n
    rows = np.concatenate([weight * np.cos(angle), -weight * np.sin(angle)]) * window / n
    return rows[:, None].astype(dtype)
