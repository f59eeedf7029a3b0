"""The kernels with tiles in workgroup memory, which a GPU gets: forced onto the software adapter."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper
from tests import oracle
from tests.models import model_of, normal, one_node

from headrace.backends.webgpu import WebGpuExecutable
from headrace.model import load

pytestmark = pytest.mark.webgpu


@pytest.fixture
def run_as_gpu():
    """Run a model lowered for a target that is no software adapter; returns outputs and kernel names."""

    def call(model, feeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            executable = WebGpuExecutable(load(model), fallback=False)
        before = executable.device.target
        executable.device.target = replace(before, software=False)
        try:
            outputs = executable.run(None, feeds)
            return outputs, [k.wgsl for k in executable.plan.kernels]
        finally:
            executable.device.target = before
            executable.close()

    return call


def shared(texts):
    return any("var<workgroup>" in t for t in texts)


@pytest.mark.parametrize(("m", "k", "n"), [(64, 16, 64), (65, 17, 63), (200, 33, 130), (32, 300, 32), (129, 64, 1000)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 1)])
def test_matmul(run_as_gpu, m, k, n, batch):
    a, b = normal((*batch, m, k)), normal((*batch[:1], k, n) if batch == (3,) else (k, n), 1)
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": a.shape, "b": b.shape}, ["y"])
    (got,), texts = run_as_gpu(model, {"a": a, "b": b})
    oracle.assert_close(got, a.astype("f8") @ b.astype("f8"), k)
    assert shared(texts)


def test_prologue_and_epilogue_fuse(run_as_gpu):
    nodes = [
        helper.make_node("Transpose", ["a"], ["at"], perm=[1, 0]),
        helper.make_node("Relu", ["at"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["p"]),
        helper.make_node("Add", ["p", "bias"], ["s"]),
        helper.make_node("Tanh", ["s"], ["y"]),
    ]
    constants = {"w": normal((70, 90), 1), "bias": normal((90,), 2)}
    a = normal((70, 80))
    (got,), texts = run_as_gpu(model_of(nodes, {"a": a.shape}, ["y"], constants), {"a": a})
    want = np.tanh(np.maximum(a.T, 0).astype("f8") @ constants["w"] + constants["bias"])
    oracle.assert_close(got, want, 70)
    assert shared(texts)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 32, 20, 20), (48, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 40, 93), (70, 20, 5), {"group": 2, "strides": [2], "pads": [2, 2]}),
        ((1, 17, 9, 8, 7), (33, 17, 2, 2, 2), {"dilations": [2, 1, 2]}),
    ],
)
def test_conv(run_as_gpu, x, w, attributes):
    xs, ws, spatial = normal(x), normal(w, 1), len(x) - 2
    (got,), texts = run_as_gpu(one_node("Conv", x, ws, normal([w[0]], 2), **attributes), {"x": xs})
    options = {"strides": [1] * spatial, **attributes}
    want = oracle.conv(xs, ws, **options) + normal([w[0]], 2).astype("f8").reshape(1, -1, *[1] * spatial)
    oracle.assert_close(got, want, int(np.prod(w[1:])))
    assert shared(texts)


def test_conv_transpose(run_as_gpu):
    x, w = normal((1, 32, 12, 14)), normal((32, 24, 4, 4), 1)
    (got,), texts = run_as_gpu(one_node("ConvTranspose", x.shape, w, strides=[2, 2], pads=[1, 1, 1, 1]), {"x": x})
    want = oracle.conv_transpose(x, w, strides=[2, 2], begin=[1, 1], output=[24, 28])
    oracle.assert_close(got, want, 32 * 16)
    assert shared(texts)


def test_software_adapters_do_not_share():
    a, b = normal((128, 64)), normal((64, 128), 1)
    model = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": a.shape, "b": b.shape}, ["y"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable = WebGpuExecutable(load(model), fallback=False)
    executable.run(None, {"a": a, "b": b})
    assert executable.device.target.software
    assert not shared(k.wgsl for k in executable.plan.kernels)
    executable.close()


@pytest.mark.parametrize(("stride", "taps", "size"), [(3, 1, 6), (2, 3, 9), (4, 2, 13)])
def test_an_output_shape_larger_than_the_full_size(run_as_gpu, stride, taps, size):
    """What output_shape asks for beyond the full size is added at the end."""
    x, w = normal((1, 2, 2 if stride == 3 else 3)), normal((2, 1, taps), 1)
    (got,), _ = run_as_gpu(one_node("ConvTranspose", x.shape, w, strides=[stride], output_shape=[size]), {"x": x})
    oracle.assert_close(got, oracle.conv_transpose(x, w, strides=[stride], output=[size]), 2 * taps)
