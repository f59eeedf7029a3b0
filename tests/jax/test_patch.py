"""patch(): layers of flax, equinox and haiku, every way out of a block, and the script of the report."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax_helpers import assert_close, random_array

import headrace.jax as hr

NAMES = ("conv_general_dilated", "conv_transpose", "conv", "conv_with_general_padding")
ORIGINALS = {name: getattr(lax, name) for name in NAMES}


def restored() -> bool:
    return all(getattr(lax, name) is ORIGINALS[name] for name in NAMES)


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    assert restored()
    yield
    assert restored()


def uses_headrace(function: Any, *args: Any) -> bool:
    return "headrace_conv" in str(jax.make_jaxpr(function)(*args))


def check_layer(apply: Any, x: jax.Array) -> None:
    """`apply` gives the same values and gradient under patch(), through this package."""
    f = lambda x: jnp.sum(jnp.sin(apply(x)))  # noqa: E731
    want = apply(x), jax.grad(f)(x)
    with hr.patch():
        assert uses_headrace(lambda x: apply(x), x)
        assert_close((apply(x), jax.grad(lambda x: f(x))(x)), want)
    assert not uses_headrace(lambda x: apply(x), x)


@pytest.mark.slow
def test_flax_nnx_layer() -> None:
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    layer = nnx.ConvTranspose(3, 4, kernel_size=(5,), strides=(2,), rngs=nnx.Rngs(0))
    check_layer(layer, random_array((2, 6, 3)))


@pytest.mark.slow
def test_flax_linen_layer() -> None:
    linen = pytest.importorskip("flax.linen", reason="flax is not installed")
    layer = linen.ConvTranspose(4, (5, 3), strides=(2, 3), padding="VALID")
    x = random_array((2, 6, 5, 3))
    variables = layer.init(jax.random.key(0), x)
    check_layer(lambda x: layer.apply(variables, x), x)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2])
def test_equinox_layer(groups: int) -> None:
    equinox = pytest.importorskip("equinox", reason="equinox is not installed")
    layer = equinox.nn.ConvTranspose2d(
        4, 2, 3, stride=2, padding=1, output_padding=1, groups=groups, key=jax.random.key(0)
    )
    check_layer(layer, random_array((4, 5, 6)))
    xs = random_array((3, 4, 5, 6))
    with hr.patch():
        got = jax.vmap(layer)(xs)
    assert_close(got, jax.vmap(layer)(xs))


@pytest.mark.slow
def test_haiku_layer() -> None:
    haiku = pytest.importorskip("haiku", reason="dm-haiku is not installed")
    model = haiku.without_apply_rng(haiku.transform(lambda x: haiku.Conv1DTranspose(4, 5, stride=3)(x)))
    x = random_array((2, 6, 3))
    parameters = model.init(jax.random.key(0), x)
    check_layer(lambda x: model.apply(parameters, x), x)


def test_names_replaced_and_nested_blocks() -> None:
    with hr.patch():
        assert lax.conv_general_dilated is hr.conv_general_dilated
        assert lax.conv_transpose is hr.conv_transpose
        with hr.patch():
            assert lax.conv_general_dilated is hr.conv_general_dilated
        assert lax.conv_general_dilated is hr.conv_general_dilated
        x, w = random_array((1, 2, 9)), random_array((3, 2, 4), seed=1)
        got = lax.conv(x, w, (2,), "SAME"), lax.conv_with_general_padding(x, w, (1,), ((2, 3),), (3,), (2,))
    want = lax.conv(x, w, (2,), "SAME"), lax.conv_with_general_padding(x, w, (1,), ((2, 3),), (3,), (2,))
    assert_close(got, want)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_undone_after_exceptions(kind: type[BaseException]) -> None:
    with pytest.raises(kind), hr.patch(), hr.patch():
        raise kind


def test_one_object_entered_twice_and_decorator_that_recurses() -> None:
    block = hr.patch()
    with block, block:
        assert not restored()

    @hr.patch()
    def countdown(n: int) -> int:
        assert not restored()
        return n if n == 0 else countdown(n - 1)

    assert countdown(3) == 0
    assert countdown.__name__ == "countdown"


def test_decorator_undoes_after_an_exception() -> None:
    @hr.patch()
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()


def test_a_block_inside_a_generator_ends_with_it() -> None:
    def generate() -> Iterator[int]:
        with hr.patch():
            yield 1
            yield 2

    generator = generate()
    assert next(generator) == 1
    assert not restored()
    generator.close()
    assert restored()
    with pytest.raises(TypeError, match="generator"):
        hr.patch()(generate)


def test_out_of_order_and_unentered_exits() -> None:
    first, second = hr.patch(), hr.patch()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not restored()
    second.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="without being entered"):
        second.__exit__(None, None, None)


def test_many_threads_leave_nothing_behind() -> None:
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            with hr.patch():
                assert lax.conv_general_dilated is hr.conv_general_dilated

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert restored()


REPORTED = """
sz = 256
hp = sz//4
dev = 'cpu'

def block( y):
    if type( y) == type( jax.numpy.array([])):
        y.block_until_ready()

def time_it( f):
    from time import time

    for _ in range( 3):
        y = f()
    block( y)

    c = 0
    t0 = time()
    while time()-t0 < 5:
        y += f()
        c += 1
    block( y)
    results.append( y)

@partial( jax.jit, backend=dev)
def jconvf( x, F):
    return jax.lax.conv_general_dilated( lhs=x, rhs=F,
        window_strides=(hp,), padding=((sz,sz),),
        dimension_numbers=('NCT','OIT','NCT'))

@partial( jax.jit, backend=dev)
def jconvt( f, F):
    return jax.lax.conv_general_dilated( lhs=f, rhs=F,
        window_strides=(1,), lhs_dilation=(hp,), padding=((sz-1,sz-1),),
        dimension_numbers=('NCT','IOT','NCT'))

x = jax.numpy.ones( (16, 1, sz*100))
F = jax.numpy.ones( (sz//2+1, 1, sz))
time_it( lambda: jconvf( x, F))

f = jax.numpy.ones( (16, sz//2+1, sz*100//hp))
time_it( lambda: jconvt( f, F))
"""


@pytest.mark.filterwarnings("ignore:backend and device argument:DeprecationWarning")
def test_the_script_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as it was posted (its timing loop sees a clock that leaps), its inputs of ones and jit(backend=) included."""

    def run() -> list[jax.Array]:
        clock = iter(range(0, 10_000, 3))
        monkeypatch.setattr(time, "time", lambda: next(clock))
        scope: dict[str, Any] = {"jax": jax, "partial": partial, "results": []}
        exec(REPORTED, scope)
        monkeypatch.undo()
        return scope["results"]

    with hr.patch():
        got = run()
    assert_close(got, run())
