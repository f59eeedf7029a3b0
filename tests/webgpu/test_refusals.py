"""Without fallback, every node that has no kernel is named at once, also those that wait for others."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace

pytestmark = [pytest.mark.webgpu, pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")]
node = helper.make_node


def model() -> onnx.ModelProto:
    """Four nodes without a kernel, one after the other, between nodes that have one, that ONNX defines by a function,
    and an If."""
    branch = helper.make_graph([node("Neg", ["c"], ["t"])], "same", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([node("Abs", ["c"], ["e"])], "same", [], [onnx.ValueInfoProto(name="e")])
    nodes = [
        node("Relu", ["x"], ["a"], name="fine"),
        node("CDist", ["a", "x"], ["b"], name="first", domain="com.microsoft"),
        node("Celu", ["b"], ["c"], name="defined by a function"),
        node("Cast", ["c"], ["yes"], name="to bool", to=TensorProto.BOOL),
        node("Cast", ["yes"], ["yes8"], name="to int", to=TensorProto.INT32),
        node("ReduceMax", ["yes8"], ["any"], name="largest", keepdims=0),
        node("Cast", ["any"], ["any_"], name="back", to=TensorProto.BOOL),
        node("If", ["any_"], ["d"], name="choice", then_branch=branch, else_branch=other),
        node("Trilu", ["d"], ["e1"], name="fine too"),
        node("NonZero", ["e1"], ["places"], name="counted"),
        node("Inverse", ["d"], ["f"], name="second", domain="com.microsoft"),
        node("RandomNormalLike", ["f"], ["g"], name="random"),
        node("Unique", ["g"], ["y"], name="third"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    outputs = [helper.make_tensor_value_info(n, t, None) for n, t in (("y", 1), ("places", 7))]
    graph = helper.make_graph(nodes, "test", [x], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


WITHOUT = {"first", "second", "random", "third"}


def test_a_session_names_all_of_them():
    with headrace.InferenceSession(model(), device="webgpu", fallback=False) as session:
        with pytest.raises(headrace.UnsupportedOpError) as raised:
            session.run(None, {"x": np.ones((4, 4), np.float32)})
        named = {n.name for n in raised.value.nodes}
        assert named >= WITHOUT and not named & {"fine", "fine too", "defined by a function", "choice", "to bool"}


def test_what_was_asked_for_is_no_refusal():
    with headrace.InferenceSession(
        model(), device="webgpu", fallback=False, host_nodes=["second", "random"]
    ) as session:
        with pytest.raises(headrace.UnsupportedOpError) as raised:
            session.run(None, {"x": np.ones((4, 4), np.float32)})
        assert {"first", "third"} <= {n.name for n in raised.value.nodes}
        assert not {"second", "random"} & {n.name for n in raised.value.nodes}


def test_an_export_names_all_of_them(tmp_path):
    with pytest.raises(headrace.UnsupportedOpError) as raised:
        headrace.export_web(model(), tmp_path)
    assert {n.name for n in raised.value.nodes} >= WITHOUT
