"""The public face: inputs, outputs, errors, life cycle, initializers that are fed, segments."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import headrace

from . import oracle
from .models import inverse_dft_basis, model_of, normal, one_node


def add_model(shape=("batch", 3)):
    return model_of([helper.make_node("Add", ["x", "k"], ["y"])], {"x": shape}, ["y"], {"k": np.float32([1, 2, 3])})


def test_public_names():
    assert sorted(headrace.__all__) == [
        "Device", "DeviceError", "HeadraceError", "InferenceSession", "InputError", "ModelError", "NodeArg", "Note",
        "UnsupportedNode", "UnsupportedOpError", "__version__", "devices", "export_web", "optimize",
    ]  # fmt: skip
    for name in headrace.__all__:
        assert getattr(headrace, name).__doc__


def test_errors_are_one_tree():
    for error in (headrace.ModelError, headrace.UnsupportedOpError, headrace.InputError, headrace.DeviceError):
        assert issubclass(error, headrace.HeadraceError)


def test_importing_headrace_is_light():
    code = "import sys, headrace; print([m for m in ('jax', 'torch', 'wgpu', 'openvino') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_described_as_onnxruntime_does(tmp_path):
    import onnxruntime as ort

    path = tmp_path / "m.onnx"
    onnx.save(add_model(), path)
    theirs = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with headrace.InferenceSession(path, providers=["CPUExecutionProvider"]) as ours:
        assert ours.device == "cpu"
        for mine, reference in zip(ours.get_inputs(), theirs.get_inputs(), strict=True):
            assert (mine.name, mine.shape, mine.type) == (reference.name, reference.shape, reference.type)
        assert [o.name for o in ours.get_outputs()] == ["y"]
        assert ours.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize("source", ["path", "str", "bytes", "proto"])
def test_sources(source, tmp_path):
    model = add_model()
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    given = {"path": path, "str": str(path), "bytes": model.SerializeToString(), "proto": model}[source]
    with headrace.InferenceSession(given, device="cpu") as session:
        np.testing.assert_array_equal(session.run(["y"], {"x": np.zeros((2, 3), np.float32)})[0], [[1, 2, 3]] * 2)


WRONG = {
    "unknown name": ({"x": np.zeros((1, 3), np.float32), "z": np.zeros(1)}, "No such input: 'z'"),
    "missing": ({}, "Missing input: 'x' (float32 [batch, 3])"),
    "dtype": ({"x": np.zeros((1, 3))}, "wrong dtype: given float64"),
    "rank": ({"x": np.zeros(3, np.float32)}, "wrong rank"),
    "dimension": ({"x": np.zeros((1, 4), np.float32)}, "wrong shape: given float32 [1, 4]"),
    "no mapping": ([1], "dict of arrays"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(name):
    feeds, text = WRONG[name]
    with headrace.InferenceSession(add_model(), device="cpu") as session:
        for _ in range(2):  # the second time must not find it remembered as right
            with pytest.raises(headrace.InputError) as raised:
                session.run(None, feeds)
            assert text in str(raised.value)


def test_wrong_output_names():
    with headrace.InferenceSession(add_model(), device="cpu") as session:
        for names in (["nope"], "y"):
            with pytest.raises(headrace.InputError):
                session.run(names, {"x": np.zeros((1, 3), np.float32)})


def test_lists_and_other_arrays_are_fed():
    with headrace.InferenceSession(add_model(), device="cpu") as session:
        np.testing.assert_array_equal(session.run(None, {"x": [[1, 1, 1]]})[0], [[2, 3, 4]])
        strided = np.ones((3, 2), np.float32).T
        np.testing.assert_array_equal(session.run(None, {"x": strided})[0], [[2, 3, 4]] * 2)


def test_empty_batch():
    with headrace.InferenceSession(add_model(), device="cpu") as session:
        assert session.run(None, {"x": np.zeros((0, 3), np.float32)})[0].shape == (0, 3)


def test_dims():
    with headrace.InferenceSession(add_model(), device="cpu", dims={"batch": 2}) as session:
        assert session.get_inputs()[0].shape == [2, 3]
        with pytest.raises(headrace.InputError):
            session.run(None, {"x": np.zeros((1, 3), np.float32)})
    for dims in ({"nope": 1}, {"batch": 0}, {"batch": -1}, {"batch": "two"}):
        with pytest.raises(headrace.InputError):
            headrace.InferenceSession(add_model(), device="cpu", dims=dims)


def test_unknown_device_and_threads():
    with pytest.raises(headrace.DeviceError):
        headrace.InferenceSession(add_model(), device="tpu")
    with pytest.raises(headrace.DeviceError):
        headrace.InferenceSession(add_model(), providers=["TensorrtExecutionProvider"])
    with pytest.raises(headrace.InputError):
        headrace.InferenceSession(add_model(), device="cpu", threads=0)


def test_close():
    session = headrace.InferenceSession(add_model(), device="cpu")
    session.close()
    session.close()
    with pytest.raises(headrace.DeviceError):
        session.run(None, {"x": np.zeros((1, 3), np.float32)})


def fed_constant_model():
    model = one_node("ConvTranspose", (1, 8, 20), normal((8, 2, 4), 1), strides=[2])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (8, 2, 4)))
    return model


def test_initializers_that_are_inputs_are_constant_unless_fed():
    x = normal((1, 8, 20))
    with headrace.InferenceSession(fed_constant_model(), device="cpu") as session:
        assert [i.name for i in session.get_inputs()] == ["x"]
        for seed in (1, 2, 3, 4, 5, 6, 7, 2):
            w = normal((8, 2, 4), seed)
            want = oracle.conv_transpose(x, w, strides=[2], output=[42])
            oracle.assert_close(session.run(None, {"x": x, "w": w})[0], want, 32)
        oracle.assert_close(
            session.run(None, {"x": x})[0], oracle.conv_transpose(x, normal((8, 2, 4), 1), strides=[2], output=[42]), 32
        )
        with pytest.raises(headrace.InputError):
            session.run(None, {"x": x, "w": np.zeros((8, 2, 5), np.float32)})


def test_a_fed_weight_that_is_changed_in_place_is_seen():
    x, w = normal((1, 8, 20)), normal((8, 2, 4), 2)
    with headrace.InferenceSession(fed_constant_model(), device="cpu") as session:
        session.run(None, {"x": x, "w": w})
        w *= 2
        want = oracle.conv_transpose(x, w, strides=[2], output=[42])
        oracle.assert_close(session.run(None, {"x": x, "w": w})[0], want, 32)


def test_runs_from_many_threads():
    w = inverse_dft_basis(512)
    model = one_node("ConvTranspose", ["batch", 514, "frames"], w, strides=[128])
    results, errors = {}, []
    with headrace.InferenceSession(model, device="cpu") as session:

        def work(seed: int) -> None:
            try:
                results[seed] = session.run(None, {"x": normal((2, 514, 300 + seed), seed)})[0]
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors
        for seed, got in results.items():
            np.testing.assert_array_equal(got, session.run(None, {"x": normal((2, 514, 300 + seed), seed)})[0])


def test_segments_around_a_step_with_a_subgraph_that_reads_outside():
    """Two FFT steps in a graph with an If whose branches read values of other segments."""
    w = inverse_dft_basis(512)
    branch = lambda op, name: helper.make_graph(  # noqa: E731
        [helper.make_node(op, ["up", "k"], [name])],
        name,
        [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("ConvTranspose", ["r", "w"], ["up"], strides=[128]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node(
            "If", ["positive"], ["picked"], then_branch=branch("Add", "t"), else_branch=branch("Sub", "e")
        ),
        helper.make_node("Concat", ["picked", "up"], ["y"], axis=1),
    ]
    constants = {"w": w, "k": np.float32(3), "zero": np.float32(0)}
    model = model_of(nodes, {"x": (1, 514, 700)}, ["y", "r"], constants)
    import onnxruntime as ort

    plain = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with headrace.InferenceSession(model, device="cpu") as session:
        assert any("inverse STFT" in n.text for n in session.notes)
        for sign in (1, -1):
            x = np.abs(normal((1, 514, 700))) * np.float32(sign)
            for got, want in zip(session.run(None, {"x": x}), plain.run(None, {"x": x}), strict=True):
                oracle.assert_close(got, want.astype(np.float64), 514)
            assert session.run(["r"], {"x": x})[0].shape == x.shape


def test_an_output_that_is_an_input_or_a_constant():
    w = inverse_dft_basis(512)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[128]),
        helper.make_node("Identity", ["k"], ["c"]),
    ]
    model = model_of(nodes, {"x": (1, 514, 700)}, ["y", "c", "k"], {"w": w, "k": np.float32([5])})
    x = normal((1, 514, 700))
    with headrace.InferenceSession(model, device="cpu") as session:
        y, c, k = session.run(None, {"x": x})
        assert y.shape == (1, 1, 699 * 128 + 512) and c == k == 5


def test_int32_scatter_indices_are_repaired():
    """C19: torch's export of istft writes ScatterND with int32 indices, which ONNX Runtime refuses to load."""
    indices = np.array([[1], [0]], np.int32)
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"])]
    model = model_of(nodes, {"x": (3,)}, ["y"], {"i": indices, "u": np.float32([7, 8])})
    with headrace.InferenceSession(model, device="cpu") as session:
        np.testing.assert_array_equal(session.run(None, {"x": np.float32([1, 2, 3])})[0], [8, 7, 3])
        assert any("int32 indices" in n.text for n in session.notes)


