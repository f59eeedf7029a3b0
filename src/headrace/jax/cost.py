"""Which form computes a Problem: a small linear model of its time, fitted to measurements, and printable.

Each form is described by how much it does of each kind of work; COSTS says what a unit of work takes, in microseconds,
on two Zen 4 cores in float32. Only the order of the estimates matters, so other CPUs choose alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import jax.numpy as jnp

from .geometry import Problem
from .stages import reduce_problem

# Forms that are unrolled over taps or over positions of the result are considered up to this many.
MOST_UNROLLED = 64
# Another form must promise this share of jax.lax's time where jax.lax has no dilation, group or third axis to fear.
MARGIN = 0.75

COSTS: dict[str, dict[str, float]] = {
    "lax": {
        "call": 42, "macs": 6.1e-6, "signals": 3.3e-4, "kernel": 9e-4, "groups": 63, "patches": 2.1e-4,
        "looped macs": 1.5e-4, "macs in 3-D": 5e-5, "grouped macs": 1.2e-5, "batch-grouped macs": 7.6e-6,
    },
    "conv": {
        "call": 22, "macs": 2.5e-6, "signals": 2.3e-4, "kernel": 1.1e-3, "groups": 16, "patches": 3.1e-4,
        "looped macs": 1.5e-4, "macs in 3-D": 6.1e-6, "grouped macs": 1.5e-5,
        "depth": 3e-3,
    },
    "overlap": {"call": 26, "taps": 0.54, "macs": 4.9e-6, "lhs": 5.9e-4, "columns": 2.2e-4, "adds": 3e-5},
    "patches": {"call": 20, "taps": 2.3, "macs": 5.3e-6, "columns": 6.5e-4, "rest": 1.8e-4, "groups": 0.03},
    "taps": {"call": 26, "taps": 1.5, "macs": 6.1e-6, "large macs": 3.4e-6, "columns": 4.5e-4,
             "kernel": 3.8e-4, "adds": 1.4e-4},
    "inner": {"call": 25, "taps": 0.93, "macs": 4.7e-6, "columns": 7.3e-4, "rest": 4.8e-5, "out": 1.3e-4,
              "pack": 4.8e-4},
    "inner_stacked": {"call": 25, "taps": 1.1, "macs": 5e-6, "columns": 9.7e-4, "rest": 5.2e-4, "out": 1.9e-4},
    "elementwise": {"call": 25, "taps": 0.57, "terms": 8.4e-5, "terms, features last": 3.2e-5, "pack": 1.8e-5},
    "elementwise_inner": {"call": 79, "terms": 1.6e-4, "pack": 2.8e-4},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one form would take; `note` lists the largest parts."""

    form: str
    microseconds: float
    note: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The form chosen, and why in one sentence."""

    form: str
    reason: str


def _sizes(problem: Problem) -> tuple[int, ...]:
    """g, n, o, c and the numbers of positions of lhs, rhs and out."""
    letters = (problem.size(letter) for letter in "gnoc")
    return (*letters, *(prod(getattr(a, which) for a in problem.axes) for which in ("lhs", "rhs", "out")))


def _convolution_work(problem: Problem, dtype: Any) -> dict[str, float]:
    """Work of a call of jax.lax; XLA's CPU compiler has loops for what its Eigen kernels do not take."""
    g, n, o, c, lhs, rhs, out = _sizes(problem)
    macs = g * n * o * c * out * rhs
    deep, grouped = len(problem.axes) == 3, g > 1
    plain = all(a.lhs_dilation == a.rhs_dilation == 1 for a in problem.axes)
    pairs = [a[0] + b[0] for a, b in pairwise(problem.lhs_dims)]
    by_batch = grouped and "gn" in pairs and "gc" not in pairs
    looped = (deep and not plain) or len(problem.axes) > 3 or dtype in (jnp.float64, jnp.complex128)
    looped = looped or not jnp.issubdtype(dtype, jnp.inexact)
    return {
        "call": 1,
        "macs": macs,
        "signals": g * n * (c * min(lhs, out * rhs) + o * out),
        "kernel": g * o * c * rhs,
        "groups": g * grouped,
        "patches": g * n * out * c * rhs,
        "looped macs": macs * looped,
        "macs in 3-D": macs * (deep and not looped),
        "grouped macs": macs * (grouped and not by_batch),
        "batch-grouped macs": macs * g * by_batch,
    }


def _tap_work(unit: Problem, pack: int, features_last: bool) -> dict[str, dict[str, float]]:
    """Work of the forms that are unrolled over the taps."""
    g, n, o, c, lhs, rhs, out = _sizes(unit)
    if rhs > MOST_UNROLLED:
        return {}
    macs, result, patches = g * n * o * c * out * rhs, g * n * o * out, g * n * c * rhs * out
    kernel, columns = g * o * c * rhs, g * n * o * lhs * rhs
    # Products that are large enough for the matrix unit and smaller than what they read.
    large = g == 1 and 32 <= o < c and n * lhs >= 1024 and rhs <= 4 and len(unit.axes) == 1
    work: dict[str, dict[str, float]] = {
        "overlap": {
            "call": 1, "taps": rhs, "macs": g * n * o * c * lhs * rhs, "lhs": g * n * c * lhs,
            "columns": kernel + columns, "adds": rhs * result,
        },
        "patches": {
            "call": 1, "taps": rhs, "macs": macs, "columns": patches, "rest": kernel + result, "groups": g * (g > 1),
        },
        "taps": {
            "call": 1, "taps": rhs, "macs": macs * (not large), "large macs": macs * large, "kernel": kernel,
            "adds": rhs * result, "columns": g * n * c * lhs if large else patches,
        },
    }  # fmt: skip
    if rhs * c <= MOST_UNROLLED:
        terms = "terms, features last" if features_last else "terms"
        work["elementwise"] = {"call": 1, "taps": rhs * c, terms: rhs * c * result, "pack": pack}
    return work


