"""Operators at sizes and corners that ONNX's own cases leave out, against its reference evaluator in float64."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import headrace
from conftest import agree

pytestmark = pytest.mark.webgpu
rng = np.random.default_rng(11)


@dataclass(frozen=True)
class Constant:
    """An input that is part of the model."""

    array: np.ndarray


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    return rng.integers(low, high, shape).astype(dtype)


def const(*values: Any, dtype: Any = np.int64) -> Constant:
    return Constant(np.array(values, dtype))


def evaluated(op: str, inputs: list[Any], opset: int, outputs: int, **attributes: Any) -> tuple[list, list]:
    """What the device and the reference say."""
    arrays = [a.array if isinstance(a, Constant) else a for a in inputs]
    names = ["" if a is None else f"i{k}" for k, a in enumerate(arrays)]
    results = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    fed = {n: a for n, a, i in zip(names, arrays, inputs, strict=True) if n and not isinstance(i, Constant)}
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()
    ]
    weights = [
        onnx.numpy_helper.from_array(i.array, n) for n, i in zip(names, inputs, strict=True) if isinstance(i, Constant)
    ]
    graph = helper.make_graph([node], "test", values, [onnx.ValueInfoProto(name=o) for o in results], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            got = session.run(None, fed)
        wide = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in zip(names, arrays, strict=True) if n}
        want = ReferenceEvaluator(node, opsets={"": opset}).run(None, wide)
    return got, want


def row(op: str, inputs: list[Any], opset: int = 18, outputs: int = 1, **attributes: Any) -> Any:
    given = [None if i is None else list((i.array if isinstance(i, Constant) else i).shape) for i in inputs]
    return pytest.param(op, inputs, opset, outputs, attributes, id=f"{op}-{given}-{attributes}".replace(" ", ""))


tied = ints(0, 5, 4, 700, dtype=np.float32)
tuples = np.stack([rng.permutation(6)[:4], rng.integers(-5, 5, 4)], 1)
image = normal(2, 3, 9, 11)
ROWS = [
    # the best of a row: long rows are shared by threads
    row("ArgMax", [normal(3, 2000)], axis=1),
    row("ArgMax", [tied], axis=1),
    row("ArgMax", [tied], axis=-1, select_last_index=1, keepdims=0),
    row("ArgMin", [normal(700, 3, 2)], axis=0),
    row("ArgMax", [ints(-9, 9, 5, 40, dtype=np.int32)], axis=1, select_last_index=1),
    row("Hardmax", [normal(4, 6, 5)], axis=1),
    # sorting: more than one piece, ties, NaN
    row("TopK", [normal(2, 50), const(50)], outputs=2),
    row("TopK", [normal(2, 5000), const(5000)], outputs=2),
    row("TopK", [normal(3, 3000), const(7)], outputs=2, largest=0),
    row("TopK", [tied.T.copy(), const(9)], outputs=2, axis=0),
    row("TopK", [ints(-99, 99, 3, 2100, dtype=np.int32), const(1500)], outputs=2),
    # gathers and scatters, indices known and not
    row("GatherElements", [normal(5, 6), ints(-5, 5, 7, 6)], axis=0),
    row("GatherND", [normal(4, 5, 6), ints(-4, 4, 3, 2, 2)]),
    row("GatherND", [normal(4, 5, 6), ints(-5, 5, 4, 3, 1)], batch_dims=1),
    row("ScatterElements", [normal(6, 4), ints(-6, 6, 5, 3), normal(5, 3)], axis=0, reduction="add"),
    row("ScatterElements", [normal(6, 4), Constant(ints(-6, 6, 5, 3)), normal(5, 3)], axis=0, reduction="mul"),
    row("ScatterElements", [normal(4, 60), Constant(ints(-60, 60, 4, 90)), normal(4, 90)], axis=1, reduction="add"),
    row("ScatterElements", [normal(4, 60), ints(-60, 60, 4, 90), normal(4, 90)], axis=1, reduction="max"),
    row("ScatterND", [normal(6, 5, 7), tuples, normal(4, 7)]),
    row("ScatterND", [normal(6, 5, 7), Constant(tuples), normal(4, 7)]),
    row("ScatterND", [normal(6, 5, 7), ints(0, 6, 20, 1), normal(20, 5, 7)], reduction="add"),
    row("ScatterND", [normal(6, 5, 7), Constant(ints(0, 6, 20, 1)), normal(20, 5, 7)], reduction="min"),
    row("ScatterND", [normal(50), Constant(ints(0, 50, 300, 1)), normal(300)], reduction="add"),
    # masks
    row("Trilu", [normal(2, 5, 7), np.array(2, np.int64)], upper=1),
    row("Trilu", [normal(2, 5, 7), np.array(-3, np.int64)], upper=0),
    row("OneHot", [ints(-6, 6, 3, 4), Constant(np.array(6)), normal(2)], axis=1),
    row("Compress", [normal(5, 6), np.array([1, 0, 0, 1, 1], bool)], axis=0),
    # sums and products
    row("ReduceLogSumExp", [normal(3, 700) * 60, const(1)], keepdims=0),
    row("ReduceMean", [normal(3, 4, 5), const(0, 2)]),
    row("ReduceProd", [normal(3, 4, 5), const(-1)], keepdims=0),
    row("ReduceMax", [ints(-99, 99, 3, 900, dtype=np.int32), const(1)]),
    row("ReduceSum", [ints(-99, 99, 3, 900), const(1)]),
    row("CumSum", [normal(3, 40), Constant(np.array(1))], exclusive=1, reverse=1),
    row("LpNormalization", [normal(3, 5, 4)], axis=1, p=2, opset=22),
    row("LRN", [normal(7, 7, 3, 3)], size=4, alpha=0.3, bias=2.0, beta=0.6),
    row("Det", [normal(5, 7, 7)]),
    # einsum
    row("Einsum", [normal(3, 4), normal(4, 5), normal(5, 2)], equation="ij,jk,kl->il"),
    row("Einsum", [normal(2, 3, 5, 4), normal(2, 6, 3, 4)], equation="bhqd,bkhd->bhqk"),
    row("Einsum", [normal(5, 5, 3)], equation="iij->ji"),
    row("Einsum", [normal(2, 3, 4), normal(4)], equation="...j,j->..."),
    row("Einsum", [normal(3, 4), normal(5, 6)], equation="ij,kl->jl"),
    row("Einsum", [ints(-9, 9, 3, 4, dtype=np.int32), ints(-9, 9, 4, 2, dtype=np.int32)], equation="ij,jk->ik"),
    row("MatMul", [ints(-99, 99, 2, 5, 300, dtype=np.int32), ints(-99, 99, 300, 4, dtype=np.int32)]),
    row("Pad", [normal(0, 4), const(1, 0, 2, 0)]),
    # quantised
    row("MatMulInteger", [ints(0, 255, 9, 700, dtype=np.uint8), ints(-128, 127, 700, 5, dtype=np.int8)]),
    row("QuantizeLinear", [normal(4, 60), const(0.02, 0.05, 0.1, 0.3, dtype=np.float32)], axis=0),
    row("DequantizeLinear", [ints(-99, 99, 4, 6, dtype=np.int32), const(0.02, dtype=np.float32)]),
    row("DynamicQuantizeLinear", [normal(30, 40)], outputs=3),
    # images
    row("Resize", [image, None, const(1, 1, 2.3, 0.6, dtype=np.float32)], mode="linear"),
    row("Resize", [image, None, const(1, 1, 0.41, 0.37, dtype=np.float32)], mode="linear", antialias=1),
    row("Resize", [image, None, const(1, 1, 1.7, 0.5, dtype=np.float32)], mode="cubic", cubic_coeff_a=-0.5),
    row("Resize", [image, None, const(1, 1, 0.45, 0.7, dtype=np.float32)], mode="cubic", antialias=1),
    row(
        "Resize", [image, None, None, const(2, 3, 13, 17)], mode="cubic", coordinate_transformation_mode="align_corners"
    ),
    row("Resize", [image, None, None, const(2, 3, 30, 5)], mode="nearest", nearest_mode="ceil"),
    row("GridSample", [image, normal(2, 4, 5, 2)], opset=20, mode="cubic", padding_mode="reflection"),
    row("GridSample", [image, normal(2, 4, 5, 2)], opset=20, mode="linear", padding_mode="border", align_corners=1),
    row("GridSample", [normal(1, 2, 4, 5, 6), normal(1, 3, 2, 4, 3)], opset=20, mode="linear", padding_mode="zeros"),
    row("DepthToSpace", [normal(2, 12, 3, 5)], blocksize=2, mode="CRD"),
    row("SpaceToDepth", [normal(2, 3, 6, 9)], blocksize=3),
    row("Col2Im", [normal(2, 12, 25), const(6, 7), const(2, 3)]),
    row("MaxPool", [image], outputs=2, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    row("BatchNormalization", [image, *(np.abs(normal(3)) + 0.5 for _ in range(4))], outputs=3, training_mode=1),
    # arithmetic
    row("Mod", [ints(-99, 99, 50, dtype=np.int32), Constant(ints(1, 9, 50, dtype=np.int32) * -1)]),
    row("Mod", [normal(50) * 9, normal(50)], fmod=1),
    row("BitShift", [ints(0, 255, 40, dtype=np.uint8), ints(0, 9, 40, dtype=np.uint8)], direction="LEFT"),
    row("Pow", [ints(1, 9, 30, dtype=np.int32), normal(30)]),
    row("ReverseSequence", [normal(6, 4, 3), ints(1, 6, 4)], batch_axis=1, time_axis=0),
]


def test_hardmax_before_opset_13_is_over_all_axes_from_one_on():
    x = normal(4, 6, 5)
    got, _ = evaluated("Hardmax", [x], 11, 1, axis=1)
    want = np.zeros((4, 30), np.float32)
    want[np.arange(4), x.reshape(4, 30).argmax(1)] = 1
    np.testing.assert_array_equal(got[0], want.reshape(4, 6, 5))


def test_sorting_puts_nan_first():
    x = normal(2, 1500)
    x[0, 700], x[1, 1400] = np.nan, np.nan
    (values, places), _ = evaluated("TopK", [x, const(4)], 18, 2)
    assert np.isnan(values[:, 0]).all()
    np.testing.assert_array_equal(places[:, 0], [700, 1400])
    np.testing.assert_array_equal(values[:, 1:], -np.sort(-np.nan_to_num(x, nan=-99), 1)[:, :3])


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"softcap": 3.0}])
def test_attention_is_one_kernel(attributes):
    shapes = {"q": (2, 4, 9, 16), "k": (2, 2, 11, 16), "v": (2, 2, 11, 16), "m": (9, 11)}
    feeds = {n: normal(*s) for n, s in shapes.items()}
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    node = helper.make_node("Attention", list(shapes), ["y"], **attributes)
    graph = helper.make_graph([node], "test", values, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            got = session.run(None, feeds)[0]
            assert len(session.plan.dispatches) == 1
    q, k, v, mask = (a.astype(np.float64) for a in feeds.values())
    k, v = np.repeat(k, 2, 1), np.repeat(v, 2, 1)
    scores = q @ k.swapaxes(2, 3) / 4
    if cap := attributes.get("softcap"):
        scores = cap * np.tanh(scores / cap)
    scores = scores + mask
    if attributes.get("is_causal"):
        scores = np.where(np.tri(9, 11, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(3, keepdims=True))
    agree(got, p / p.sum(3, keepdims=True) @ v)


@pytest.mark.parametrize(("op", "inputs", "opset", "outputs", "attributes"), ROWS)
def test_against_the_reference(op, inputs, opset, outputs, attributes):
    got, want = evaluated(op, inputs, opset, outputs, **attributes)
    for g, w in zip(got, want, strict=True):
        if g.dtype.kind == "f":
            agree(g, np.asarray(w, np.float64))
        else:
            slack = int("Quantize" in op)  # a quantised value may round the other way
            assert g.shape == w.shape
            assert np.abs(g.astype(np.int64) - w.astype(np.int64)).max(initial=0) <= slack
