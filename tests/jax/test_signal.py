"""stft and istft against jax.scipy.signal, through the convolution and around it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import signal as reference
from jax_helpers import assert_close, random_array

import headrace.jax as hr

FORWARD: list[dict[str, Any]] = [
    {"nperseg": 32},
    {"nperseg": 30, "noverlap": 20, "fs": 16000.0, "window": "hamming"},
    {"nperseg": 31, "nfft": 40, "boundary": None},
    {"nperseg": 16, "noverlap": 0, "padded": False, "window": ("tukey", 0.25)},
    {"nperseg": 16, "axis": 0},
    {"nperseg": 16, "return_onesided": False},
    {"nperseg": 16, "boundary": "even"},
    {"nperseg": 16, "detrend": "constant"},
]


@pytest.mark.parametrize("keywords", FORWARD, ids=str)
def test_stft(keywords: dict[str, Any]) -> None:
    x = random_array((150, 3) if keywords.get("axis") == 0 else (2, 3, 150))
    got, want = hr.stft(x, **keywords), reference.stft(x, **keywords)
    assert_close(got[2], want[2])
    assert_close(got[:2], want[:2])


INVERSE: list[dict[str, Any]] = [
    {},
    {"nperseg": 32, "noverlap": 24, "fs": 16000.0},
    {"boundary": False, "window": "hamming"},
    {"nperseg": 31},
    {"time_axis": 0, "freq_axis": 2},
    {"time_axis": 1, "freq_axis": 0},
    {"input_onesided": False},
]


@pytest.mark.parametrize("keywords", INVERSE, ids=str)
def test_istft(keywords: dict[str, Any]) -> None:
    shape = {(0, 2): (9, 2, 17), (1, 0): (17, 9, 2)}.get(
        (keywords.get("time_axis"), keywords.get("freq_axis")), (2, 17, 9)
    )
    z = random_array(shape, "complex64")
    assert_close(hr.istft(z, **keywords), reference.istft(z, **keywords))


def test_there_and_back_and_gradients() -> None:
    x = random_array((2, 300))
    z = hr.stft(x, nperseg=64)[2]
    back = hr.istft(z, nperseg=64)[1]
    assert_close(back[:, :300], x)

    def energy(module: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.abs(module.stft(x, nperseg=64, window=np.hanning(64).astype("float32"))[2]) ** 3)

    assert_close(jax.grad(lambda x: energy(hr, x))(x), jax.grad(lambda x: energy(reference, x))(x))


def test_short_segments_are_convolutions() -> None:
    x = random_array((400,))
    assert "headrace_conv" in str(jax.make_jaxpr(lambda x: hr.stft(x, nperseg=64)[2])(x))
    assert "headrace_conv" not in str(jax.make_jaxpr(lambda x: hr.stft(x, nperseg=300)[2])(x))


def test_float64() -> None:
    with jax.enable_x64(True):
        x = random_array((300,), "float64")
        z = reference.stft(x, nperseg=32)[2]
        assert_close(hr.stft(x, nperseg=32), reference.stft(x, nperseg=32))
        assert_close(hr.istft(z), reference.istft(z))


@pytest.mark.parametrize(
    "keywords", [{"nperseg": 16, "noverlap": 16}, {"nperseg": 16, "nfft": 8}, {"boundary": "odd one"}]
)
def test_errors_are_those_of_jax(keywords: dict[str, Any]) -> None:
    x = random_array((100,))
    with pytest.raises(ValueError) as want:
        reference.stft(x, **keywords)
    with pytest.raises(ValueError) as got:
        hr.stft(x, **keywords)
    assert str(got.value) == str(want.value)
    with pytest.raises(ValueError, match="2d"):
        hr.istft(x)
