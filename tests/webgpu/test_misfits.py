"""Nodes whose operands do not fit: on both devices one of headrace's errors, which names the node, never another
exception and never an answer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import headrace

pytestmark = pytest.mark.webgpu
rng = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def i(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


X, IMAGE = f(4, 5), f(1, 3, 4, 5)
SCALAR = np.array(9)
# operator, what is fed (of open sizes), constants, attributes
ROWS: list[tuple[str, list[np.ndarray], list[np.ndarray | None], dict[str, Any]]] = [
    ("Add", [f(4)], [f(3)], {}),
    ("Where", [np.array([True]), X], [f(3, 3)], {}),
    ("PRelu", [X], [f(3)], {}),
    ("MatMul", [X], [f(3, 2)], {}),
    ("MatMul", [np.float32(3)], [f(3, 2)], {}),
    ("Gemm", [X], [f(3, 2)], {}),
    ("MatMulInteger", [np.ones((4, 5), np.uint8)], [np.ones((3, 3), np.int8)], {}),
    ("Einsum", [X], [f(3, 3)], {"equation": "ij,jk->ik"}),
    ("Conv", [f(1, 4, 9)], [f(3, 2, 3)], {}),
    ("Conv", [f(1, 2, 3)], [f(3, 2, 5)], {}),
    ("Conv", [f(1, 2, 9)], [f(3, 2, 3, 3)], {}),
    ("Conv", [f(1, 2, 9)], [f(3, 2, 3), f(4)], {}),
    ("ConvTranspose", [f(1, 4, 9)], [f(3, 2, 3)], {}),
    ("MaxPool", [IMAGE], [], {"kernel_shape": [9, 9]}),
    ("BatchNormalization", [X], [f(3), f(3), f(3), f(3)], {}),
    ("InstanceNormalization", [f(4, 5, 6)], [f(3), f(3)], {}),
    ("LayerNormalization", [X], [f(3)], {}),
    ("LSTM", [f(4, 1, 5)], [f(1, 12, 4), f(1, 12, 3)], {"hidden_size": 3}),
    ("Reshape", [f(7)], [i(2, 3)], {}),
    ("Reshape", [f(7)], [i(-1, 3)], {}),
    ("Reshape", [f(7)], [i(-1, -1)], {}),
    ("Reshape", [f(7), i(2, 2)], [], {}),
    ("Concat", [X], [f(3, 2)], {"axis": 1}),
    ("Concat", [X, X], [], {"axis": 5}),
    ("Transpose", [X], [], {"perm": [0, 2, 1]}),
    ("Transpose", [X], [], {"perm": [0, 0]}),
    ("Softmax", [X], [], {"axis": 4}),
    ("ReduceSum", [X], [i(7)], {}),
    ("CumSum", [X], [np.array(5)], {}),
    ("Gather", [X], [i(9)], {}),
    ("Gather", [X], [i(1, -9)], {}),
    ("GatherElements", [X], [i([9])], {}),
    ("GatherND", [X], [i([9])], {}),
    ("ScatterND", [X], [i([9]), f(1, 5)], {}),
    ("ScatterElements", [X], [i([9]), f(1, 1)], {}),
    ("TopK", [X], [i(9)], {}),
    ("Expand", [X], [i(3, 3)], {}),
    ("Slice", [X], [i(0), i(1), i(6)], {}),
    ("Slice", [X], [i(0), i(1), i(0), i(0)], {}),
    ("Split", [X], [i(1, 9)], {}),
    ("Squeeze", [X], [i(1)], {}),
    ("Unsqueeze", [X], [i(9)], {}),
    ("Tile", [X], [i(2)], {}),
    ("Pad", [X], [i(1, 1, 1)], {}),
    ("Pad", [X], [i(-9, 0, 0, 0)], {}),
    ("Pad", [X], [i(9, 0, 0, 0)], {"mode": "reflect"}),
    ("Resize", [X], [None, np.array([1, 2, 3], np.float32)], {}),
    ("DepthToSpace", [IMAGE], [], {"blocksize": 2}),
    ("GridSample", [IMAGE], [f(2, 3, 3, 3)], {}),
    ("OneHot", [i(1, 2)], [np.array(-3), f(2)], {}),
    ("ConstantOfShape", [i(-3)], [], {}),
    ("Range", [np.array(0), np.array(4), np.array(0)], [], {}),
    ("Div", [i(1, 2)], [np.array(0)], {}),
    ("QuantizeLinear", [X], [np.ones(3, np.float32), np.zeros(3, np.uint8)], {}),
]


def model_of(op: str, fed: list[np.ndarray], constants: list[np.ndarray | None], attributes: dict[str, Any]) -> Any:
    """One node called "culprit", its fed inputs of open sizes."""
    outputs = {"TopK": 2, "Split": 2}.get(op, 1)
    names = [f"x{k}" for k in range(len(fed))]
    weights = ["" if c is None else f"c{k}" for k, c in enumerate(constants)]
    node = helper.make_node(op, [*names, *weights], [f"y{k}" for k in range(outputs)], name="culprit", **attributes)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(a).dtype), [None] * np.ndim(a))
        for n, a in zip(names, fed, strict=True)
    ]
    held = [onnx.numpy_helper.from_array(c, n) for n, c in zip(weights, constants, strict=True) if c is not None]
    graph = helper.make_graph([node], "test", values, [onnx.ValueInfoProto(name=o) for o in node.output], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model, {n: np.asarray(a) for n, a in zip(names, fed, strict=True)}


def ids(row: Any) -> str:
    return f"{row[0]}-{[list(np.shape(a)) for a in (*row[1], *row[2])]}-{row[3]}".replace(" ", "")


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_on_the_device(row: Any, fallback: bool) -> None:
    model, feeds = model_of(*row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            headrace.InferenceSession(model, device="webgpu", fallback=fallback) as session,
            pytest.raises((headrace.InputError, headrace.ModelError)) as error,
        ):
            session.run(None, feeds)
    assert "'culprit'" in str(error.value) and row[0] in str(error.value)
    assert "onnxruntime_src" not in str(error.value)


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_on_the_cpu(row: Any) -> None:
    model, feeds = model_of(*row)
    with pytest.raises((headrace.InputError, headrace.ModelError)) as error:
        headrace.InferenceSession(model, device="cpu").run(None, feeds)
    assert "onnxruntime_src" not in str(error.value)
