"""Models whose dynamic sizes have to fit each other: their one plan is made for sizes that do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.model import load
from headrace.plan import prepare_graph, verify_plan
from headrace.plan.general import forms_of
from headrace.target import DEFAULT
from headrace.web.bundle import lower_fully
from headrace.web.general import general_plans

from .models import model_of, normal
from .webgpu.conftest import agree

node = helper.make_node


def I64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def window() -> onnx.ModelProto:
    """A signal of rank 2, with nothing that tells it from tokens but its window of 300 samples."""
    nodes = [
        node("Unsqueeze", ["x", "one"], ["u"]),
        node("Conv", ["u", "w"], ["y"], strides=[60]),
    ]
    return model_of(nodes, {"x": ("n", "t")}, ["y"], {"one": I64(1), "w": normal((6, 1, 300), 1)})


def decoder() -> onnx.ModelProto:
    """Queries see keys of the past and their own, through a mask over both; positions are a Range that starts where
    the past ends."""
    nodes = [
        node("Concat", ["past", "x"], ["keys"], axis=1),
        node("Shape", ["past"], ["p"], start=1, end=2),
        node("Shape", ["keys"], ["all"], start=1, end=2),
        node("Squeeze", ["p"], ["first"]),
        node("Squeeze", ["all"], ["end"]),
        node("Range", ["first", "end", "one"], ["at"]),
        node("Cast", ["at"], ["place"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["place", "last"], ["column"]),
        node("Mul", ["column", "rate"], ["angle"]),
        node("Sin", ["angle"], ["turn"]),
        node("Add", ["x", "turn"], ["q"]),
        node("Transpose", ["keys"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Unsqueeze", ["mask", "middle"], ["m"]),
        node("Add", ["scores", "m"], ["masked"]),
        node("Softmax", ["masked"], ["weights"], axis=-1),
        node("MatMul", ["weights", "keys"], ["y"]),
    ]
    inputs = {"x": ("n", "t", 8), "past": ("n", "p", 8), "mask": ("n", "s")}
    constants = {"one": np.array(1, np.int64), "last": I64(1), "middle": I64(1), "rate": normal((8,), 2)}
    return model_of(nodes, inputs, ["y"], constants)


def concatenated() -> onnx.ModelProto:
    """Two names for one size, and a third input as wide as both together."""
    nodes = [
        node("Concat", ["a", "b"], ["ab"], axis=0),
        node("Concat", ["ab", "ab"], ["wide"], axis=1),
        node("Mul", ["wide", "c"], ["y"]),
    ]
    return model_of(nodes, {"a": (3, "m"), "b": (2, "n"), "c": (5, "w")}, ["y"])


def product() -> onnx.ModelProto:
    """What is flattened has as many features as the other matrix has rows."""
    nodes = [node("Flatten", ["x"], ["f"], axis=1), node("MatMul", ["f", "z"], ["y"])]
    return model_of(nodes, {"x": ("n", 4, "t"), "z": ("k", 7)}, ["y"])


def downsampled() -> onnx.ModelProto:
    """A skip connection to what a convolution of stride 2 leaves."""
    nodes = [node("Conv", ["x", "w"], ["c"], strides=[2], pads=[1, 1]), node("Add", ["c", "skip"], ["y"])]
    return model_of(nodes, {"x": (1, 3, "t"), "skip": (1, 5, "s")}, ["y"], {"w": normal((5, 3, 3), 1)})


MODELS = {
    "window": (window(), [{"n": 1, "t": 3000}, {"n": 3, "t": 301}]),
    "decoder": (decoder(), [{"n": 1, "t": 5, "p": 3, "s": 8}, {"n": 2, "t": 1, "p": 20, "s": 21}]),
    "concatenated": (concatenated(), [{"m": 6, "n": 6, "w": 12}, {"m": 41, "n": 41, "w": 82}]),
    "product": (product(), [{"n": 1, "t": 3, "k": 12}, {"n": 5, "t": 60, "k": 240}]),
    "downsampled": (downsampled(), [{"t": 40, "s": 20}, {"t": 77, "s": 39}]),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_for_all_sizes_that_fit_each_other(on_device, name):
    proto, sizes = MODELS[name]
    model = load(proto)
    graph, forms = prepare_graph(model), forms_of(model)
    plans = general_plans(graph, forms, DEFAULT, {}, lambda specs, target: lower_fully(graph, specs, target, {}))
    for dims in sizes:
        found = next((p for p in plans if p.admits(dims)), None)
        assert found is not None, [str(g) for p in plans for g in p.guards if not g.holds(dims)]
        plan = found.at(dims)
        verify_plan(plan, DEFAULT)
        feeds = {n: normal([dims.get(d, d) for d in shape], i) for i, (n, (shape, _)) in enumerate(forms.items())}
        with headrace.InferenceSession(proto, device="cpu") as session:
            agree(on_device(plan, feeds)["y"], session.run(None, feeds)[0])


def test_sizes_that_never_fit_are_an_error():
    """What no change of a size mends is reported with the node."""
    nodes = [node("Shape", ["x"], ["s"]), node("MatMul", ["x", "w"], ["m"]), node("Concat", ["m", "w"], ["y"], axis=0)]
    model = load(model_of(nodes, {"x": ("n", 5)}, ["y"], {"w": normal((6, 4))}))
    graph = prepare_graph(model)
    with pytest.raises(headrace.InputError, match=r"input_shapes.*MatMul"):
        general_plans(graph, forms_of(model), DEFAULT, {}, lambda s, t: lower_fully(graph, s, t, {}))


@pytest.mark.parametrize("unnamed", ["?", "", "-1", "None", None])
def test_dimensions_without_a_name_need_not_be_equal(unnamed):
    """Exporters write the same mark for all sizes that they do not know."""
    proto = model_of([node("Relu", ["x"], ["y"])], {"x": ("a", 3, "b", "b")}, ["y"])
    for axis in (2, 3):
        dim = proto.graph.input[0].type.tensor_type.shape.dim[axis]
        if unnamed is None:
            dim.Clear()
        else:
            dim.dim_param = unnamed
    assert forms_of(load(proto))["x"][0] == ("a", 3, "x[2]", "x[3]")


def by_rate(other: str) -> onnx.ModelProto:
    """An If on the value of an input, as speech models have it: `other` is what the second branch does."""
    branches = {"then_branch": ("Tanh", "t"), "else_branch": (other, "e")}
    graphs = {
        name: helper.make_graph(
            [node(op, ["x", "x"] if op == "Concat" else ["x"], [out], **({"axis": 1} if op == "Concat" else {}))],
            name,
            [],
            [onnx.ValueInfoProto(name=out)],
        )
        for name, (op, out) in branches.items()
    }
    nodes = [
        node("Equal", ["rate", "usual"], ["same"]),
        node("If", ["same"], ["a"], **graphs),
        node("Neg", ["a"], ["y"]),
    ]
    proto = model_of(nodes, {"x": ("n", "t")}, ["y"], {"usual": np.array(16000, np.int64)})
    proto.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    return proto


def test_an_input_chooses_between_branches_of_one_shape(on_device, tmp_path):
    proto = by_rate("Exp")
    graph, forms = prepare_graph(load(proto)), forms_of(load(proto))
    plan = general_plans(graph, forms, DEFAULT, {}, lambda s, t: lower_fully(graph, s, t, {}))[0].at({"n": 2, "t": 9})
    x = normal((2, 9))
    for rate, want in ((16000, -np.tanh(x)), (8000, -np.exp(x))):
        agree(on_device(plan, {"x": x, "rate": np.array(rate, np.int64)})["y"], want)
    for shapes in (None, {"x": (2, 9)}):
        assert len(headrace.export_web(proto, tmp_path, shapes)["inputs"]) == 2


@pytest.mark.parametrize("shapes", [None, {"x": (2, 9)}])
def test_an_input_that_decides_shapes_is_refused_by_name(tmp_path, shapes):
    with pytest.raises(headrace.InputError, match="'rate' decide shapes"):
        headrace.export_web(by_rate("Concat"), tmp_path, shapes)
