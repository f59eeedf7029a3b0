"""What a device can do at most, measured once: a large matrix product and a stream copy. Kept in the user's cache."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import platformdirs
from onnx import TensorProto, helper

from ..backends.spans import Recorder
from ..version import __version__
from .record import Peaks

RUNS = 10  # the fastest one counts


def measured_peaks(key: str, software: bool, measure: Callable[[bool], Peaks]) -> Peaks:
    """The peaks of the device called `key`, from the cache or by `measure(software)`."""
    path = cache_file()
    kept = _read(path)
    key = f"{key} | headrace {__version__}"
    if key not in kept:
        peaks = measure(software)
        kept = {**_read(path), key: {"gflops": peaks.gflops, "gbs": peaks.gbs}}
        with contextlib.suppress(OSError):  # a cache that cannot be written is measured again
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(kept, indent=1))
            fresh.replace(path)
    return Peaks(**kept[key])


def cache_file() -> Path:
    """Where measured peaks are kept; the environment variable HEADRACE_CACHE names another folder."""
    folder = os.environ.get("HEADRACE_CACHE") or platformdirs.user_cache_dir("headrace", appauthor=False)
    return Path(folder) / "peaks.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        return {k: v for k, v in found.items() if set(v) == {"gflops", "gbs"} and all(map(_is_rate, v.values()))}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _is_rate(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def cpu_peaks(_software: bool) -> Peaks:
    """numpy's matrix product of order 1024, and a copy of 64 MB, on all cores that numpy takes."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((1024, 1024), dtype=np.float32) for _ in range(2))
    x = rng.standard_normal(1 << 24, dtype=np.float32)
    y = np.empty_like(x)
    product, stream = _fastest(lambda: a @ b), _fastest(lambda: np.copyto(y, x))
    return Peaks(2 * 1024**3 / product, 2 * x.nbytes / stream)


def device_peaks(executable_of: Callable[[onnx.ModelProto], Any], software: bool) -> Peaks:
    """A MatMul and an Add through the device's own kernels, large enough to fill it."""
    n, words = (512, 1 << 22) if software else (4096, 1 << 25)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((n, n), dtype=np.float32)
    product = _kernel_ns(executable_of, _binary("MatMul", (n, n)), {"a": a, "b": a})
    x = rng.standard_normal(words, dtype=np.float32)
    stream = _kernel_ns(executable_of, _binary("Add", (words,)), {"a": x, "b": x})
    return Peaks(2 * n**3 / product if product else 0.0, 3 * x.nbytes / stream if stream else 0.0)


def _binary(op: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([helper.make_node(op, ["a", "b"], ["y"], name=op)], op, inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _kernel_ns(
    executable_of: Callable[[onnx.ModelProto], Any], model: onnx.ModelProto, feeds: dict[str, np.ndarray]
) -> float:
    """Device time of the model's kernels, the fastest run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the session that is profiled has warned already
        executable, best = executable_of(model), float("inf")
    try:
        executable.run(["y"], feeds)
        for _ in range(RUNS):
            recorder = Recorder()
            executable.run(["y"], feeds, recorder=recorder)
            best = min(best, sum(s.end - s.start for s in recorder.finish() if s.kind == "kernel"))
    finally:
        executable.close()
    return best


def _fastest(call: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return float(min(times))
