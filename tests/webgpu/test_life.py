"""The life of a session: nothing leaks, nothing is printed, a lost device is an error, and two processes agree."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wgpu
from onnx import helper
from tests.models import model_of, normal

import headrace
from conftest import model
from headrace.backends.webgpu import WebGpuExecutable

N = helper.make_node
ROOT = Path(__file__).parents[2]
KINDS = ("Buffer", "ComputePipeline", "BindGroup", "ShaderModule", "BindGroupLayout", "PipelineLayout")


def network() -> Any:
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1, 1]),
        N("Relu", ["a"], ["b"]),
        N("Transpose", ["b"], ["c"], perm=[0, 2, 1]),
        N("MatMul", ["c", "m"], ["d"]),
        N("Softmax", ["d"], ["y"]),
    ]
    return model(nodes, {"x": (1, 4, 50)}, ["y"], {"w": normal((8, 4, 3)), "m": normal((8, 12))})


def counts() -> dict[str, int]:
    gc.collect()
    found = wgpu.diagnostics.object_counts.get_dict()
    return {k: int(found[k]["count"]) for k in KINDS}


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_a_closed_session_leaves_nothing() -> None:
    before = counts()
    e = WebGpuExecutable(network(), fallback=False)
    for n in (50, 20, 50):
        e.run(None, {"x": normal((1, 4, n))})
    during = counts()
    assert all(during[k] > before[k] for k in ("Buffer", "ComputePipeline", "BindGroup"))
    e.close()
    del e
    assert counts() == before


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_a_hundred_runs_make_nothing() -> None:
    e = WebGpuExecutable(network(), fallback=False)
    x = normal((1, 4, 50))
    first = e.run(None, {"x": x})[0]
    before = counts()
    for _ in range(100):
        again = e.run(None, {"x": x})[0]
    assert counts() == before
    np.testing.assert_array_equal(first, again)
    e.close()


@pytest.mark.parametrize("adapter", [None, "l"])
def test_a_software_adapter_is_warned_of(adapter: str | None) -> None:
    m = model_of([N("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"])
    with pytest.warns(UserWarning, match="software adapter") as warned:
        headrace.InferenceSession(m.SerializeToString(), device="webgpu", adapter=adapter).close()
    assert warned[0].filename == __file__


HEAD = """
import warnings
warnings.simplefilter("ignore")
import hashlib, sys
sys.path[:0] = ["tests/webgpu", "."]
import numpy as np
from test_life import network
from headrace.backends.webgpu import WebGpuExecutable
from headrace.errors import DeviceError
x = np.linspace(-1, 1, 200, dtype=np.float32).reshape(1, 4, 50)
e = WebGpuExecutable(network(), fallback=False)
y = e.run(None, {"x": x})[0]
"""


def child(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HEAD + code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_a_lost_device_is_an_error_and_the_next_session_works() -> None:
    done = child("""
e.device.handle.destroy()
for _ in range(2):
    try:
        e.run(None, {"x": x})
    except DeviceError as error:
        print("lost" if "was lost" in str(error) else error)
e.close()
e = WebGpuExecutable(network(), fallback=False)
print(np.array_equal(e.run(None, {"x": x})[0], y))
e.close()
""")
    assert (done.returncode, done.stdout.split()) == (0, ["lost", "lost", "True"]), done.stderr


def test_nothing_is_printed() -> None:
    done = child("e.close()")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_two_processes_make_the_same_plan_and_numbers() -> None:
    code = "print(hashlib.sha256(e.plan.to_json().encode()).hexdigest(), hashlib.sha256(y.tobytes()).hexdigest())"
    first, second = child(code), child(code)
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.split()) == 2 and first.stdout == second.stdout


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_constants_of_old_sizes_are_dropped() -> None:
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("ConstantOfShape", ["s"], ["o"], value=helper.make_tensor("v", 1, [1], [2.0])),
        N("CumSum", ["o", "axis"], ["r"]),
        N("Exp", ["r"], ["e"]),
        N("Add", ["x", "e"], ["a"]),
        N("MatMul", ["a", "w"], ["y"]),
    ]
    m = model(nodes, {"x": (4, 90)}, ["y"], {"axis": np.array(0), "w": normal((90, 5))})
    e = WebGpuExecutable(m, fallback=False)
    for n in range(2, 60):
        x = normal((n, 90))
        want = (x + np.exp(2.0 * np.arange(1, n + 1))[:, None]).astype(np.float64) @ m.graph.initializers[
            "w"
        ].const_value.numpy()
        if n < 20:
            np.testing.assert_allclose(e.run(None, {"x": x})[0], want, rtol=1e-4)
        else:
            e.run(None, {"x": x})
    assert len(e._pool.constants) <= 2 * 17 and len(e._stored) <= 2 * 17
    e.close()


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_tensors_stay_on_the_device_across_a_host_step() -> None:
    nodes = [
        N("Exp", ["x"], ["kept"]),
        N("Neg", ["x"], ["moved"]),
        N("Relu", ["moved"], ["host"], name="there"),
        N("Add", ["host", "kept"], ["y"]),
    ]
    e = WebGpuExecutable(model(nodes, {"x": (200,)}, ["y"]), host_nodes=["there"])
    x = normal((200,))
    for _ in range(2):
        np.testing.assert_allclose(e.run(None, {"x": x})[0], np.maximum(-x, 0) + np.exp(x), rtol=1e-5)
    first = next(iter(e._segments.values()))
    assert first.keep == {"kept"} and list(first.prepared.kept) == ["kept"]
    before = counts()
    e.run(None, {"x": x})
    assert counts() == before
    e.close()
