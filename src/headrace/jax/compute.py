"""A Problem computed: stages, one of the forms, stages undone; or jax.lax itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .forms import FORMS, Numerics, Unit
from .geometry import Problem
from .lax_originals import LAX_CONV
from .named import Named, unmerge
from .stages import Inflate, Stage, reduce_problem


def accumulation_dtype(dtype: Any, preferred: Any) -> Any:
    """The dtype of sums: float16 and bfloat16 add in float32, as jax.lax does."""
    result = jnp.dtype(preferred if preferred is not None else dtype)
    return jnp.dtype(jnp.float32) if result in (jnp.float16, jnp.bfloat16) else result


def final_order(problem: Problem, stages: tuple[tuple[Stage, str], ...]) -> tuple[str, ...]:
    """The result's axes before the stages are undone, in the order in which undoing moves nothing."""
    order = list(problem.out_dims)
    for stage, name in stages:
        if stage.letter in "no" and not isinstance(stage, Inflate):
            order.insert(order.index(f"s{stage.axis}") + 1, name)
    return tuple(order)


def run(
    problem: Problem, form: str, lhs: jax.Array, rhs: jax.Array, precision: Any = None, preferred: Any = None
) -> jax.Array:
    """Computes `problem` by the form of this name."""
    dtype = jnp.dtype(preferred if preferred is not None else lhs.dtype)
    if problem.empty or form == "zeros":
        return jnp.zeros(problem.shape("out"), dtype)
    if form == "lax":
        return run_lax(problem, lhs, rhs, precision, preferred)
    unit_problem, stages = reduce_problem(problem)
    if unit_problem.empty:
        return jnp.zeros(problem.shape("out"), dtype)
    x, w = Named(lhs, problem.lhs_dims), Named(rhs, problem.rhs_dims)
    for stage, name in stages:
        x, w = stage.apply("lhs", x, name), stage.apply("rhs", w, name)
    numerics = Numerics(precision, accumulation_dtype(lhs.dtype, preferred))
    order = final_order(problem, stages)
    y = FORMS[form](Unit(unit_problem, x, w, order, numerics)).transpose(order)
    for stage, name in reversed(stages):
        y = stage.undo(y, name)
    return lax.convert_element_type(y.transpose(problem.out_dims).array, dtype)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The axes of one array as jax.lax wants them: groups of names that become one axis each, and where each is."""

    groups: tuple[tuple[str, ...], ...]
    spec: tuple[int, ...]

    @staticmethod
    def of(dims: tuple[str, ...], first: tuple[str, ...], second: tuple[str, ...]) -> _Layout:
        """A layout with `first` and `second` as one axis each, where their last names stand in `dims`."""
        place = {group: max((dims.index(d) for d in group), default=-1) for group in (first, second)}
        spatial = [(d,) for d in dims if d[0] == "s"]
        place |= {group: dims.index(group[0]) for group in spatial}
        groups = sorted([first, second, *spatial], key=lambda group: place[group])
        order = [groups.index(first), len(groups) - 1 - groups[::-1].index(second)]
        return _Layout(tuple(groups), (*order, *(groups.index((f"s{i}",)) for i in range(len(spatial)))))


def run_lax(problem: Problem, lhs: jax.Array, rhs: jax.Array, precision: Any, preferred: Any) -> jax.Array:
    """jax.lax.conv_general_dilated on the same arrays, without a transpose where the axes already stand so."""
    axes = problem.axes
    by_batch = _adjacent(problem.lhs_dims, "g", "n") and not _adjacent(problem.lhs_dims, "g", "c")
    g, n, c = (_role(problem.lhs_dims, letter) for letter in "gnc")
    o = _role(problem.rhs_dims, "o")
    left = _Layout.of(problem.lhs_dims, g + n if by_batch else n, c if by_batch else g + c)
    right = _Layout.of(problem.rhs_dims, g + o, c)
    result = _Layout.of(problem.out_dims, n, g + o)
    groups = problem.size("g")
    out = LAX_CONV(
        Named(lhs, problem.lhs_dims).arrange(*left.groups),
        Named(rhs, problem.rhs_dims).arrange(*right.groups),
        tuple(a.window_stride for a in axes),
        tuple(a.padding_pair for a in axes),
        tuple(a.lhs_dilation for a in axes),
        tuple(a.rhs_dilation for a in axes),
        lax.ConvDimensionNumbers(left.spec, right.spec, result.spec),
        feature_group_count=1 if by_batch else groups,
        batch_group_count=groups if by_batch else 1,
        precision=precision,
        preferred_element_type=preferred,
    )
    sizes = dict(problem.sizes) | {f"s{i}": a.out for i, a in enumerate(axes)}
    return unmerge(out, result.groups, sizes).transpose(problem.out_dims).array


def _role(dims: tuple[str, ...], letter: str) -> tuple[str, ...]:
    return tuple(d for d in dims if d[0] == letter)


def _adjacent(dims: tuple[str, ...], first: str, second: str) -> bool:
    """Whether an axis of role `second` follows one of role `first`."""
    return any(a[0] == first and b[0] == second for a, b in pairwise(dims))