def test_computed_int32_indices_are_repaired_too():
    nodes = [
        helper.make_node("Cast", ["f"], ["i"], to=TensorProto.INT32),
        helper.make_node("ScatterND", ["x", "i", "u"], ["y"]),
    ]
    model = model_of(nodes, {"x": (3,), "f": (2, 1)}, ["y"], {"u": np.float32([7, 8])})
    with headrace.InferenceSession(model, device="cpu") as session:
        got = session.run(None, {"x": np.float32([1, 2, 3]), "f": np.float32([[1], [0]])})[0]
        np.testing.assert_array_equal(got, [8, 7, 3])


def test_functions_are_inlined():
    body = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="local")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, functions=[body], opset_imports=opsets, ir_version=10)
    with headrace.InferenceSession(model, device="cpu") as session:
        np.testing.assert_array_equal(session.run(None, {"x": np.float32([1, 2])})[0], [2, 4])


@pytest.mark.parametrize("large", [False, True])
def test_external_data(tmp_path, large):
    w = normal((64, 2, 1024)) if large else normal((4, 2, 4))
    model = one_node("ConvTranspose", (1, w.shape[0], 400), w, strides=[256 if large else 2])
    onnx.save(
        copy.deepcopy(model), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    x = normal((1, w.shape[0], 400))
    with headrace.InferenceSession(tmp_path / "m.onnx", device="cpu") as session:
        got = session.run(None, {"x": x})[0]
    with headrace.InferenceSession(model, device="cpu") as session:
        np.testing.assert_array_equal(got, session.run(None, {"x": x})[0])
    headrace.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx")
    with headrace.InferenceSession(tmp_path / "o.onnx", device="cpu") as session:
        oracle.assert_close(session.run(None, {"x": x})[0], got.astype(np.float64), 256)


def test_optimize_over_its_own_source(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(one_node("ConvTranspose", (1, 64, 400), normal((64, 2, 1024)), strides=[256]), path)
    x = normal((1, 64, 400))
    with headrace.InferenceSession(path, device="cpu") as session:
        want = session.run(None, {"x": x})[0]
    headrace.optimize(path, path)
    assert numpy_helper.to_array(onnx.load(path).graph.initializer[0]).size
    with headrace.InferenceSession(path, device="cpu") as session:
        oracle.assert_close(session.run(None, {"x": x})[0], want.astype(np.float64), 256)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 21])
