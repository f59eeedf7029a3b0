"""Every argument of conv_general_dilated against jax.lax: values, jvp, vjp, vmap, and each form by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings
from jax import lax
from jax_helpers import assert_close, random_array
from jax_strategies import Arguments, arguments

import headrace.jax as hr
from headrace.jax.compute import run
from headrace.jax.convolution import describe, lax_parameters
from headrace.jax.forms import FORMS
from headrace.jax.geometry import Problem

few = partial(settings, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def pair(a: Arguments, dtype: Any = "float32", **more: Any) -> tuple[Any, Any, Any, Any]:
    """(ours, lax's, lhs, rhs)."""
    keywords = a.keywords | more
    ours = lambda x, w: hr.conv_general_dilated(x, w, **keywords)  # noqa: E731
    theirs = lambda x, w: lax.conv_general_dilated(x, w, **keywords)  # noqa: E731
    return ours, theirs, random_array(a.lhs_shape, dtype, 1), random_array(a.rhs_shape, dtype, 2)


def problem_of(a: Arguments) -> Problem:
    x, w = jnp.zeros(a.lhs_shape), jnp.zeros(a.rhs_shape)
    defaults = {"feature_group_count": 1, "batch_group_count": 1}
    parameters, result = lax_parameters(x, w, defaults | a.keywords)
    return describe(a.lhs_shape, a.rhs_shape, result.shape, parameters)[0]


@pytest.mark.slow
@few(max_examples=40)
@given(arguments(3))
def test_values_jvp_and_vjp(a: Arguments) -> None:
    ours, theirs, x, w = pair(a)
    dx, dw = random_array(a.lhs_shape, seed=3), random_array(a.rhs_shape, seed=4)

    def everything(f: Any) -> Any:
        y, tangent = jax.jvp(f, (x, w), (dx, dw))
        return y, tangent, jax.vjp(f, x, w)[1](jnp.sin(y))

    assert_close(jax.jit(partial(everything, ours))(), jax.jit(partial(everything, theirs))())


@pytest.mark.slow
@few(max_examples=20)
@given(arguments())
def test_every_form_of_all_three_products(a: Arguments) -> None:
    problem = problem_of(a)
    for p in (problem, problem.transposed_lhs(), problem.transposed_rhs()):
        x, w = random_array(p.shape("lhs"), seed=5), random_array(p.shape("rhs"), seed=6)
        results = jax.jit(lambda x, w, p=p: [run(p, form, x, w) for form in ("lax", *FORMS)])(x, w)
        for got in results[1:]:
            assert_close(got, results[0])


@pytest.mark.slow
@few(max_examples=20)
@given(arguments())
def test_vmap_of_values_and_gradients(a: Arguments) -> None:
    ours, theirs, x, w = pair(a)
    xs, ws = jnp.stack([x, 2 * x, x - 1], -1), jnp.stack([w, w + 1, -w], 1)

    def everything(f: Any) -> Any:
        loss = lambda x, w: jnp.sum(jnp.sin(f(x, w)))  # noqa: E731
        grads = jax.grad(loss, (0, 1))
        return (
            jax.vmap(f, (-1, None))(xs, w),
            jax.vmap(f, (None, 1), -1)(x, ws),
            jax.vmap(f, (-1, 1))(xs, ws),
            jax.vmap(grads, (-1, 1))(xs, ws),
            jax.vmap(jax.vmap(f, (None, 1)), (-1, None))(xs, ws),
        )

    assert_close(jax.jit(partial(everything, ours))(), jax.jit(partial(everything, theirs))())


@few(max_examples=10)
@given(arguments())
def test_float64_oracle(a: Arguments) -> None:
    with jax.enable_x64(True):
        ours, theirs, x, w = pair(a, "float64")
        both = jax.jit(
            lambda x, w: [jax.value_and_grad(lambda x, f=f: jnp.sum(f(x, w) ** 2))(x) for f in (ours, theirs)]
        )
        got, want = both(x, w)
        assert got[0].dtype == jnp.float64
        assert_close(got, want)


TRANSPOSED = Arguments(
    (2, 4, 7),
    (4, 3, 5),
    {
        "window_strides": (1,),
        "padding": ((3, -1),),
        "lhs_dilation": (3,),
        "rhs_dilation": (2,),
        "dimension_numbers": ("NCT", "IOT", "NCT"),
    },
)
GROUPED = Arguments(
    (2, 6, 9, 6),
    (4, 3, 3, 3),
    {"window_strides": (2, 1), "padding": ((1, 1), (0, 2)), "lhs_dilation": (1, 2), "feature_group_count": 2},
)


@pytest.mark.parametrize("case", [TRANSPOSED, GROUPED], ids=["transposed", "grouped"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "int32", "uint8"])
def test_dtypes(case: Arguments, dtype: str) -> None:
    ours, theirs, x, w = pair(case, dtype)
    assert_close(ours(x, w), theirs(x, w))
    if jnp.issubdtype(jnp.dtype(dtype), jnp.inexact):
        y = theirs(x, w)
        assert_close(jax.vjp(ours, x, w)[1](y), jax.vjp(theirs, x, w)[1](y))


@pytest.mark.parametrize(
    ("dtype", "preferred"),
    [("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32"), ("float32", "float32")],
)
def test_preferred_element_type_and_precision(dtype: str, preferred: str) -> None:
    ours, theirs, x, w = pair(TRANSPOSED, dtype, preferred_element_type=preferred, precision="highest")
    got, want = ours(x, w), theirs(x, w)
    assert got.dtype == jnp.dtype(preferred)
    assert_close(got, want)
    if jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        assert_close(jax.vjp(ours, x, w)[1](want), jax.vjp(theirs, x, w)[1](want))


@pytest.mark.slow
def test_low_precision_adds_in_float32() -> None:
    a = Arguments((1, 256, 8), (256, 4, 6), TRANSPOSED.keywords | {"rhs_dilation": (1,), "padding": ((5, 5),)})
    ours, _, x, w = pair(a, "bfloat16")
    exact = lax.conv_general_dilated(x.astype("float32"), w.astype("float32"), **a.keywords)
    assert jnp.abs(ours(x, w).astype("float32") - exact).max() <= 2**-8 * jnp.abs(exact).max()


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER", "same"])
def test_string_padding(padding: str) -> None:
    a = Arguments((1, 3, 9), (2, 3, 4), {"window_strides": (2,), "padding": padding, "rhs_dilation": (2,)})
    ours, theirs, x, w = pair(a)
    assert_close(ours(x, w), theirs(x, w))


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [((0, 3, 5), (4, 3, 2)), ((2, 0, 5), (4, 0, 2)), ((2, 3, 5), (0, 3, 2)), ((2, 3, 1), (4, 3, 9))],
    ids=["no batch", "nothing to sum", "no features", "no output"],
)
def test_empty(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
    a = Arguments(lhs, rhs, {"window_strides": (1,), "padding": ((0, 1),), "lhs_dilation": (3,)})
    ours, theirs, x, w = pair(a)
    y = theirs(x, w)
    assert_close(ours(x, w), y)
    assert_close(jax.vjp(ours, x, w)[1](y), (jnp.zeros_like(x), jnp.zeros_like(w)))


BAD: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 5), (2, 4, 3), {"window_strides": (1,), "padding": "VALID"}),
    ((1, 3, 5), (2, 3, 3), {"window_strides": (1,), "padding": ((1, 1),), "dimension_numbers": ("NCX", "OIH", "NCH")}),
    ((1, 3, 5), (2, 3, 3), {"window_strides": (1,), "padding": "SAME", "lhs_dilation": (2,)}),
    ((1, 3, 5), (2, 3, 3), {"window_strides": (1, 1), "padding": ((1, 1),)}),
    ((1, 3, 5), (2, 3, 3), {"window_strides": (1,), "padding": ((-9, 0),)}),
    ((1, 4, 5), (3, 2, 3), {"window_strides": (1,), "padding": ((1, 1),), "feature_group_count": 2}),
    ((3, 4, 5), (4, 4, 3), {"window_strides": (1,), "padding": ((1, 1),), "batch_group_count": 2}),
    ((1, 3, 5), (2, 3, 3, 3), {"window_strides": (1,), "padding": ((1, 1),)}),
    ((1, 3, 5), (2, 3, 3), {"window_strides": (1,), "padding": 7}),
    ((1, 3, 5), (2, 3, 3), {"window_strides": (0,), "padding": ((1, 1),)}),
]


@pytest.mark.parametrize(("lhs", "rhs", "keywords"), BAD)
def test_errors_are_those_of_lax(lhs: Any, rhs: Any, keywords: dict[str, Any]) -> None:
    ours, theirs, x, w = pair(Arguments(lhs, rhs, keywords))
    with pytest.raises(Exception) as want:
        theirs(x, w)
    with pytest.raises(type(want.value)) as got:
        ours(x, w)
    assert str(got.value) == str(want.value)


def test_dtypes_must_agree_as_in_lax() -> None:
    _, _, x, w = pair(TRANSPOSED)
    with pytest.raises(TypeError, match="same"):
        hr.conv_general_dilated(x, w.astype("bfloat16"), **TRANSPOSED.keywords)
