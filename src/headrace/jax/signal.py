"""stft and istft with the signatures of jax.scipy.signal, as convolutions where that is the faster way.

A short-time Fourier transform is a strided convolution with the windowed DFT basis, its inverse a transposed one. For
short segments that matrix product beats framing, FFT and overlap-add; for long ones jax.scipy's FFT wins and is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import signal as reference
from scipy.signal import get_window

from .convolution import conv_general_dilated

# Longest segment (samples) that goes through a convolution; measured, see docs/jax.md.
LONGEST_FORWARD = 256
LONGEST_INVERSE = 512


@dataclass(frozen=True, slots=True)
class _Frames:
    """Segments of a signal: their length, hop, transform length and window (one value a sample)."""

    size: int
    step: int
    transform: int
    window: np.ndarray

    @property
    def bins(self) -> int:
        """Frequencies of a one-sided transform."""
        return self.transform // 2 + 1

    def angles(self) -> np.ndarray:
        """[bins, size]: the phase of each bin at each sample; the product is reduced first, which keeps it exact."""
        turns = np.outer(np.arange(self.bins), np.arange(self.size)) % self.transform
        return 2 * np.pi / self.transform * turns

    def forward(self) -> np.ndarray:
        """[2 bins, 1, size]: real and imaginary rows of the windowed, scaled transform."""
        basis = np.concatenate([np.cos(self.angles()), -np.sin(self.angles())])
        return np.asarray(basis * self.window / self.window.sum())[:, None]

    def inverse(self) -> np.ndarray:
        """[2 bins, 1, size]: what each real and imaginary part adds to a segment."""
        weight = np.full((self.bins, 1), 2.0 / self.transform)
        weight[0] /= 2
        if self.transform % 2 == 0:
            weight[-1] /= 2
        basis = np.concatenate([weight * np.cos(self.angles()), -weight * np.sin(self.angles())])
        return np.asarray(basis * self.window * self.window.sum())[:, None]

    def overlap(self, count: int) -> np.ndarray:
        """Sum of the squared windows of `count` segments at each sample."""
        total = np.zeros((count - 1) * self.step + self.size)
        for i in range(count):
            total[i * self.step : i * self.step + self.size] += self.window**2
        return np.where(total > 1e-10, total, 1.0)


def _frames(window: Any, size: Any, noverlap: Any, transform: Any, longest: int) -> _Frames | None:
    """The segments, or None where jax.scipy's own code is called instead (also to raise its errors)."""
    overlap = size // 2 if noverlap is None and isinstance(size, int) else noverlap
    if not all(isinstance(n, int) for n in (size, overlap, transform)):
        return None
    if not (2 <= size <= min(longest, transform) and 0 <= overlap < size and transform <= 2 * size):
        return None
    if isinstance(window, (str, tuple)):
        values = np.asarray(get_window(window, size))
    elif isinstance(window, np.ndarray) and window.shape == (size,) and np.isrealobj(window):
        values = window.astype(np.float64)
    else:
        return None
    return _Frames(size, size - overlap, transform, values)


def _forward(
    x: jax.Array, frames: _Frames, fs: Any, extend: bool, padded: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Frequencies, times and the transform [..., segment, frequency] of signals [..., sample]."""
    outer, length = x.shape[:-1], x.shape[-1]
    edge = frames.size // 2 if extend else 0
    total = length + 2 * edge
    total += (-(total - frames.size) % frames.step) % frames.size if padded else 0
    count = (total - frames.size) // frames.step + 1
    rows = conv_general_dilated(
        x.reshape(prod(outer), 1, length),
        jnp.asarray(frames.forward(), x.dtype),
        (frames.step,),
        ((edge, (count - 1) * frames.step + frames.size - length - edge),),
        precision=lax.Precision.HIGHEST,
    )
    spectrum = lax.complex(rows[:, : frames.bins], rows[:, frames.bins :])
    spectrum = jnp.swapaxes(spectrum.reshape(*outer, frames.bins, count), -1, -2)
    freqs = jnp.fft.rfftfreq(frames.transform, 1 / fs, dtype=x.dtype)
    times = jnp.arange(frames.size / 2, total - frames.size / 2 + 1, frames.step, dtype=x.dtype) / fs
    if extend:
        times -= (frames.size / 2) / fs
    return freqs, times, spectrum


def _inverse(spectrum: jax.Array, frames: _Frames, extended: bool) -> jax.Array:
    """Signals [..., sample] of transforms [..., frequency, segment]."""
    outer, count = spectrum.shape[:-2], spectrum.shape[-1]
    real = jnp.real(spectrum).dtype
    rows = jnp.concatenate([jnp.real(spectrum), jnp.imag(spectrum)], axis=-2).astype(real)
    signal = conv_general_dilated(
        rows.reshape(prod(outer), 2 * frames.bins, count),
        jnp.asarray(frames.inverse()[:, :, ::-1], real),
        (1,),
        ((frames.size - 1, frames.size - 1),),
        lhs_dilation=(frames.step,),
        dimension_numbers=("NCH", "IOH", "NCH"),
        precision=lax.Precision.HIGHEST,
    ).reshape(*outer, -1)
    signal = signal / jnp.asarray(frames.overlap(count), real)
    if extended:
        half = frames.size // 2
        signal = signal[..., half:-half]
    return signal


def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`jax.scipy.signal.stft`: frequencies, times and the transform, with its shapes, dtypes and errors.

    Floating-point input in segments of at most 256 samples, without detrending and with a "zeros" or no boundary, is
    a strided convolution; anything else is computed by jax.scipy.signal.
    """
    x = jnp.asarray(x)
    frames = _frames(window, nperseg, noverlap, nperseg if nfft is None else nfft, LONGEST_FORWARD)
    plain = detrend is False and boundary in ("zeros", None) and return_onesided and x.ndim > 0 and x.size > 0
    real = x.dtype in (jnp.float32, jnp.float64)
    if frames is None or not plain or not real or not -x.ndim <= axis < x.ndim or x.shape[axis] < frames.size:
        return reference.stft(x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, boundary, padded, axis)
    freqs, times, spectrum = _forward(jnp.moveaxis(x, axis, -1), frames, fs, boundary is not None, padded)
    return freqs, times, jnp.moveaxis(spectrum, -1, axis % x.ndim)


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[jax.Array, jax.Array]:
    """`jax.scipy.signal.istft`: times and the signal, with its shapes, dtypes and errors.

    A one-sided transform of segments of at most 512 samples is inverted by one transposed convolution; anything else
    by jax.scipy.signal.
    """
    Zxx = jnp.asarray(Zxx)
    rank = Zxx.ndim
    valid = rank >= 2 and -rank <= time_axis < rank and -rank <= freq_axis < rank
    frames = None
    if valid and time_axis % rank != freq_axis % rank and Zxx.size and input_onesided:
        default = 2 * (Zxx.shape[freq_axis] - 1)
        frames = _frames(window, nperseg or default, noverlap or None, nfft or default, LONGEST_INVERSE)
    if frames is None or frames.bins != Zxx.shape[freq_axis]:
        return reference.istft(Zxx, fs, window, nperseg, noverlap, nfft, input_onesided, boundary, time_axis, freq_axis)
    time_axis, freq_axis = time_axis % rank, freq_axis % rank
    signal = _inverse(jnp.moveaxis(Zxx, (freq_axis, time_axis), (-2, -1)), frames, boundary)
    if signal.ndim > 1 and time_axis != rank - 1:
        signal = jnp.moveaxis(signal, -1, time_axis - (freq_axis < time_axis))
    return jnp.arange(signal.shape[0], dtype=signal.dtype) / fs, signal
