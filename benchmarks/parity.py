"""headrace on the CPU beside ONNX Runtime on whole models: none may be slower.

Without arguments: the three models of the rapidocr-onnxruntime package, where it is installed (real weights; the text
detector has two transposed convolutions).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

from headrace import InferenceSession
from headrace.bench import bench_model
from headrace.bench.run import random_feeds

RAPIDOCR = {"det": (1, 3, 640, 640), "cls": (6, 3, 48, 192), "rec": (6, 3, 48, 320)}


def rapidocr() -> list[tuple[Path, dict[str, tuple[int, ...]]]]:
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        sys.exit("Give a model, or: pip install --no-deps rapidocr-onnxruntime")
    files = sorted(Path(spec.origin).parent.rglob("*.onnx"))
    return [(f, {"*": shape}) for f in files for kind, shape in RAPIDOCR.items() if f"_{kind}" in f.name]


def given(argument: str) -> tuple[Path, dict[str, tuple[int, ...]]]:
    path, _, shapes = argument.partition(":")
    pairs = (item.split("=") for item in shapes.split(";") if item)
    return Path(path), {name: tuple(map(int, shape.split(","))) for name, shape in pairs}


def feeds_for(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    with InferenceSession(path, device="cpu") as session:
        inputs = session.get_inputs()
    feeds = random_feeds(inputs)
    for arg in inputs:
        shape = shapes.get(arg.name, shapes.get("*"))
        if shape is not None:
            feeds[arg.name] = np.random.default_rng(0).standard_normal(shape).astype(arg.dtype)
    return feeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL.onnx[:name=1,3,480,640]", nargs="*")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for path, shapes in [given(a) for a in options.models] or rapidocr():
        result = bench_model(str(path), path.name, feeds_for(path, shapes), "cpu", ["onnxruntime"], seconds=4)
        rows.append({"model": path.name, **result.ms, "ratio": result.ms["headrace"] / result.ms["onnxruntime"],
                     "error": result.errors["onnxruntime"], "notes": list(result.notes)})  # fmt: skip
        if not options.json:
            row = rows[-1]
            print(f"{path.name}: headrace {row['headrace']:.2f} ms, onnxruntime {row['onnxruntime']:.2f} ms, "
                  f"ratio {row['ratio']:.3f}, error {row['error']:.1e}", flush=True)  # fmt: skip
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
