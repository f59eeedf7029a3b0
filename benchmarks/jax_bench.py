"""headrace.jax beside jax.lax and torch on the CPU: forward, and forward with both gradients.

    python benchmarks/jax_bench.py [NAME ...] [--json] [--rounds N] [--skip-slow]

Times are 20th percentiles of interleaved, jitted and warm calls. Each ratio is the peer's time over headrace's: over 1,
headrace is faster; where torch is faster the table says by how much.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import headrace.jax as hr


@dataclass(frozen=True, slots=True)
class Case:
    """One convolution in torch's terms: w is [in, out/groups, k...] where transposed, else [out, in/groups, k...]."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int
    padding: int
    groups: int = 1
    transposed: bool = True
    slow_in_lax: bool = False


CASES = {
    "reported 1-D": Case((16, 129, 400), (129, 1, 256), 64, 0),
    "vocoder 1-D": Case((1, 512, 200), (512, 256, 20), 10, 5),
    "vocoder tail 1-D": Case((1, 64, 8000), (64, 32, 4), 2, 1),
    "long kernel 1-D": Case((4, 128, 200), (128, 4, 512), 128, 0),
    "depthwise 1-D": Case((1, 512, 2000), (512, 1, 3), 2, 1, 512, slow_in_lax=True),
    "grouped 2-D": Case((2, 64, 32, 32), (64, 8, 4, 4), 2, 1, 8),
    "generator 2-D": Case((4, 64, 64, 64), (64, 32, 4, 4), 2, 1),
    "image upsampling 2-D": Case((1, 32, 128, 128), (32, 3, 2, 2), 2, 0),
    "depthwise 2-D": Case((2, 64, 48, 48), (64, 1, 4, 4), 2, 1, 64),
    "upsampling 3-D": Case((1, 32, 16, 16, 16), (32, 16, 2, 2, 2), 2, 0),
    "conv of the report 1-D": Case((16, 1, 25600), (129, 1, 256), 64, 256, transposed=False),
    "resnet conv 2-D": Case((4, 64, 56, 56), (64, 64, 3, 3), 1, 1, transposed=False),
    "strided conv 2-D": Case((4, 64, 56, 56), (128, 64, 3, 3), 2, 1, transposed=False),
    "depthwise conv 2-D": Case((4, 64, 56, 56), (64, 1, 3, 3), 1, 1, 64, transposed=False, slow_in_lax=True),
}


def interleaved(functions: dict[str, Callable[[], Any]], rounds: int, budget_ms: float = 25.0) -> dict[str, float]:
    """20th-percentile milliseconds of each, in rounds whose order rotates so that drift hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    calls = {}
    for name, f in functions.items():
        f()
        start = time.perf_counter()
        f()
        calls[name] = max(1, min(40, round(budget_ms / 1e3 / (time.perf_counter() - start))))
    names = list(functions)
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            time.sleep(0.02)
            functions[name]()
            for _ in range(calls[name]):
                start = time.perf_counter()
                functions[name]()
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: float(np.percentile(values, 20)) for name, values in times.items()}


def keywords(case: Case) -> dict[str, Any]:
    """Arguments for conv_general_dilated."""
    axes = len(case.x) - 2
    letters = "DHW"[-axes:]
    if not case.transposed:
        numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
        pads = ((case.padding,) * 2,) * axes
        return {"window_strides": (case.stride,) * axes, "padding": pads, "dimension_numbers": numbers,
                "feature_group_count": case.groups}  # fmt: skip
    pads = tuple((k - 1 - case.padding,) * 2 for k in case.w[2:])
    numbers = (f"NC{letters}", f"IO{letters}", f"NC{letters}")
    return {"window_strides": (1,) * axes, "padding": pads, "lhs_dilation": (case.stride,) * axes,
            "dimension_numbers": numbers, "feature_group_count": case.groups}  # fmt: skip


def torch_functions(case: Case, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """torch's forward and gradients of the same shapes, nothing where torch is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    name = f"conv{'_transpose' if case.transposed else ''}{len(case.x) - 2}d"
    call = getattr(torch.nn.functional, name)
    signal = torch.from_numpy(x).requires_grad_()
    kernel = torch.randn(case.w, requires_grad=True)
    options = {"stride": case.stride, "padding": case.padding, "groups": case.groups}
    cotangent = torch.randn(call(signal, kernel, **options).shape)

    def forward() -> None:
        with torch.no_grad():
            call(signal, kernel, **options)

    return {
        "torch": forward,
        "torch vjp": lambda: torch.autograd.grad(call(signal, kernel, **options), (signal, kernel), cotangent),
    }


