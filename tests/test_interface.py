"""Arguments of the public interface that are wrong, or come from onnxruntime: understood, or refused in plain words."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import headrace

from .models import model_of


def doubled(dtype: int = TensorProto.FLOAT) -> Any:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["t"], name="first"),
        helper.make_node("Add", ["t", "x"], ["y"], name="second"),
    ]
    return model_of(nodes, {"x": ["n"]}, ["y"], dtype=dtype)


@pytest.mark.parametrize("dims", [[1], "n", 3, [("n", 1)]])
def test_dims_that_are_no_mapping(dims: Any, tmp_path: Any) -> None:
    with pytest.raises(headrace.InputError, match="dims"):
        headrace.InferenceSession(doubled(), dims=dims, device="cpu")
    with pytest.raises(headrace.InputError, match="dims"):
        headrace.optimize(doubled(), tmp_path / "out.onnx", dims)


@pytest.mark.parametrize("output", [None, 5, b"x", ["a"]])
def test_an_output_that_is_no_path(output: Any) -> None:
    with pytest.raises(headrace.InputError, match="path"):
        headrace.optimize(doubled(), output)


def test_one_provider_as_text() -> None:
    assert headrace.InferenceSession(doubled(), providers="CPUExecutionProvider").device == "cpu"
    with pytest.raises(headrace.DeviceError, match="CUDAExecutionProvider"):
        headrace.InferenceSession(doubled(), providers="CUDAExecutionProvider")


def test_options_of_onnxruntime() -> None:
    options = onnxruntime.SessionOptions()
    x = np.array([1.0, 2.0], np.float32)
    for threads in (0, 1, 2):
        options.intra_op_num_threads = threads
        with headrace.InferenceSession(doubled(), device="cpu", sess_options=options) as session:
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], 3 * x)
    with pytest.raises(headrace.InputError, match="SessionOptions"):
        headrace.InferenceSession(doubled(), sess_options={"threads": 1}, device="cpu")


@pytest.mark.parametrize("value", [[1.5], [1.0, 2.0], ["a"], [2**70], [1j], 1.5])
@pytest.mark.parametrize("dtype", [TensorProto.INT64, TensorProto.INT32])
def test_lists_that_would_be_cut(value: Any, dtype: int) -> None:
    with headrace.InferenceSession(doubled(dtype), device="cpu") as session, pytest.raises(headrace.InputError):
        session.run(None, {"x": value})


@pytest.mark.parametrize(
    ("dtype", "value"), [(TensorProto.INT64, [1, 2]), (TensorProto.FLOAT, [1, 2]), (TensorProto.FLOAT, [1.5, 2])]
)
def test_lists_that_fit(dtype: int, value: list[Any]) -> None:
    with headrace.InferenceSession(doubled(dtype), device="cpu") as session:
        np.testing.assert_array_equal(session.run(None, {"x": value})[0], 3 * np.array(value))


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_host_nodes_that_do_not_exist(device: str) -> None:
    with pytest.raises(headrace.InputError, match=r"'frist'.*'first'"):
        headrace.InferenceSession(doubled(), device=device, host_nodes=["second", "frist"])


@pytest.mark.webgpu
def test_host_nodes_without_fallback_are_noted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(doubled(), device="webgpu", fallback=False, host_nodes=["first"]) as session:
            np.testing.assert_array_equal(session.run(None, {"x": [1.0, 2.0]})[0], [3, 6])
            assert any(n.node == "first" and "fallback=False" in n.text for n in session.notes)


@pytest.mark.webgpu
def test_device_arrays_are_arrays_to_numpy() -> None:
    x = np.array([1.25, -2.0, 7.0], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(doubled(), device="webgpu") as session:
            y = session.run(None, {"x": x}, keep_on_device=True)[0]
            assert np.asarray(y).dtype == np.float32
            np.testing.assert_array_equal(np.asarray(y), 3 * x)
            assert np.asarray(y, np.float64).dtype == np.float64
            np.testing.assert_array_equal(np.array(y, copy=True) + 1, 3 * x + 1)
            with pytest.raises(ValueError, match="copy"):
                np.array(y, copy=False)
            assert re.match(r"DeviceArray\(shape=\[3\], dtype=float32, device='.+'\)", repr(y))


def refused_by_run(folder: Path, file: str) -> str:
    """What `headrace run` says of a file that it does not take."""
    command = [sys.executable, "-m", "headrace", "run", "m.onnx", "-i", f"x={file}", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode and "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04K\x01.", b"PK\x03\x04"])
def test_files_that_hold_no_array(content: bytes, tmp_path: Any) -> None:
    onnx.save(doubled(), tmp_path / "m.onnx")
    (tmp_path / "x.bin").write_bytes(content)
    said = refused_by_run(tmp_path, "x.bin")
    assert "x.bin" in said and ".npy" in said and "pickle" not in said.lower()


def test_a_file_of_several_arrays(tmp_path: Any) -> None:
    onnx.save(doubled(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", a=np.ones(2), b=np.ones(3))
    assert "npz" in refused_by_run(tmp_path, "x.npz")
