"""Everything that is worth measuring on a machine with a real GPU, in one go of a few minutes and without a network.

    python benchmarks/gpu_session.py [-o results.json] [--model MODEL.onnx[:name=1,3,800,800;other=1,64,64]] ...
                                     [--adapter NAME] [--seconds 280] [--small]

The adapter and its peaks; the reported cases on WebGPU, beside torch and JAX on CUDA where they are installed; DETR
(its graph is in the tests' data, its weights are random) and the models given; the variants of the matrix product
against each other. What no longer fits into --seconds is named as skipped. `--small` is for trying the script on a
software adapter.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from parity import given

import headrace
from headrace import InferenceSession
from headrace.bench.cases import CASES, Case
from headrace.bench.run import random_feeds
from headrace.profile import Profile

ROOT = Path(__file__).resolve().parent.parent
DETR_SHAPES = {"pixel_values": (1, 3, 800, 1066), "pixel_mask": (1, 64, 64)}
PRODUCTS = ((512, 512, 512), (2048, 2048, 2048), (4096, 4096, 4096), (100, 2048, 256), (13000, 64, 576))
SMALL_FLOPS = 1e9


@dataclasses.dataclass
class Session:
    """What has been found, and how much time is left."""

    adapter: str | None
    small: bool
    end: float
    found: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def runs(self) -> int:
        return 2 if self.small else 20

    def section(self, name: str, work: Callable[[], Any], needs_s: float = 15) -> None:
        """Do `work` and keep what it returns; a section that fails or has no time left says so and stops nothing."""
        if time.monotonic() + needs_s > self.end:
            self.found[name] = {"skipped": "no time left"}
        else:
            start = time.monotonic()
            try:
                self.found[name] = work()
            except Exception as error:  # the next sections are worth having all the same
                self.found[name] = {"failed": f"{type(error).__name__}: {error}"}
            print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def adapter(s: Session) -> dict[str, Any]:
    from headrace.backends.webgpu.device import open_device, release

    device = open_device(s.adapter)
    try:
        return {
            "name": device.name,
            "software": device.target.software,
            "features": sorted(map(str, device.handle.features)),
            "limits": {k: v for k, v in device.handle.limits.items() if "storage" in k or "compute" in k},
            "devices": [dataclasses.asdict(d) for d in headrace.devices()],
            "system": platform.platform(),
        }
    finally:
        release(device)


def summary(p: Profile) -> dict[str, Any]:
    """The figures of a profile that a table needs, and its cliffs."""
    kernels = [e for e in p.events if e.kind == "kernel"]
    device_ms = sum(e.ms for e in kernels)
    flops = sum(e.flops for e in kernels)
    heavy = sorted(kernels, key=lambda e: -e.ms)[:8]
    return {
        "ms": p.plain_ms,
        "device_ms": device_ms,
        "dispatches": len(kernels),
        "submits": sum(e.kind == "submit" for e in p.events),
        "gflops": flops / device_ms / 1e6 if device_ms else 0.0,
        "peak_mb": (p.peak_bytes or 0) / 1e6,
        "cold_ms": dict(p.cold_ms),
        "cliffs": [c.text for c in p.cliffs[:5]],
        "heaviest": [{"kernel": e.name, "ms": e.ms, "share": e.share, "nodes": list(e.nodes[:2])} for e in heavy],
    }


def profiled(s: Session, model: Any, feeds: dict[str, np.ndarray]) -> Profile:
    with InferenceSession(model, "webgpu", adapter=s.adapter) as session:
        return session.profile(feeds, s.runs)


def peaks(s: Session) -> dict[str, float]:
    """A large matrix product and a stream, measured for any profile."""
    a = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
    return dataclasses.asdict(profiled(s, product(64, 64, 64), {"a": a, "b": a}).peaks)


def shrunk(case: Case) -> Case:
    """The case with fewer frames, for a software adapter."""
    feeds = {n: (1, *shape[1:-1], min(shape[-1], 40)) if len(shape) == 3 and shape[-1] > 1 else shape
             for n, shape in case.feeds.items()}  # fmt: skip
    return dataclasses.replace(case, feeds=feeds)


def reported(s: Session, case: Case) -> dict[str, Any]:
    import onnx

    model, shapes = case.build(), dict(case.feeds)
    if s.small:
        shapes = dict(shrunk(case).feeds)
        for value in model.graph.input:
            del value.type.tensor_type.shape.dim[:]
            value.type.tensor_type.shape.dim.extend(
                onnx.TensorShapeProto.Dimension(dim_value=n) for n in shapes[value.name]
            )
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(shape, dtype=np.float32) for n, shape in shapes.items()}
    result = {"headrace": summary(profiled(s, model.SerializeToString(), feeds))}
    node = model.graph.node[0]
    if node.op_type in ("Conv", "ConvTranspose"):
        weight = onnx.numpy_helper.to_array(model.graph.initializer[0])
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        stride, pad = attributes["strides"][0], attributes.get("pads", [0])[0]
        for name, peer in (("torch cuda", torch_cuda), ("jax cuda", jax_cuda)):
            with contextlib.suppress(ImportError, NoCuda):
                result[name] = peer(feeds["x"], weight, stride, pad, node.op_type == "ConvTranspose", s.runs)
    return result


class NoCuda(Exception):
    """The peer is installed, but sees no CUDA device."""


def timed(call: Callable[[], object], runs: int) -> float:
    """Median milliseconds of calls that wait for their result."""
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return float(np.median(times))


def torch_cuda(x: np.ndarray, w: np.ndarray, stride: int, pad: int, transposed: bool, runs: int) -> dict[str, Any]:
    """The operator alone with its input on the card, and with the way there and back, as a run of headrace has it."""
    import torch

    if not torch.cuda.is_available():
        raise NoCuda
    weight, on_card = torch.from_numpy(w.copy()).cuda(), torch.from_numpy(x).cuda()
    function = torch.nn.functional.conv_transpose1d if transposed else torch.nn.functional.conv1d
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def alone() -> None:
        function(on_card, weight, stride=stride, padding=pad)
        torch.cuda.synchronize()

    def both_ways() -> None:
        function(torch.from_numpy(x).cuda(), weight, stride=stride, padding=pad).cpu()

    with torch.no_grad():
        return {"device_ms": timed(alone, runs), "ms": timed(both_ways, runs), "card": torch.cuda.get_device_name()}


def jax_cuda(x: np.ndarray, w: np.ndarray, stride: int, pad: int, transposed: bool, runs: int) -> dict[str, Any]:
    """lax's operator and headrace.jax's, jitted, input on the card."""
    import jax
    from jax import lax

    import headrace.jax as hj

    if jax.default_backend() not in ("gpu", "cuda"):
        raise NoCuda
    options: dict[str, Any] = {"window_strides": (stride,), "padding": ((pad, pad),)}
    weight = w
    if transposed:
        weight = np.ascontiguousarray(np.flip(w, -1).swapaxes(0, 1))
        reach = w.shape[-1] - 1 - pad
        options = {"window_strides": (1,), "padding": ((reach, reach),), "lhs_dilation": (stride,)}
    a, b = jax.device_put(x), jax.device_put(weight)
    result: dict[str, Any] = {"card": str(jax.devices()[0])}
    for name, module in (("lax", lax), ("headrace.jax", hj)):
        function = jax.jit(lambda x, w, f=module.conv_general_dilated: f(x, w, **options))
        result[name] = timed(lambda function=function: function(a, b).block_until_ready(), runs)
    return result


def model(s: Session, source: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    with InferenceSession(source, "cpu") as session:
        inputs = session.get_inputs()
    feeds = random_feeds(inputs)
    rng = np.random.default_rng(0)
    for arg in inputs:
        if arg.name in shapes:
            integers = arg.dtype.kind in "iu"
            shape = shapes[arg.name]
            feeds[arg.name] = np.ones(shape, arg.dtype) if integers else rng.standard_normal(shape).astype(arg.dtype)
    return summary(profiled(s, source, feeds))


def detr(s: Session) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT))
    from tests.detr import detr as build

    shapes = dict(DETR_SHAPES)
    if s.small:
        shapes["pixel_values"] = (1, 3, 96, 128)
    return model(s, build().SerializeToString(), shapes)


@contextlib.contextmanager
def variant(s: Session, software: bool) -> Iterator[None]:
    """Sessions inside compile for a software adapter (tiles in registers) or for a GPU (tiles in workgroup memory)."""
    from headrace.backends.webgpu.device import open_device, release

    device = open_device(s.adapter)
    before, device.target = device.target, dataclasses.replace(device.target, software=software)
    try:
        yield
    finally:
        device.target = before
        release(device)


def product(m: int, k: int, n: int) -> bytes:
    """A model of one matrix product."""
    from onnx import TensorProto, helper

    shapes = {"a": (m, k), "b": (k, n)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (m, n))
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "product", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def variants(s: Session) -> list[dict[str, Any]]:
    rows = []
    for m, k, n in PRODUCTS:
        if s.small and 2.0 * m * k * n > SMALL_FLOPS:
            continue
        rng = np.random.default_rng(0)
        feeds = {"a": rng.standard_normal((m, k), dtype=np.float32), "b": rng.standard_normal((k, n), dtype=np.float32)}
        row: dict[str, Any] = {"m": m, "k": k, "n": n}
        for name, software in (("registers", True), ("workgroup memory", False)):
            with variant(s, software):
                row[name] = summary(profiled(s, product(m, k, n), feeds))["gflops"]
        rows.append(row)
    return rows


def line(name: str, part: dict[str, Any]) -> str:
    """One case or model in the table."""
    own = part.get("headrace", part)
    work = f"{own['device_ms']:.3f} ms on the device in {own['dispatches']} dispatches, {own['gflops']:.0f} GFLOP/s"
    text = f"{name}: {own['ms']:.3f} ms, {work}"
    for peer in ("torch cuda", "jax cuda"):
        if peer in part:
            text += f"; {peer} " + ", ".join(f"{k} {v:.3f}" for k, v in part[peer].items() if k != "card")
    return "\n    ".join([text, *own["cliffs"][:2]])


def table(found: dict[str, Any]) -> None:
    """The short table: what a README wants."""
    print(f"\nadapter: {found['adapter'].get('name')}; peaks {found.get('peaks')}")
    for name, part in found.items():
        if "skipped" in part or "failed" in part:
            print(f"{name}: {part}")
        elif name.startswith(("case ", "model ")):
            print(line(name, part))
    for row in found["variants"] if isinstance(found.get("variants"), list) else ():
        shape, rates = f"{row['m']}x{row['k']}x{row['n']}", (row["registers"], row["workgroup memory"])
        print(f"product {shape}: registers {rates[0]:.0f}, workgroup memory {rates[1]:.0f} GFLOP/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--adapter")
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="WebGPU runs on a software adapter")
    s = Session(options.adapter, options.small, time.monotonic() + options.seconds)
    s.section("adapter", lambda: adapter(s), 0)
    s.section("peaks", lambda: peaks(s))
    for case in CASES:
        s.section(f"case {case.name}", lambda case=case: reported(s, case))
    s.section("model DETR", lambda: detr(s), 30)
    for path, shapes in map(given, options.model):
        s.section(f"model {path.name}", lambda path=path, shapes=shapes: model(s, path, shapes), 30)
    s.section("variants", lambda: variants(s), 20)
    if options.output is not None:
        options.output.write_text(json.dumps(s.found, indent=1))
    table(s.found)


if __name__ == "__main__":
    main()