def _inner_work(unit: Problem, pack: int) -> dict[str, dict[str, float]]:
    """Work of the forms that are unrolled over the positions of the result."""
    g, n, o, c, lhs, rhs, out = _sizes(unit)
    if out > MOST_UNROLLED:
        return {}
    length = lhs if o < n else rhs
    macs = g * n * o * c * out * length
    moved, rest = g * min(n, o) * c * length * out, g * max(n, o) * c * length
    work: dict[str, dict[str, float]] = {
        "inner": {
            "call": 1, "taps": out, "macs": macs, "columns": moved, "rest": rest * out, "out": g * n * o * out,
            "pack": pack,
        },
        "inner_stacked": {
            "call": 1, "taps": out, "macs": macs, "columns": moved, "rest": rest, "out": g * n * o * out,
        },
    }  # fmt: skip
    if n * o <= MOST_UNROLLED // 2:
        work["elementwise_inner"] = {"call": 1, "terms": macs, "pack": pack}
    return work


def _estimate(form: str, work: dict[str, float]) -> Estimate:
    parts = {kind: amount * COSTS[form].get(kind, 0) for kind, amount in work.items()}
    largest = sorted((kind for kind in parts if parts[kind] > 0), key=lambda kind: -parts[kind])[:3]
    return Estimate(form, sum(parts.values()), ", ".join(f"{kind} {parts[kind]:.0f}" for kind in largest))


def _kernel_is_small(unit: Problem) -> bool:
    """Whether a convolution call suits: not where a long signal is the kernel, as in a weight gradient."""
    *_, rhs, out = _sizes(unit)
    return rhs <= 8 * out or out > MOST_UNROLLED


def estimates(problem: Problem, dtype: Any = jnp.float32) -> tuple[Estimate, ...]:
    """Every form that can compute the Problem with its estimated time on a CPU, the fastest first."""
    unit, stages = reduce_problem(problem)
    found = [_estimate("lax", _convolution_work(problem, dtype))]
    if any(a.lhs_dilation > 1 for a in problem.axes):
        found = [replace(found[0], note=f"at most; {found[0].note}")]
    if not unit.empty:
        pack = sum(prod(problem.shape(which)) for which in ("lhs", "rhs", "out"))
        work = _tap_work(unit, pack, problem.out_dims[-1][0] in "og") | _inner_work(unit, pack)
        if stages and _kernel_is_small(unit):
            # Space-to-depth in two axes or more is a slow transpose.
            depth = len(problem.axes) > 1 and any(a.window_stride > 1 for a in problem.axes)
            signal = prod(problem.shape("lhs"))
            work["conv"] = _convolution_work(unit, dtype) | {"depth": signal * depth}
        found += [_estimate(form, amounts) for form, amounts in work.items()]
    return tuple(sorted(found, key=lambda e: e.microseconds))


def pick(problem: Problem, platform: str, dtype: Any) -> Decision:
    """The form for this Problem on "cpu" or on an accelerator."""
    if problem.empty or reduce_problem(problem)[0].empty:
        return Decision("zeros", "no products to sum")
    if platform != "cpu":
        return _pick_accelerator(problem)
    found = estimates(problem, dtype)
    lax = next(e for e in found if e.form == "lax")
    best = found[0]
    if best is lax:
        return Decision("lax", "nothing here is estimated to be faster")
    safe = all(a.lhs_dilation == a.rhs_dilation == 1 for a in problem.axes) and problem.size("g") == 1
    if safe and len(problem.axes) < 3 and best.microseconds > MARGIN * lax.microseconds:
        return Decision("lax", f"{best.form} is not estimated to be clearly faster")
    zeros = prod(a.lhs_dilation for a in problem.axes)
    if zeros > 1:  # the estimate of jax.lax is only an upper bound here: some dilated inputs reach a fast kernel
        return Decision(best.form, f"jax.lax would multiply {zeros} numbers, all but one of them zero, for each here")
    return Decision(best.form, f"estimated {lax.microseconds / best.microseconds:.1f} times as fast as jax.lax")


def _pick_accelerator(problem: Problem) -> Decision:
    """cuDNN and its like take every strided and atrous convolution; only dilated inputs need another form."""
    if all(a.lhs_dilation == 1 for a in problem.axes):
        return Decision("lax", "no dilated input")
    unit, _ = reduce_problem(problem)
    _, n, o, c, _, rhs, out = _sizes(unit)
    if out <= MOST_UNROLLED and out < rhs:
        return Decision("inner_stacked", "few positions in the result: one matrix product over space")
    if rhs * c <= 16 and n * o * c <= 256 and unit.size("g") > 1:
        return Decision("elementwise", "few taps and channels in each group")
    if rhs == 1:
        return Decision("overlap", "one tap for each output: a matrix product")
    return Decision("conv", "polyphase convolution")


def choose(problem: Problem, platform: str, dtype: Any) -> str:
    """The name of the form for `compute.run`."""
    return pick(problem, platform, dtype).form
