"""conv_general_dilated and conv_transpose with the signatures of jax.lax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .geometry import Axis, Problem
from .lax_originals import LAX_CONV, LAX_CONV_TRANSPOSE
from .primitive import bind


def conv_general_dilated(
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
) -> jax.Array:
    """`jax.lax.conv_general_dilated` that multiplies no zeros of `lhs_dilation`, nor do its gradients.

    Args:
      lhs: input of rank n + 2, any dtype that jax.lax takes.
      rhs: kernel of rank n + 2 and the same dtype.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, batch_group_count,
        precision, preferred_element_type, out_sharding: as in `jax.lax.conv_general_dilated`.

    Returns:
      The array that jax.lax returns, of the same shape and dtype, equal up to rounding.

    Raises:
      TypeError, ValueError: those of jax.lax, with its text.

    Arrays sharded over an explicit mesh, `out_sharding` and symbolic shapes go to jax.lax unchanged.
    """
    lhs, rhs = _array(lhs), _array(rhs)
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
    if out_sharding is not None or not _ours(lhs, rhs):
        extra = {} if out_sharding is None else {"out_sharding": out_sharding}
        return LAX_CONV(lhs, rhs, **arguments, **extra)
    parameters, result = lax_parameters(lhs, rhs, arguments)
    return bound(lhs, rhs, parameters, result.shape)


def bound(lhs: Any, rhs: Any, parameters: dict[str, Any], out_shape: tuple[int, ...]) -> jax.Array:
    """The convolution with jax.lax's own canonical parameters."""
    problem, lhs_shape, rhs_shape = describe(lhs.shape, rhs.shape, out_shape, parameters)
    numerics = parameters["precision"], parameters["preferred_element_type"]
    out = bind(problem, lax.reshape(lhs, lhs_shape), lax.reshape(rhs, rhs_shape), *numerics)
    return lax.reshape(out, out_shape)


def _array(x: Any) -> Any:
    """The operand as an array, if it is one; what is not is left for jax.lax to refuse."""
    return jnp.asarray(x) if isinstance(x, np.ndarray) else x


def _ours(lhs: Any, rhs: Any) -> bool:
    """Whether these operands have static shapes of rank 3 or more, numbers as elements, and no explicit sharding."""
    for x in (lhs, rhs):
        if not isinstance(x, jax.Array) or x.ndim < 3 or not all(isinstance(n, int) for n in x.shape):
            return False
        if not jnp.issubdtype(x.dtype, jnp.number):
            return False
        if any(entry is not None for entry in jax.typeof(x).sharding.spec):
            return False
    return True


def lax_parameters(lhs: Any, rhs: Any, arguments: dict[str, Any], function: Any = LAX_CONV) -> tuple[Any, Any]:
    """The parameters that jax.lax binds for these arguments, and the result's aval; raises what jax.lax raises.

    One abstract trace of the original: its defaults, string paddings and errors are its own.
    """
    shapes: list[Any] = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (lhs, rhs)]  # type: ignore[no-untyped-call]
    traced = jax.make_jaxpr(lambda x, w: function(x, w, **arguments))(*shapes)
    (equation,) = [e for e in traced.jaxpr.eqns if e.primitive.name == "conv_general_dilated"]
    return dict(equation.params), traced.out_avals[0]


def describe(
    lhs: tuple[int, ...], rhs: tuple[int, ...], out: tuple[int, ...], parameters: dict[str, Any]
) -> tuple[Problem, tuple[int, ...], tuple[int, ...]]:
    """The Problem of jax.lax's parameters and the operands' shapes with the groups split off."""
    numbers = parameters["dimension_numbers"]
    features, batches = parameters["feature_group_count"], parameters["batch_group_count"]
    groups = max(features, batches)
    axes = tuple(
        Axis(lhs[i], rhs[k], out[o], stride, rhs_dilation, lhs_dilation, low)
        for i, k, o, stride, rhs_dilation, lhs_dilation, (low, _) in zip(
            numbers.lhs_spec[2:],
            numbers.rhs_spec[2:],
            numbers.out_spec[2:],
            parameters["window_strides"],
            parameters["rhs_dilation"],
            parameters["lhs_dilation"],
            parameters["padding"],
            strict=True,
        )
    )
    grouped = {"lhs": "n0" if batches > 1 else "c0", "rhs": "o0", "out": "o0"} if groups > 1 else {}
    lhs_dims = _names(numbers.lhs_spec, "n0", "c0", grouped.get("lhs"))
    rhs_dims = _names(numbers.rhs_spec, "o0", "c0", grouped.get("rhs"))
    out_dims = _names(numbers.out_spec, "n0", "o0", grouped.get("out"))
    sizes = {
        "n0": lhs[numbers.lhs_spec[0]] // batches,
        "c0": lhs[numbers.lhs_spec[1]] // features,
        "o0": rhs[numbers.rhs_spec[0]] // groups,
    }
    if groups > 1:
        sizes["g0"] = groups
    problem = Problem(lhs_dims, rhs_dims, out_dims, axes, tuple(sizes.items()))
    return problem, problem.shape("lhs"), problem.shape("rhs")


def _names(spec: Sequence[int], first: str, second: str, grouped: str | None) -> tuple[str, ...]:
    """Axis names in array order; a g axis stands before the one that holds the groups."""
    names = [""] * len(spec)
    for name, position in zip((first, second, *(f"s{i}" for i in range(len(spec) - 2))), spec, strict=True):
        names[position] = name
    return tuple(d for name in names for d in (("g0", name) if name == grouped else (name,)))


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> jax.Array:
    """`jax.lax.conv_transpose`, by `conv_general_dilated` of this package.

    Args:
      lhs: input of rank n + 2.
      rhs: kernel of rank n + 2 and the same dtype.
      strides, padding, rhs_dilation, dimension_numbers, transpose_kernel, precision, preferred_element_type,
        use_consistent_padding: as in `jax.lax.conv_transpose`.

    Returns:
      The array that jax.lax returns, of the same shape and dtype, equal up to rounding.

    Raises:
      AssertionError, TypeError, ValueError: those of jax.lax, with its text.
    """
    arguments = {
        "strides": strides,
        "padding": padding,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": dimension_numbers,
        "transpose_kernel": transpose_kernel,
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    if use_consistent_padding:  # not known to every supported jax
        arguments["use_consistent_padding"] = True
    lhs, rhs = _array(lhs), _array(rhs)
    if not _ours(lhs, rhs):
        return LAX_CONV_TRANSPOSE(lhs, rhs, **arguments)
    parameters, result = lax_parameters(lhs, rhs, arguments, LAX_CONV_TRANSPOSE)
    if transpose_kernel:  # what jax.lax does to the kernel before the convolution
        numbers = parameters["dimension_numbers"]
        rhs = jnp.flip(rhs, numbers.rhs_spec[2:]).swapaxes(numbers.rhs_spec[0], numbers.rhs_spec[1])
    return bound(lhs, rhs, parameters, result.shape)