def test_opsets(opset):
    model = one_node("ConvTranspose", (1, 64, 400), normal((64, 1, 1024), 1), strides=[256], pads=[5, 9], opset=opset)
    x = normal((1, 64, 400))
    with headrace.InferenceSession(model, device="cpu") as session:
        assert not session.notes[0].refused
        got = session.run(None, {"x": x})[0]
    import onnxruntime as ort

    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    oracle.assert_close(got, want.astype(np.float64), 256)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_fed_constants_of_any_rank(shape, dtype):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    w = normal(shape).astype(dtype)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["y"])], "g",
        [helper.make_tensor_value_info("w", element, shape)],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with headrace.InferenceSession(model, device="cpu") as session:
        for k in (0, 1, 2, 3, 1, 0, 5, 6, 7):
            fed = (w + np.array(k, dtype)).astype(dtype)
            np.testing.assert_array_equal(session.run(None, {"w": fed})[0], fed)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 10**6}, {"threads": 0}, {"threads": 2.0}, {"adapter": 3}, {"host_nodes": "n"}, {"host_nodes": None},
        {"dft_tolerance": -1}, {"dft_tolerance": float("nan")}, {"dft_tolerance": "a"},
    ],
)  # fmt: skip
def test_options_out_of_range(options):
    with pytest.raises(headrace.InputError, match=next(iter(options))):
        headrace.InferenceSession(add_model(), **options)


@pytest.mark.parametrize("names", ["y", 1, [1], [None], ["z"]])
def test_output_names_that_are_none(names):
    with headrace.InferenceSession(add_model(), device="cpu") as session, pytest.raises(headrace.InputError):
        session.run(names, {"x": normal((2, 3))})


def test_output_names_from_an_iterator():
    with headrace.InferenceSession(add_model(), device="cpu") as session:
        assert len(session.run(iter(["y", "y"]), {"x": normal((2, 3))})) == 2


def test_an_error_survives_pickling():
    import pickle

    error = headrace.UnsupportedOpError([headrace.UnsupportedNode("n", "Op", "", "no kernel")], "a hint")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_dtype_without_a_kernel_names_its_node():
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up")
    value = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, s) for n, s in (("x", (1, 2, 3)), ("y", None))]
    graph = helper.make_graph([node], "g", value[:1], value[1:], [numpy_helper.from_array(np.ones((2, 1, 2)), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(headrace.UnsupportedOpError) as raised:
        headrace.InferenceSession(model, device="cpu")
    assert [(n.name, n.op_type) for n in raised.value.nodes] == [("up", "ConvTranspose")]
