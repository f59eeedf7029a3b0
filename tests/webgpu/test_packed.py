"""Constants of 8 and 16 bits that stand several to a word: read exactly, in every kernel that may read a constant."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.detr import detr

from headrace.backends.webgpu import WebGpuExecutable
from headrace.dtypes import to_storage
from headrace.model import load
from headrace.web import export_web

pytestmark = pytest.mark.webgpu
RNG = np.random.default_rng(17)
N = helper.make_node


def run(model, feeds, **changes):
    """Outputs and plan of a model lowered for the adapter here, but for `changes` of its target."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable = WebGpuExecutable(load(model), fallback=False)
    before = executable.device.target
    executable.device.target = replace(before, **changes)
    try:
        return executable.run(None, feeds), executable.plan
    finally:
        executable.device.target = before
        executable.close()


def model(nodes, inputs, outputs, constants, opset=21):
    types = {
        np.dtype(np.float32): TensorProto.FLOAT,
        np.dtype(np.int64): TensorProto.INT64,
        np.dtype(np.uint8): TensorProto.UINT8,
    }
    graph = helper.make_graph(
        nodes,
        "packed",
        [helper.make_tensor_value_info(n, types[a.dtype], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def whole(shape, dtype):
    """Values of the whole range of a dtype."""
    if np.dtype(dtype).kind == "f":
        return (RNG.standard_normal(shape) * 8).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(64,), (65,), (67, 3), (5, 7, 11)])
def test_every_value_is_read_as_it_is(dtype, shape):
    weight = whole(shape, dtype)
    x = np.ones(shape, np.float32)
    graph = model([N("Cast", ["w"], ["f"], to=1), N("Mul", ["x", "f"], ["y"])], {"x": x}, {"y": 1}, {"w": weight})
    # a Cast of a constant is folded: an index that is only known in the run keeps it on the device
    index = np.arange(shape[0], dtype=np.int64)
    graph = model(
        [N("Gather", ["w", "i"], ["g"]), N("Cast", ["g"], ["f"], to=1), N("Mul", ["x", "f"], ["y"])],
        {"x": x, "i": index}, {"y": 1}, {"w": weight},
    )  # fmt: skip
    (got,), plan = run(graph, {"x": x, "i": index}, packed=True, f16=False)
    np.testing.assert_array_equal(got, weight.astype(np.float32))
    (constant,) = [c for c in plan.constants if c.shape == shape]
    assert constant.storage == {"f": "f16x2", "i": "i8x4", "u": "u8x4"}[np.dtype(dtype).kind]
    assert constant.data.nbytes == -(-weight.nbytes // 4) * 4


def test_packed_words_are_little_endian_and_whole():
    words = to_storage(np.array([1, -1, 127, -128, 5], np.int8), "i8x4")
    assert words.tolist() == [0x807FFF01, 5]
    assert to_storage(np.array([1.0, -2.0, 0.5], np.float16), "f16x2").tolist() == [0xC0003C00, 0x3800]


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8])
def test_heavy_kernels_read_packed_weights(dtype):
    """MatMul, Conv and ConvTranspose on weights that are widened in the graph: the same with and without. What was
    float16 is stored so, although the graph has it as float32."""
    x = RNG.standard_normal((1, 6, 9, 9)).astype(np.float32)
    constants = {"w": whole((8, 6, 3, 3), dtype), "t": whole((8, 9, 2, 2), dtype), "m": whole((18, 20), dtype)}
    kind = 10 if dtype == np.float16 else 1
    widen = [N("Cast", [n], [f"{n}f"], to=1) for n in constants] if dtype == np.float16 else [
        N("DequantizeLinear", [n, "s"], [f"{n}f"]) for n in constants
    ]  # fmt: skip
    nodes = [
        *widen,
        N("Conv", ["x", "wf"], ["a"], pads=[1, 1, 1, 1]),
        N("ConvTranspose", ["a", "tf"], ["b"], strides=[2, 2]),
        N("MatMul", ["b", "mf"], ["y"]),
    ]  # fmt: skip
    extra = {} if kind == 10 else {"s": np.float32(0.01)}
    graph = model(nodes, {"x": x}, {"y": 1}, {**constants, **extra})
    (want,), _ = run(graph, {"x": x}, packed=False)
    (got,), plan = run(graph, {"x": x}, packed=True, f16=False)
    np.testing.assert_array_equal(got, want)
    if dtype == np.float16:
        assert [c.storage for c in plan.constants if c.data.size > 64] == ["f16x2"] * 3