def measure(case: Case, rounds: int, skip_slow: bool) -> dict[str, float]:
    """Milliseconds of each."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal(case.x, dtype=np.float32)
    shape = (case.w[0] // case.groups, case.w[1] * case.groups, *case.w[2:]) if case.transposed else case.w
    x, w = jnp.asarray(data), jnp.asarray(rng.standard_normal(shape, dtype=np.float32))
    functions: dict[str, Callable[[], Any]] = {}
    for name, convolution in {"lax": lax.conv_general_dilated, "headrace": hr.conv_general_dilated}.items():
        f = jax.jit(lambda x, w, c=convolution: c(x, w, **keywords(case)))
        cotangent = jnp.asarray(rng.standard_normal(f(x, w).shape, dtype=np.float32))
        vjp = jax.jit(lambda x, w, c, f=f: jax.vjp(f, x, w)[1](c))
        functions[name] = lambda f=f: f(x, w).block_until_ready()
        if not (name == "lax" and case.slow_in_lax and skip_slow):
            functions[f"{name} vjp"] = lambda vjp=vjp, c=cotangent: jax.block_until_ready(vjp(x, w, c))
    return interleaved(functions | torch_functions(case, data), rounds)


def ratio(times: dict[str, float], peer: str, what: str) -> float | None:
    """The peer's time over headrace's."""
    own = times[f"headrace{what}"]
    return times[f"{peer}{what}"] / own if f"{peer}{what}" in times else None


def compile_seconds(convolution: Any) -> float:
    """Time to compile a 32x32 kernel over an input dilated by 16."""
    x, w = jnp.ones((1, 8, 8, 128)), jnp.ones((32, 32, 128, 32))
    numbers = ("NHWC", "HWIO", "NHWC")
    start = time.perf_counter()
    jax.jit(lambda x, w: convolution(x, w, (1, 1), ((31, 31),) * 2, (16, 16), dimension_numbers=numbers)).lower(
        x, w
    ).compile()
    return time.perf_counter() - start


def show(name: str, times: dict[str, float]) -> None:
    """One line a case and product."""
    for what, label in (("", "forward"), (" vjp", "gradients")):
        cells = [f"{peer} {times[peer + what]:8.2f}" for peer in ("headrace", "lax", "torch") if peer + what in times]
        notes = []
        for peer in ("lax", "torch"):
            r = ratio(times, peer, what)
            if r is not None:
                notes.append(f"{r:.2f}x {peer}" if r >= 1 else f"{peer} is {1 / r:.2f}x faster")
        print(f"{name:<24} {label:<10} {'  '.join(cells)} ms   {', '.join(notes)}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-slow", action="store_true", help="leave out jax.lax's gradients that take seconds")
    options = parser.parse_args()
    unknown = set(options.names) - set(CASES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    results = {}
    for name in options.names or CASES:
        times = measure(CASES[name], options.rounds, options.skip_slow)
        ratios = {f"{p}{w}": ratio(times, p, w) for p in ("lax", "torch") for w in ("", " vjp")}
        results[name] = {"case": asdict(CASES[name]), "ms": times, "ratio": ratios}
        if not options.json:
            show(name, times)
    compiled = {"lax": compile_seconds(lax.conv_general_dilated), "headrace": compile_seconds(hr.conv_general_dilated)}
    if options.json:
        print(json.dumps({"jax": jax.__version__, "cases": results, "compile_seconds": compiled}, indent=1))
    else:
        print(f"compile, 32x32 kernel, dilation 16: headrace {compiled['headrace']:.2f} s, lax {compiled['lax']:.2f} s")


if __name__ == "__main__":
    main()
