"""If nodes whose condition the device computes, and sizes that float arithmetic decides, beside ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import headrace
from conftest import agree

pytestmark = pytest.mark.webgpu
node = helper.make_node


def branch(
    name: str, nodes: list[Any], outputs: list[str], constants: Mapping[str, np.ndarray] = MappingProxyType({})
) -> onnx.GraphProto:
    values = [onnx.ValueInfoProto(name=o) for o in outputs]
    return helper.make_graph(nodes, name, [], values, [numpy_helper.from_array(a, n) for n, a in constants.items()])


def conditional(then: onnx.GraphProto, other: onnx.GraphProto, outputs: list[str], after: list[Any]) -> onnx.ModelProto:
    """`outputs` of an If on whether x sums to more than 0, and `after` makes y of them."""
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=1),
        node("Greater", ["sum", "zero"], ["positive"]),
        node("Relu", ["x"], ["r"]),
        node("If", ["positive"], outputs, name="choice", then_branch=then, else_branch=other),
        *after,
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])
    constants = [numpy_helper.from_array(np.float32([0]), "zero"), numpy_helper.from_array(np.float32([0.5]), "half")]
    graph = helper.make_graph(nodes, "test", [x], [onnx.ValueInfoProto(name="y")], constants)
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


W = {"w": np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)}
IDENTITY = [node("Identity", ["a"], ["y"])]
SAME = {
    "elementwise": ([node("Mul", ["x", "half"], ["t"])], [node("Neg", ["r"], ["e"])], ["a"], IDENTITY, {}),
    "a product": ([node("MatMul", ["r", "w"], ["t"])], [node("Identity", ["x"], ["e"])], ["a"], IDENTITY, W),
    "not a number in the other": (
        [node("Log", ["x"], ["t"])],
        [node("Exp", ["x"], ["e"])],
        ["a"],
        [node("Softmax", ["a"], ["y"])],
        {},
    ),
    "integers": (
        [node("Greater", ["x", "half"], ["g"]), node("Cast", ["g"], ["t"], to=TensorProto.INT64)],
        [node("Less", ["x", "half"], ["l"]), node("Cast", ["l"], ["e"], to=TensorProto.INT64)],
        ["a"],
        [node("Cast", ["a"], ["y"], to=TensorProto.FLOAT)],
        {},
    ),
}


def both_signs(model: onnx.ModelProto, **options: Any) -> list[str]:
    """Compare on inputs of both signs, with and without NaN; the operators that ran on the host."""
    plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", **options) as session:
            for seed, sign in ((0, 1), (1, -1), (2, 1)):
                x = np.abs(np.random.default_rng(seed).standard_normal((3, 6))).astype(np.float32) * np.float32(sign)
                agree(session.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
            x[0, 0] = np.nan
            agree(session.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
            return [h.op_type for h in session.plan.host_steps]


@pytest.mark.parametrize("name", SAME)
def test_branches_of_one_shape_are_both_computed(name):
    then, other, outputs, after, weights = SAME[name]
    model = conditional(branch("yes", then, ["t"], weights), branch("no", other, ["e"]), outputs, after)
    assert both_signs(model, fallback=False) == []


def test_two_outputs_and_an_if_within():
    inner = node(
        "If",
        ["large"],
        ["t"],
        then_branch=branch("more", [node("Add", ["r", "half"], ["m"])], ["m"]),
        else_branch=branch("less", [node("Sub", ["r", "half"], ["l"])], ["l"]),
    )
    then = [node("Greater", ["sum", "half"], ["large"]), inner, node("Abs", ["x"], ["u"])]
    other = [node("Neg", ["x"], ["e"]), node("Exp", ["x"], ["f"])]
    after = [node("Add", ["a", "b"], ["y"])]
    model = conditional(branch("yes", then, ["t", "u"]), branch("no", other, ["e", "f"]), ["a", "b"], after)
    assert both_signs(model, fallback=False) == []


DIFFERENT = {
    "shapes": ([node("Concat", ["x", "x"], ["t"], axis=0)], [node("Neg", ["x"], ["e"])], IDENTITY, {}),
    "shape numbers": (
        [node("Identity", ["tall"], ["t"])],
        [node("Identity", ["wide"], ["e"])],
        [node("Reshape", ["x", "a"], ["y"])],
        {"tall": np.array([6, 3], np.int64), "wide": np.array([1, 18], np.int64)},
    ),
    "one that fails": ([node("Reshape", ["x", "five"], ["t"])], [node("Neg", ["x"], ["e"])], IDENTITY, {}),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_branches_that_differ_run_on_the_host(name):
    then, other, after, constants = DIFFERENT[name]
    model = conditional(branch("yes", then, ["t"]), branch("no", other, ["e"]), ["a"], after)
    constants = constants | {"five": np.array([-1, 5], np.int64)}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.warns(UserWarning), headrace.InferenceSession(model, device="webgpu") as session:
        for sign in (-1,) if name == "one that fails" else (1, -1):
            x = np.float32(sign) * np.abs(np.random.default_rng(4).standard_normal((3, 6))).astype(np.float32)
            agree(session.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])
        assert "If" in [h.op_type for h in session.plan.host_steps]
    with (
        pytest.warns(UserWarning),
        headrace.InferenceSession(model, device="webgpu", fallback=False) as session,
        pytest.raises(headrace.UnsupportedOpError, match=r"choice.*condition"),
    ):
        session.run(None, {"x": x})


@pytest.mark.parametrize("op", ["Resize", "Upsample"])
def test_a_resized_size_is_rounded_as_a_float32(op):
    """Sizes and scales whose exact product is just under a whole number, and just over."""
    rng = np.random.default_rng(0)
    exact = [(n, int(rng.integers(1, 2 * n)) / n) for n in rng.integers(2, 900, 14).tolist()]
    for n, scale in [(700, 0.7), (30, 1.1), *exact]:
        scale += 1 if op == "Upsample" else 0
        scales = np.float32([1, 1, 1, scale])
        nodes = [node(op, ["x", *([""] if op == "Resize" else []), "s"], ["y"], mode="nearest")]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, n])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "test", [x], [y], [numpy_helper.from_array(scales, "s")])
        opsets = [helper.make_opsetid("", 18 if op == "Resize" else 9)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        feeds = {"x": rng.standard_normal((1, 1, 2, n)).astype(np.float32)}
        want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, feeds
        )
        with pytest.warns(UserWarning), headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            assert session.run(None, feeds)[0].shape == want[0].shape, (n, scale)
