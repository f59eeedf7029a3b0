"""Kernels on the device against ONNX's reference in float64, and the life of a session."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import headrace
from conftest import agree, model
from headrace.backends.webgpu import WebGpuExecutable, adapters
from headrace.errors import DeviceError, InputError, UnsupportedOpError

N = helper.make_node
rng = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def oracle(op: str, inputs: list[np.ndarray], **attributes: Any) -> np.ndarray:
    groups = attributes.pop("group", 1) if op == "ConvTranspose" else 1  # the reference is wrong for grouped ones
    if groups > 1:
        parts = zip(np.split(inputs[0], groups, 1), np.split(inputs[1], groups, 0), strict=True)
        return np.concatenate([oracle(op, list(p), **attributes) for p in parts], 1)
    names = [f"i{i}" for i in range(len(inputs))]
    node = N(op, names, ["y"], **attributes)
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs]
    return ReferenceEvaluator(node, opsets={"": 18}).run(None, dict(zip(names, wide, strict=True)))[0]


CASES = [
    ("MatMul", [(3, 4, 5), (5, 6)], {}),
    ("MatMul", [(2, 3, 4, 5), (3, 5, 6)], {}),
    ("MatMul", [(5,), (5, 6)], {}),
    ("MatMul", [(4, 5), (5,)], {}),
    ("MatMul", [(100, 33), (33, 129)], {}),
    ("Gemm", [(4, 5), (6, 5), (6,)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Softmax", [(3, 7, 4)], {"axis": 1}),
    ("Softmax", [(2, 1000)], {}),
    ("LogSoftmax", [(3, 7)], {}),
    ("Softmax", [(3, 1)], {}),
    ("ReduceMean", [(3, 4, 5)], {"keepdims": 0}),
    ("ReduceMax", [(3, 4, 5)], {}),
    ("ReduceL2", [(3, 700)], {}),
    ("ReduceSum", [(2, 65537)], {}),
    ("Conv", [(2, 6, 9), (4, 6, 3), (4,)], {"pads": [1, 1]}),
    ("Conv", [(2, 6, 9, 8), (4, 3, 3, 3)], {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("Conv", [(2, 6, 9, 8), (5, 6, 1, 1)], {"strides": [2, 2]}),
    ("Conv", [(1, 3, 6, 5, 7), (4, 3, 2, 3, 3)], {"pads": [0, 1, 1, 1, 0, 1]}),
    ("Conv", [(2, 1, 90), (12, 1, 7)], {"strides": [3], "pads": [2, 4]}),
    ("Conv", [(2, 5, 40), (12, 5, 7)], {"pads": [3, 2]}),
    ("Conv", [(2, 5, 26), (11, 5, 5)], {"pads": [9, 0]}),
    ("Conv", [(1, 3, 5, 7, 9), (5, 3, 2, 1, 2)], {"pads": [0, 0, 1, 1, 0, 1], "strides": [2, 1, 1]}),
    ("ConvTranspose", [(2, 6, 30), (6, 2, 9), (2,)], {"strides": [4], "pads": [3, 2]}),
    ("ConvTranspose", [(2, 6, 9), (6, 4, 3), (4,)], {"strides": [2], "pads": [1, 1]}),
    ("ConvTranspose", [(2, 6, 9), (6, 2, 4)], {"strides": [2], "group": 3}),
    ("ConvTranspose", [(1, 2, 5), (2, 3, 2)], {"strides": [3]}),
    ("ConvTranspose", [(2, 3, 5, 6), (3, 4, 3, 2)], {"strides": [2, 3], "output_padding": [1, 0]}),
    ("MaxPool", [(1, 2, 9, 8)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("AveragePool", [(1, 2, 9, 8)], {"kernel_shape": [3, 2], "strides": [2, 2]}),
    ("Erf", [(50,)], {}),
    ("Tanh", [(50,)], {}),
    ("Elu", [(50,)], {}),
    ("Transpose", [(2, 3, 4)], {"perm": [2, 0, 1]}),
    ("Concat", [(2, 3), (2, 4), (2, 1)], {"axis": 1}),
    ("GlobalAveragePool", [(2, 3, 4, 5)], {}),
]


@pytest.mark.parametrize(("op", "shapes", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_operator(run: Any, op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    arrays = [normal(*s) for s in shapes]
    fixed = {f"i{i}": a for i, a in enumerate(arrays) if i and "Conv" in op}
    fed = {f"i{i}": a for i, a in enumerate(arrays) if f"i{i}" not in fixed}
    m = model(
        [N(op, [f"i{i}" for i in range(len(arrays))], ["y"], **attributes)],
        {n: a.shape for n, a in fed.items()},
        ["y"],
        fixed,
    )
    agree(run(m, fed)[0], oracle(op, arrays, **attributes))


def test_a_sum_under_a_product_keeps_its_parentheses(run: Any) -> None:
    nodes = [N("Add", ["one", "x"], ["s"]), N("Mul", ["half", "x"], ["h"]), N("Mul", ["h", "s"], ["y"])]
    m = model(nodes, {"x": (5,)}, ["y"], {"one": np.ones(1, np.float32), "half": np.full(1, 0.5, np.float32)})
    x = normal(5)
    agree(run(m, {"x": x})[0], 0.5 * x.astype(np.float64) * (1 + x.astype(np.float64)))


def test_nan_and_infinity(run: Any) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0, -2.0], np.float32)
    m = model(
        [N("Max", ["x", "z"], ["a"]), N("Min", ["x", "z"], ["b"]), N("Softmax", ["x"], ["c"])],
        {"x": (5,)},
        ["a", "b", "c"],
        {"z": np.zeros(1, np.float32)},
    )
    a, b, c = run(m, {"x": x})
    agree(a, np.maximum(x, 0))
    agree(b, np.minimum(x, 0))
    assert np.isnan(c).all()


def quiet(m: Any, **options: Any) -> WebGpuExecutable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return WebGpuExecutable(m, **options)


def test_there_is_an_adapter() -> None:
    assert adapters()


def test_a_software_adapter_warns_once() -> None:
    if adapters()[0].software:
        with pytest.warns(UserWarning, match="software adapter"):
            WebGpuExecutable(model([N("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"])).close()


def test_sizes_share_pipelines_and_close_ends() -> None:
    e = quiet(model([N("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"]))
    e.run(None, {"x": normal(3)})
    count = len(e.device.pipelines)
    agree(e.run(None, {"x": np.full(70, 2, np.float32)})[0], np.full(70, 2.0))
    assert len(e.device.pipelines) == count
    e.close()
    e.close()
    with pytest.raises(DeviceError):
        e.run(None, {"x": normal(3)})


def test_device_arrays_feed_another_session() -> None:
    a, b = (quiet(model([N("Neg", ["x"], ["y"])], {"x": (3, 2)}, ["y"])) for _ in range(2))
    x = normal(3, 2)
    kept = a.run(None, {"x": x}, keep_on_device=True)[0]
    assert kept.shape == (3, 2) and kept.dtype == np.float32
    agree(kept.numpy(), -x)
    agree(b.run(None, {"x": kept})[0], x)
    a.close()
    b.close()


def test_threads_share_a_session() -> None:
    e, wrong = quiet(model([N("Neg", ["x"], ["y"])], {"x": (64,)}, ["y"])), []

    def work(seed: int) -> None:
        x = np.full(64, seed, np.float32)
        results = [e.run(None, {"x": x})[0] for _ in range(20)]
        wrong.extend(seed for r in results if not np.array_equal(r, -x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    e.close()
    assert not wrong


def test_a_host_step_is_refused_or_seen() -> None:
    m = model([N("Relu", ["x"], ["r"]), N("NonZero", ["r"], ["n"]), N("Neg", ["r"], ["y"])], {"x": (4,)}, ["n", "y"])
    x = np.array([1, -1, 2, 0], np.float32)
    with pytest.raises(UnsupportedOpError, match="NonZero"):
        quiet(m, fallback=False).run(None, {"x": x})
    e = quiet(m)
    n, y = e.run(None, {"x": x})
    assert n.tolist() == [[0, 2]] and y.tolist() == [-1, 0, -2, 0]
    assert e.plan is not None and [h.op_type for h in e.plan.host_steps] == ["NonZero"]
    e.close()


def proto(op: str, inputs: list[str], shape: tuple[int, ...]) -> bytes:
    """A model of one node; an input called w has ones until it is fed."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in (*inputs, "y")]
    ones = [numpy_helper.from_array(np.ones(shape, np.float32), "w")] if "w" in inputs else []
    graph = helper.make_graph([N(op, inputs, ["y"])], "g", values[:-1], values[-1:], ones)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    )


