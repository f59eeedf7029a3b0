"""explain(): which form a convolution and its two gradients take, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .convolution import describe, lax_parameters
from .cost import Estimate, estimates, pick
from .geometry import Problem
from .stages import reduce_problem


@dataclass(frozen=True, slots=True)
class Choice:
    """One product of the bilinear map: "forward", "lhs gradient" or "rhs gradient"."""

    what: str
    form: str
    reason: str
    stages: tuple[str, ...]
    estimates: tuple[Estimate, ...]

    def __str__(self) -> str:
        lines = [f"{self.what}: {self.form} ({self.reason})"]
        lines += [f"    {stage}" for stage in self.stages]
        lines += [f"    {e.form:<18} {e.microseconds:>12.0f} us  {e.note}" for e in self.estimates]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The three choices; printing it prints them."""

    forward: Choice
    lhs_gradient: Choice
    rhs_gradient: Choice

    def __str__(self) -> str:
        return "\n".join(map(str, (self.forward, self.lhs_gradient, self.rhs_gradient)))


def explain(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
    *,
    platform: str | None = None,
) -> Explanation:
    """Which forms `conv_general_dilated` with these arguments takes, forward and in both gradients.

    Args:
      lhs, rhs: arrays or anything with a shape and a dtype (jax.ShapeDtypeStruct); values are not read.
      window_strides … out_sharding: as in `conv_general_dilated`.
      platform: "cpu", "gpu", …; the default backend's if None.

    Returns:
      An Explanation: print it, or read its choices, stages and estimates.

    Raises:
      TypeError, ValueError: those of jax.lax for these arguments.
    """
    arguments = {
        "window_strides": window_strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": dimension_numbers,
        "feature_group_count": feature_group_count,
        "batch_group_count": batch_group_count,
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    x, w = (operand if hasattr(operand, "dtype") else np.asarray(operand) for operand in (lhs, rhs))
    parameters, result = lax_parameters(x, w, arguments)
    problem, *_ = describe(x.shape, w.shape, result.shape, parameters)
    on = platform or jax.default_backend()
    dtype = jnp.dtype(result.dtype)
    return Explanation(
        _choice("forward", problem, on, dtype),
        _choice("lhs gradient", problem.transposed_lhs(), on, dtype),
        _choice("rhs gradient", problem.transposed_rhs(), on, dtype),
    )


def _choice(what: str, problem: Problem, platform: str, dtype: Any) -> Choice:
    decision = pick(problem, platform, dtype)
    stages = () if decision.form in ("lax", "zeros") else tuple(str(stage) for stage, _ in reduce_problem(problem)[1])
    return Choice(what, decision.form, decision.reason, stages, estimates(problem, dtype) if not problem.empty else ())
