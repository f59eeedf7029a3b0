"""Folding and tidying: what changes, what must not, and that values stay."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.model import load
from headrace.rules import Target, optimize_model

from . import oracle
from .models import model_of, normal


def exported(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[headrace.Note]]:
    rewritten = optimize_model(load(model), Target.EXPORT)
    return ir.to_proto(rewritten.ir), rewritten.notes


def same_values(model: onnx.ModelProto, rewritten: onnx.ModelProto, *shapes) -> None:
    feeds = {v.name: normal(s, i) for i, (v, s) in enumerate(zip(model.graph.input, shapes, strict=True))}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

    def run(m: onnx.ModelProto) -> list[np.ndarray]:
        session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    onnx.checker.check_model(rewritten, full_check=True)
    for got, want in zip(run(rewritten), run(model), strict=True):
        oracle.assert_close(got, want.astype(np.float64), 200)


def ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def norm_constants(channels: int) -> dict[str, np.ndarray]:
    return {
        "scale": normal([channels], 11),
        "shift": normal([channels], 12),
        "mean": normal([channels], 13),
        "var": np.abs(normal([channels], 14)) + 0.1,
    }


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("op", "w", "group"), [("Conv", (6, 2, 3), 2), ("ConvTranspose", (4, 3, 3), 2)])
def test_batch_normalization_folds(op, w, group, bias):
    constants = {"w": normal(w), **norm_constants(6)} | ({"b": normal([6], 5)} if bias else {})
    nodes = [
        helper.make_node(op, ["x", "w"] + ["b"] * bias, ["c"], group=group),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["y"], epsilon=1e-3),
    ]
    model = model_of(nodes, {"x": (2, 4, 9)}, ["y"], constants)
    rewritten, _ = exported(model)
    assert ops(rewritten) == [op]
    same_values(model, rewritten, (2, 4, 9))


@pytest.mark.parametrize("op", ["Mul", "Div", "Add", "Sub"])
@pytest.mark.parametrize("shape", [(5, 1), (1, 5, 1), ()])
@pytest.mark.parametrize("swapped", [False, True])
def test_scale_and_shift_fold(op, shape, swapped):
    order = ["k", "c"] if swapped else ["c", "k"]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node(op, order, ["y"])]
    model = model_of(nodes, {"x": (1, 3, 8)}, ["y"], {"w": normal((5, 3, 2)), "k": normal(shape, 4)})
    rewritten, _ = exported(model)
    assert ops(rewritten) == (["Conv", "Div"] if op == "Div" and swapped else ["Conv"])
    same_values(model, rewritten, (1, 3, 8))


def test_a_chain_folds_into_one_convolution():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "k"], ["d"]),
        helper.make_node("Add", ["d", "m"], ["y"]),
    ]
    model = model_of(
        nodes, {"x": (1, 3, 8)}, ["y"], {"w": normal((5, 3, 2)), "k": normal((5, 1), 4), "m": normal((5, 1), 5)}
    )
    rewritten, notes = exported(model)
    assert ops(rewritten) == ["Conv"] and len(notes) >= 2
    same_values(model, rewritten, (1, 3, 8))


def test_a_bias_and_then_a_normalisation_fold():
    constants = {"w": normal((4, 6, 3)), "k": normal((6, 1), 4), **norm_constants(6)}
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["c"]),
        helper.make_node("Add", ["c", "k"], ["d"]),
        helper.make_node("BatchNormalization", ["d", "scale", "shift", "mean", "var"], ["y"]),
    ]
    model = model_of(nodes, {"x": (2, 4, 9)}, ["y"], constants)
    rewritten, _ = exported(model)
    assert ops(rewritten) == ["ConvTranspose"]
    same_values(model, rewritten, (2, 4, 9))


def test_not_folded_where_the_convolution_is_read_twice():
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Mul", ["c", "k"], ["y"])]
    model = model_of(nodes, {"x": (1, 3, 8)}, ["y", "c"], {"w": normal((5, 3, 2)), "k": normal((5, 1), 4)})
    rewritten, notes = exported(model)
    assert ops(rewritten) == ["Conv", "Mul"]
    assert any(n.refused and "other nodes read" in n.text for n in notes)


@pytest.mark.parametrize("k", [normal((5, 7), 4), normal((1, 1, 7), 4)])
def test_not_folded_where_it_varies_along_time(k):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Mul", ["c", "k"], ["y"])]
    model = model_of(nodes, {"x": (1, 3, 8)}, ["y"], {"w": normal((5, 3, 2)), "k": k})
    rewritten, _ = exported(model)
    assert ops(rewritten) == ["Conv", "Mul"]


def test_not_folded_with_infinite_constants():
    constants = {"w": normal((6, 4, 3)), **norm_constants(6)}
    constants["var"] = np.zeros(6, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["y"], epsilon=0.0),
    ]
    with np.errstate(divide="ignore"):
        rewritten, notes = exported(model_of(nodes, {"x": (2, 4, 9)}, ["y"], constants))
    assert ops(rewritten) == ["Conv", "BatchNormalization"]
    assert any("not finite" in n.text for n in notes)


def test_identities_go_and_names_stay():
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 1]),
        helper.make_node("Dropout", ["c"], ["d"]),
        helper.make_node("Neg", ["d"], ["e"]),
        helper.make_node("Identity", ["e"], ["y"]),
        helper.make_node("Identity", ["x"], ["z"]),
    ]
    model = model_of(nodes, {"x": (2, 3)}, ["y", "z"])
    rewritten, _ = exported(model)
    assert ops(rewritten) == ["Neg", "Identity"]
    assert [o.name for o in rewritten.graph.output] == ["y", "z"]
    same_values(model, rewritten, (2, 3))


def test_constants_fold_and_dead_nodes_go():
    nodes = [
        helper.make_node("Add", ["one", "two"], ["three"]),
        helper.make_node("Mul", ["x", "three"], ["y"]),
        helper.make_node("Exp", ["x"], ["unused"]),
    ]
    constants = {"one": np.float32([1, 2]), "two": np.float32([2, 2])}
    model = model_of(nodes, {"x": (4, 2)}, ["y"], constants)
    rewritten, notes = exported(model)
    assert ops(rewritten) == ["Mul"]
    assert any("no output needs" in n.text for n in notes)
    same_values(model, rewritten, (4, 2))


def test_random_nodes_are_not_folded():
    node = helper.make_node("RandomNormal", [], ["y"], shape=[2, 2])
    rewritten, _ = exported(model_of([node], {}, ["y"]))
    assert ops(rewritten) == ["RandomNormal"]


def test_polyphase_is_written_where_it_pays(tmp_path):
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[256], name="up")]
    model = model_of(nodes, {"x": ("batch", 64, 400)}, ["y"], {"w": normal((64, 2, 1024))})
    notes = headrace.optimize(model, tmp_path / "out.onnx", dims={"batch": 1})
    assert [n.node for n in notes if not n.refused] == ["up"]
    written = onnx.load(tmp_path / "out.onnx")
    assert "ConvTranspose" not in ops(written)
    x = normal((1, 64, 400))
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    got = ort.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    oracle.assert_close(got, want.astype(np.float64), 64 * 4)


def test_batch_normalization_after_convtranspose_on_the_cpu():
    constants = {"w": normal((8, 6, 4)), **norm_constants(6)}
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["c"], strides=[2]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["y"]),
    ]
    model = model_of(nodes, {"x": (1, 8, 50)}, ["y"], constants)
    x = normal((1, 8, 50))
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    with headrace.InferenceSession(model, device="cpu") as session:
        oracle.assert_close(session.run(None, {"x": x})[0], want.astype(np.float64), 64)
        assert any("folded" in n.text for n in session.notes)
