"""headrace on WebGPU beside onnxruntime-webgpu, in turns, on one adapter.

PEER_PYTHON is the interpreter of a virtual environment with onnxruntime-webgpu and numpy: that package carries the same
module name as onnxruntime, so it runs in a process of its own. Without models: the reported cases. To put both on one
software adapter, set VK_ICD_FILENAMES to an ICD file that names SwiftShader's library.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from parity import given

from headrace import InferenceSession
from headrace.bench.cases import CASES
from headrace.bench.run import random_feeds, relative_error
from headrace.bench.timing import interleaved, median

WORKER = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions(); options.log_severity_level = 3
session = ort.InferenceSession(sys.argv[1], options, providers=["WebGpuExecutionProvider", "CPUExecutionProvider"])
feeds = dict(np.load(sys.argv[2]))
np.savez(sys.argv[3], *session.run(None, feeds))
print("ready", flush=True)
for _ in sys.stdin:
    session.run(None, feeds)
    print("done", flush=True)
"""
LARGEST_FLOPS = 2e10  # of a dense product; the peer takes minutes for more on a software adapter


def bench(python: str, model: Path, feeds: dict[str, np.ndarray], adapter: str | None) -> dict[str, float]:
    """Median milliseconds of both, and the deviation of headrace from the peer."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        np.savez(inputs, **feeds)
        command = [python, "-c", WORKER, str(model), str(inputs), str(outputs)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, **pipes) as peer:
            if peer.stdout.readline().strip() != "ready":
                sys.exit("onnxruntime-webgpu cannot run the model: no adapter, or not installed for that interpreter")

            def theirs() -> None:
                peer.stdin.write("\n")
                peer.stdin.flush()
                peer.stdout.readline()

            with InferenceSession(model, "webgpu", adapter=adapter) as session:
                want = list(np.load(outputs).values())
                error = max(map(relative_error, session.run(None, feeds), want))
                run = {"headrace": lambda: session.run(None, feeds), "onnxruntime-webgpu": theirs}
                times = interleaved(run, seconds=4, least=2)
            peer.stdin.close()
    return {name: median(ms) for name, ms in times.items()} | {"error": error}


def models(arguments: list[str], folder: Path) -> list[tuple[str, Path, dict[str, np.ndarray]]]:
    """Name, file and feeds of what to time."""
    found = []
    for argument in arguments:
        path, shapes = given(argument)
        with InferenceSession(path, "cpu") as session:
            feeds = random_feeds(session.get_inputs())
        for name, shape in shapes.items():
            kind = feeds[name].dtype
            feeds[name] = np.ones(shape, kind) if kind.kind in "iub" else _normal(shape).astype(kind)
        found.append((path.name, path, feeds))
    for case in CASES if not arguments else ():
        if case.gemm is not None and 2.0 * np.prod(case.gemm) < LARGEST_FLOPS:
            path = folder / f"{len(found)}.onnx"
            path.write_bytes(case.build().SerializeToString())
            found.append((case.name, path, {n: _normal(s) for n, s in case.feeds.items()}))
    return found


def _normal(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", metavar="PEER_PYTHON")
    parser.add_argument("models", metavar="MODEL.onnx[:name=1,3,224,224;other=1,64,64]", nargs="*")
    parser.add_argument("--adapter", help="part of a WebGPU adapter's name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if shutil.which(options.python) is None:
        parser.error(f"no interpreter is called {options.python!r}")
    return options


def main() -> None:
    options = parsed()
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, feeds in models(options.models, Path(folder)):
            rows.append({"case": name, **bench(options.python, path, feeds, options.adapter)})
            if not options.json:
                ours, theirs, error = (rows[-1][k] for k in ("headrace", "onnxruntime-webgpu", "error"))
                times = f"headrace {ours:.1f} ms, onnxruntime-webgpu {theirs:.1f} ms, {theirs / ours:.2g} times faster"
                print(f"{name}: {times}, error {error:.1e}", flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
