"""Bad models and files: a clear error of the right class, never a crash, a hang or another exception."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import headrace
from headrace.model import load
from headrace.model.wire import without_weights

from .models import model_of, normal, one_node


def good() -> onnx.ModelProto:
    return one_node("ConvTranspose", (1, 3, 5), normal((3, 2, 4)), strides=[2])


def session(model):
    return headrace.InferenceSession(model, device="cpu")


def run_fails(model, x):
    with pytest.raises(headrace.HeadraceError), session(model) as s:
        s.run(None, {"x": x})


@pytest.mark.parametrize("content", [b"", b"\0", b"not a model", b"\x08", b"PK\x03\x04" * 100, b"\xff" * 64])
def test_not_a_model(content, tmp_path):
    (tmp_path / "m.onnx").write_bytes(content)
    for source in (content, tmp_path / "m.onnx"):
        with pytest.raises(headrace.ModelError):
            session(source)


def test_truncated(tmp_path):
    whole = good().SerializeToString()
    for cut in range(0, len(whole) - 1, 7):
        with pytest.raises(headrace.HeadraceError):
            session(whole[:cut])


def test_truncated_among_large_weights(tmp_path):
    whole = one_node("ConvTranspose", (1, 64, 50), normal((64, 2, 1024)), strides=[256]).SerializeToString()
    for share in (0.1, 0.5, 0.99):
        (tmp_path / "m.onnx").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(headrace.ModelError):
            session(tmp_path / "m.onnx")


@pytest.mark.parametrize("source", ["nowhere.onnx", 5, None, ["m.onnx"], "/"])
def test_no_such_file(source):
    with pytest.raises(headrace.ModelError):
        session(source)


def test_missing_external_data(tmp_path):
    onnx.save(good(), tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    content = (tmp_path / "w.data").read_bytes()
    (tmp_path / "w.data").write_bytes(content[:10])
    with pytest.raises(headrace.ModelError, match="ends early"):
        session(tmp_path / "m.onnx")
    (tmp_path / "w.data").unlink()
    with pytest.raises(headrace.ModelError, match=r"missing.*w\.data"):
        session(tmp_path / "m.onnx")


def test_unknown_operators_are_listed_all_at_once():
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Spin", ["b"], ["y"], name="second", domain="my.domain"),
    ]
    model = model_of(nodes, {"x": (1,)}, ["y"])
    model.opset_import.append(helper.make_opsetid("my.domain", 1))
    with pytest.raises(headrace.UnsupportedOpError) as raised:
        session(model)
    assert [n.name for n in raised.value.nodes] == ["first", "second"]
    assert "my.domain::Spin" in str(raised.value)


def test_cycle():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(headrace.ModelError, match="cycle"):
        session(model_of(nodes, {"x": (1,)}, ["b"]))


def test_undefined_names():
    with pytest.raises(headrace.ModelError, match="'nope'"):
        session(model_of([helper.make_node("Relu", ["nope"], ["y"])], {"x": (1,)}, ["y"]))
    with pytest.raises(headrace.ModelError, match="'z'"):
        session(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (1,)}, ["z"]))


@pytest.mark.parametrize("strides", [[0], [-1], [2, 2]])
def test_bad_attributes(strides):
    run_fails(one_node("ConvTranspose", (1, 3, 5), normal((3, 2, 4)), strides=strides), normal((1, 3, 5)))


def test_negative_dimensions():
    run_fails(one_node("ConvTranspose", (1, 3, -5), normal((3, 2, 4))), normal((1, 3, 5)))
    with session(one_node("ConvTranspose", (-1, 3, 5), normal((3, 2, 4)))) as s:  # how some exporters write "any"
        assert s.get_inputs()[0].shape == [None, 3, 5]
        assert s.run(None, {"x": normal((2, 3, 5))})[0].shape == (2, 2, 8)


def test_weights_that_do_not_fit():
    run_fails(one_node("ConvTranspose", (1, 5, 5), normal((3, 2, 4))), normal((1, 5, 5)))


def test_wrong_dtype_of_a_weight():
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"], {"w": np.ones((3, 4), np.int32)}
    )
    with pytest.raises(headrace.HeadraceError):
        session(model)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(value):
    w = normal((64, 1, 1024))
    w[3, 0, 7] = value
    x = normal((1, 64, 400))
    with session(one_node("ConvTranspose", x.shape, w, strides=[256])) as s:
        got = s.run(None, {"x": x})[0]
    touched = ~np.isfinite(got[0, 0])
    assert touched.any() and not touched.all()


def test_old_opset():
    with pytest.raises(headrace.ModelError, match="opset 6"):
        session(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (1,)}, ["y"], opset=6))


def test_initializer_without_data():
    model = good()
    model.graph.initializer[0].ClearField("raw_data")
    with pytest.raises(headrace.HeadraceError):
        session(model)


def big() -> bytes:
    return one_node("ConvTranspose", (1, 64, 20), normal((64, 1, 512)), strides=[64]).SerializeToString()


BIG = big()


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files(tmp_path, data):
    """Any change of a few bytes loads, or raises an error of headrace."""
    content = bytearray(BIG if data.draw(st.booleans()) else good().SerializeToString())
    head = min(len(content), 400)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, head - 1) | st.integers(len(content) - 200, len(content) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "insert"]))
        if kind == "set":
            content[at % len(content)] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del content[at : at + data.draw(st.integers(1, 8))]
        else:
            content[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with contextlib.suppress(headrace.HeadraceError):
        load(path)


def test_weights_mapped_from_the_model_file(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(BIG)
    stripped = without_weights(path)
    assert stripped is not None and stripped.ByteSize() < 2000
    np.testing.assert_array_equal(
        next(iter(load(path).graph.initializers.values())).const_value.numpy(),
        numpy_helper.to_array(onnx.load_model_from_string(BIG).graph.initializer[0]),
    )


def test_sequence_and_string_models_run():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    with session(model_of(nodes, {"x": (2,)}, ["y"])) as s:
        assert s.run(None, {"x": np.float32([1, 2])})[0].tolist() == [1, 2, 1, 2]
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": (2,)}, ["y"], dtype=TensorProto.STRING)
    with session(model) as s:
        assert s.run(None, {"x": np.array(["a", "b"], object)})[0].tolist() == ["a", "b"]
        with pytest.raises(headrace.InputError):
            s.run(None, {"x": np.float32([1, 2])})