@pytest.mark.parametrize("device", ["webgpu", "cpu"])
@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_kept_outputs_feed_public_sessions(device: str) -> None:
    open_on = headrace.InferenceSession
    x = normal(3, 2)
    with (
        open_on(proto("Neg", ["x"], (3, 2)), "webgpu") as a,
        open_on(proto("Mul", ["x", "w"], (3, 2)), device) as b,
        open_on(proto("Neg", ["x"], (3, 5)), device) as c,
    ):
        kept = a.run(None, {"x": x}, keep_on_device=True)[0]
        agree(b.run(None, {"x": kept})[0], -x)
        agree(b.run(None, {"x": kept, "w": kept})[0], x * x)
        with pytest.raises(InputError, match="wrong shape"):
            c.run(None, {"x": kept})


@pytest.mark.parametrize("op", ["Relu", "Celu", "LeakyRelu", "Elu"])
def test_nan_goes_through_rectifiers(run: Any, op: str) -> None:
    x = np.array([np.nan, -2, 0, 3, np.inf, -np.inf, np.nan], np.float32)
    (y,) = run(model([N(op, ["x"], ["y"])], {"x": x.shape}, ["y"]), {"x": x})
    assert np.isnan(y[[0, 6]]).all() and not np.isnan(y[1:5]).any()
    assert (y[3], y[4]) == (3, np.inf)