@pytest.mark.parametrize("signed", [np.int8, np.uint8])
def test_integer_products_read_packed_weights(signed):
    a = RNG.integers(0, 256, (37, 96)).astype(np.uint8)
    w = whole((96, 41), signed)
    graph = model([N("MatMulInteger", ["a", "w"], ["y"])], {"a": a}, {"y": 6}, {"w": w})
    (got,), plan = run(graph, {"a": a}, packed=True)
    np.testing.assert_array_equal(got, a.astype(np.int32) @ w.astype(np.int32))
    assert any(c.storage in ("i8x4", "u8x4") for c in plan.constants)


def test_half_weights_are_rounded_once_and_only_weights():
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    w, bias = whole((64, 33), np.float32), whole((33,), np.float32)
    graph = model([N("Gemm", ["x", "w", "bias"], ["y"])], {"x": x}, {"y": 1}, {"w": w, "bias": bias})
    (got,), plan = run(graph, {"x": x}, packed=True, half_weights=True, f16=False)
    want = x.astype(np.float64) @ w.astype(np.float16).astype(np.float64) + bias
    np.testing.assert_allclose(got, want, atol=2e-4)
    storage = {c.shape: c.storage for c in plan.constants}
    assert storage[(33,)] == "f32" and "f16x2" in storage.values()


@pytest.mark.parametrize("value", [70000.0, np.inf, -1e30])
def test_weights_that_float16_cannot_hold_stay_as_they_are(value):
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    w = whole((64, 33), np.float32)
    w[3, 5] = value
    graph = model([N("MatMul", ["x", "w"], ["y"])], {"x": x}, {"y": 1}, {"w": w})
    (got,), plan = run(graph, {"x": x}, packed=True, half_weights=True)
    assert {c.storage for c in plan.constants} == {"f32"}
    assert np.isfinite(got[:, :5]).all()


def test_a_constant_that_is_an_output_too_keeps_its_type():
    w = whole((8, 9), np.int8)
    i = np.array([1, 0], np.int64)
    nodes = [N("Gather", ["w", "i"], ["g"]), N("Cast", ["g"], ["y"], to=1), N("Identity", ["w"], ["copy"])]
    graph = model(nodes, {"i": i}, {"y": 1, "copy": 3}, {"w": w})
    (y, copy), _ = run(graph, {"i": i}, packed=True)
    np.testing.assert_array_equal(copy, w)
    np.testing.assert_array_equal(y, w[i].astype(np.float32))
    assert copy.dtype == np.int8


def test_an_exported_bundle_of_float16_weights_is_half_as_large(tmp_path):
    plain = export_web(detr(), tmp_path / "plain", {"pixel_values": (1, 3, 64, 64)}, {"batch": 1})
    half = export_web(detr(), tmp_path / "half", {"pixel_values": (1, 3, 64, 64)}, {"batch": 1}, f16=True)
    sizes = [sum(f.stat().st_size for f in (tmp_path / n).glob("weights*.bin")) for n in ("plain", "half")]
    assert sizes[1] < 0.52 * sizes[0]
    assert half["weights"]["bytes"] < 0.52 * plain["weights"]["bytes"]
    assert not any(k["requires"] for k in half["kernels"])
    assert json.loads((tmp_path / "half" / "plan.json").read_text())["weights"] == json.loads(
        json.dumps(half["weights"])
    )
