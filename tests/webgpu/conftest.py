"""Helpers: small models, a float64 oracle, and one table of tolerances."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from headrace.model import load

TOLERANCE = {"float32": 2e-5, "float16": 2e-3}  # over the largest value of the answer


def model(
    nodes: list[Any],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: list[str],
    weights: Mapping[str, np.ndarray] = {},
    opset: int = 18,
) -> Any:
    """A loaded model with float32 inputs."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "test", values, [onnx.ValueInfoProto(name=o) for o in outputs], constants)
    return load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9))


def agree(got: np.ndarray, want: np.ndarray) -> None:
    """Raise unless `got` is `want` within the table's tolerance, NaN and infinity in the same places."""
    assert got.shape == want.shape, (got.shape, want.shape)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.where(finite, 0, want), np.where(finite, 0, got))
    scale = np.abs(want[finite]).max(initial=1e-30)
    error = np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0) / scale
    assert error <= TOLERANCE[str(got.dtype)], error


def poison(executable: Any) -> None:
    """Fill the scratch buffers of a session with bits that are NaN as floats and -1 as integers."""
    for buffer in executable._pool.scratch:
        executable.device.handle.queue.write_buffer(buffer, 0, np.full(buffer.size, 0xFF, np.uint8))


@pytest.fixture
def run() -> Callable[..., list[np.ndarray]]:
    """Run a model on the device, without host steps: twice, the second time with NaN in every scratch buffer first, so
    that what a kernel leaves unwritten is seen. A missing adapter is an error, not a skip."""

    def call(m: Any, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        from headrace.backends.webgpu import WebGpuExecutable

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            executable = WebGpuExecutable(m, fallback=False)
        try:
            first = executable.run(None, feeds)
            poison(executable)
            for a, b in zip(first, executable.run(None, feeds), strict=True):
                np.testing.assert_array_equal(a, b)
            return first
        finally:
            executable.close()

    return call
