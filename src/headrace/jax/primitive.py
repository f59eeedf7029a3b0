"""The bilinear primitive behind every function here. Its gradients are itself with the roles of the axes permuted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

from .compute import run
from .cost import choose
from .geometry import Problem

conv_p = Primitive("headrace_conv")


def bind(problem: Problem, lhs: jax.Array, rhs: jax.Array, precision: Any, preferred: Any) -> jax.Array:
    """Binds the primitive. lhs and rhs have the shapes `problem` says and one dtype."""
    lhs, rhs = _vary_alike(lhs, rhs)
    result: jax.Array = conv_p.bind(  # type: ignore[no-untyped-call]
        lhs, rhs, problem=problem, precision=precision, preferred=preferred
    )
    return result


def _varying(x: jax.Array) -> frozenset[Any]:
    """The mesh axes of a surrounding shard_map over which the value varies."""
    aval = jax.typeof(x)
    axes = aval.manual_axis_type.varying if hasattr(aval, "manual_axis_type") else getattr(aval, "vma", ())
    return frozenset(axes)


def _vary_alike(*arrays: jax.Array) -> Sequence[jax.Array]:
    """Inside shard_map, marks every operand as varying over the mesh axes over which any does."""
    together = frozenset[Any]().union(*map(_varying, arrays))
    missing = [tuple(sorted(together - _varying(x))) for x in arrays]
    # jax before 0.8 calls it pvary.
    cast: Any = partial(lax.pcast, to="varying") if hasattr(lax, "pcast") else getattr(lax, "pvary", None)
    return [cast(x, axes) if axes else x for x, axes in zip(arrays, missing, strict=True)]


def _abstract(lhs: Any, rhs: Any, *, problem: Problem, precision: Any, preferred: Any) -> Any:
    if (lhs.shape, rhs.shape) != (problem.shape("lhs"), problem.shape("rhs")):
        raise TypeError(f"operands {lhs.shape} and {rhs.shape} do not belong to {problem}")
    shape = problem.shape("out")
    dtype = jnp.dtype(preferred if preferred is not None else lhs.dtype)
    # The operands' aval carries the mesh axes over which a value varies; the sharding it may carry is that of an array
    # of another rank.
    spec = PartitionSpec(*[None] * len(shape))  # type: ignore[no-untyped-call]
    return lhs.update(shape=shape, dtype=dtype, weak_type=False, sharding=NamedSharding(lhs.sharding.mesh, spec))


@partial(jax.jit, static_argnames=("problem", "precision", "preferred"))
def _jitted(lhs: jax.Array, rhs: jax.Array, problem: Problem, precision: Any, preferred: Any) -> jax.Array:
    return bind(problem, lhs, rhs, precision, preferred)


def _impl(lhs: jax.Array, rhs: jax.Array, *, problem: Problem, precision: Any, preferred: Any) -> jax.Array:
    result: jax.Array = _jitted(lhs, rhs, problem, precision, preferred)
    return result


def _reversed(problem: Problem, rhs: jax.Array) -> jax.Array:
    return lax.rev(rhs, [i for i, d in enumerate(problem.rhs_dims) if d[0] == "s"])


def _transpose_lhs(g: Any, lhs: Any, rhs: Any, *, problem: Problem, precision: Any, preferred: Any) -> Any:
    turned = lax.convert_element_type(_reversed(problem, rhs), g.dtype)
    out = bind(problem.transposed_lhs(), g, turned, precision, preferred)
    return lax.convert_element_type(out, lhs.aval.dtype)


def _transpose_rhs(g: Any, lhs: Any, rhs: Any, *, problem: Problem, precision: Any, preferred: Any) -> Any:
    out = bind(problem.transposed_rhs(), lax.convert_element_type(lhs, g.dtype), g, precision, preferred)
    return lax.convert_element_type(out, rhs.aval.dtype)


conv_p.def_abstract_eval(_abstract)  # type: ignore[no-untyped-call]
conv_p.def_impl(_impl)  # type: ignore[no-untyped-call]
ad.defbilinear(conv_p, _transpose_lhs, _transpose_rhs)  # type: ignore[no-untyped-call]


def _batch(args: Sequence[Any], dims: Sequence[int | None], *, problem: Problem, **params: Any) -> tuple[Any, int]:
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    return bind(problem.batched(dims[0], dims[1], size), *args, **params), 0


batching.primitive_batchers[conv_p] = _batch


def _lower(platform: str, lhs: Any, rhs: Any, *, problem: Problem, precision: Any, preferred: Any) -> jax.Array:
    form = choose(problem, platform, jnp.dtype(preferred if preferred is not None else lhs.dtype))
    return run(problem, form, lhs, rhs, precision, preferred)


mlir.register_lowering(conv_p, mlir.lower_fun(partial(_lower, "accelerator"), multiple_results=False))
mlir.register_lowering(conv_p, mlir.lower_fun(partial(_lower, "cpu"), multiple_results=False), platform="cpu")
