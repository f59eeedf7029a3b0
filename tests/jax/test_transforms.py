"""The primitive under every transformation of JAX, forms forced by shapes that are routed away from jax.lax."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, PartitionSpec
from jax_helpers import assert_close, random_array

import headrace.jax as hr

KEYWORDS: dict[str, Any] = {
    "window_strides": (1,),
    "padding": ((5, 4),),
    "lhs_dilation": (4,),
    "dimension_numbers": ("NCT", "IOT", "NCT"),
}
ours = partial(hr.conv_general_dilated, **KEYWORDS)
theirs = partial(lax.conv_general_dilated, **KEYWORDS)


@pytest.fixture(scope="module")
def operands() -> tuple[jax.Array, jax.Array]:
    return random_array((2, 3, 6), seed=1), random_array((3, 2, 6), seed=2)


def loss(f: Any, x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(f(x, w)) ** 2)


def test_the_dilated_convolution_is_gone(operands: Any) -> None:
    text = jax.jit(jax.grad(partial(loss, ours), (0, 1))).lower(*operands).as_text()
    assert "lhs_dilate = [4]" not in text


@pytest.mark.slow
def test_hessian_of_both_operands(operands: Any) -> None:
    got = jax.jit(jax.hessian(partial(loss, ours), (0, 1)))(*operands)
    assert_close(got, jax.jit(jax.hessian(partial(loss, theirs), (0, 1)))(*operands))


def test_forward_over_reverse_and_linearize(operands: Any) -> None:
    def both(f: Any) -> Any:
        grads = jax.grad(partial(loss, f), (0, 1))
        y, linear = jax.linearize(f, *operands)
        return jax.jvp(grads, operands, operands), y, linear(*operands), jax.linear_transpose(linear, *operands)(y)

    assert_close(jax.jit(partial(both, ours))(), jax.jit(partial(both, theirs))())


def test_vmap_of_grad_of_vmap(operands: Any) -> None:
    x, w = operands
    xs, ws = jnp.stack([x, -x]), jnp.stack([w, 2 * w, w + 1])

    def both(f: Any) -> Any:
        inner = lambda x, ws: jnp.sum(jax.vmap(partial(loss, f), (None, 0))(x, ws))  # noqa: E731
        return jax.vmap(jax.grad(inner, (0, 1)), (0, None))(xs, ws)

    assert_close(jax.jit(partial(both, ours))(), jax.jit(partial(both, theirs))())


def test_vmap_over_no_elements(operands: Any) -> None:
    x, w = operands
    assert jax.vmap(ours, (0, None))(jnp.zeros((0, *x.shape)), w).shape[0] == 0


def test_remat_and_scan(operands: Any) -> None:
    x, w = operands

    def both(f: Any) -> Any:
        step = jax.checkpoint(lambda c, _: (c + 0.1 * jnp.mean(f(x + c, w)), jnp.mean(f(x, w) * c)))
        return jax.value_and_grad(lambda c: jnp.sum(lax.scan(step, c, length=3)[1]))(jnp.float32(0.5))

    assert_close(jax.jit(partial(both, ours))(), jax.jit(partial(both, theirs))())


@pytest.mark.parametrize("check", [True, False])
def test_shard_map(operands: Any, check: bool) -> None:
    x, w = operands
    mesh = jax.make_mesh((1,), ("batch",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec("batch")

    def both(f: Any) -> Any:
        local = jax.shard_map(
            lambda x, w: lax.psum(loss(f, x, w), "batch"),
            mesh=mesh,
            in_specs=(spec, PartitionSpec()),
            out_specs=PartitionSpec(),
            check_vma=check,
        )
        return jax.value_and_grad(local, (0, 1))(x, w)

    assert_close(jax.jit(partial(both, ours))(), jax.jit(partial(both, theirs))())


def test_explicit_sharding_goes_to_lax(operands: Any) -> None:
    x, w = operands
    mesh = jax.make_mesh((1,), ("batch",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        spread = jax.device_put(x, PartitionSpec("batch"))
        assert_close(ours(spread, w), theirs(spread, w))
        assert_close(jax.grad(partial(loss, ours), 1)(x, w), jax.grad(partial(loss, theirs), 1)(x, w))
        kwargs = {"out_sharding": PartitionSpec(None, None, None)}
        assert_close(ours(spread, w, **kwargs), theirs(spread, w, **kwargs))


def test_symbolic_shapes_export(operands: Any) -> None:
    x, w = operands
    (batch,) = jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype)
    exported = jax.export.export(jax.jit(lambda x: ours(x, w)))(shape)
    assert_close(exported.call(x), theirs(x, w))


def test_numpy_operands_and_eager_calls(operands: Any) -> None:
    x, w = operands
    assert_close(ours(np.asarray(x), np.asarray(w)), theirs(np.asarray(x), np.asarray(w)))


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 2), (0, 3))])
@pytest.mark.parametrize("transpose_kernel", [False, True])
def test_conv_transpose(padding: Any, transpose_kernel: bool) -> None:
    x, w = random_array((2, 5, 4, 3)), random_array((3, 2, 3, 3), seed=1)
    kwargs: dict[str, Any] = {"rhs_dilation": (1, 2), "transpose_kernel": transpose_kernel}
    got = hr.conv_transpose(x, w, (2, 3), padding, **kwargs)
    assert_close(got, lax.conv_transpose(x, w, (2, 3), padding, **kwargs))


def test_conv_transpose_consistent_padding_and_errors() -> None:
    x, w = random_array((2, 5, 3)), random_array((4, 3, 2), seed=1)
    kwargs: dict[str, Any] = {"padding": ((1, 0),), "use_consistent_padding": True}
    assert_close(hr.conv_transpose(x, w, (3,), **kwargs), lax.conv_transpose(x, w, (3,), **kwargs))
    with pytest.raises(AssertionError):
        hr.conv_transpose(x, w[0], (3,), "SAME")
