"""A recognised DFT basis as an FFT over blocks of frames: rows to a spectrum and to samples, and the other way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft

from ...rules.dft import DftBasis

BLOCK_SAMPLES = 1 << 19  # of a block of frames: its spectrum and samples stay in the second-level cache

Array = npt.NDArray[Any]
Index = slice | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """Rows of which no two have the same bin: `rows[i]` carries `real[i]` + i·`imag[i]` times bin `bins[i]`.

    A real transform sums every bin but 0 and n/2 twice, as itself and as its mirror: `half_real` and `half_imag` are
    the coefficients for the way back. A part that is zero everywhere is None.
    """

    rows: Index
    bins: Index
    real: Array | None
    imag: Array | None
    half_real: Array | None
    half_imag: Array | None


def slots(basis: DftBasis, dtype: np.dtype) -> tuple[Slot, ...]:
    """Rows in layers: real rows apart from imaginary ones, each bin at most once a layer."""
    kinds = (basis.coefficients.real != 0) * 1 + (basis.coefficients.imag != 0) * 2
    found: list[Slot] = []
    for kind in (1, 2, 3):
        left = np.flatnonzero(kinds == kind)
        while len(left):
            _, first = np.unique(basis.bins[left], return_index=True)
            layer = left[np.sort(first)]
            found.append(_slot(basis, layer, dtype))
            left = np.setdiff1d(left, layer)
    return tuple(found)


def _slot(basis: DftBasis, rows: npt.NDArray[np.int64], dtype: np.dtype) -> Slot:
    coefficients, bins = basis.coefficients[rows], basis.bins[rows]
    edge = (bins == 0) | (2 * bins == basis.n)
    parts = [
        values.astype(dtype) if np.any(values) else None
        for whole in (coefficients, np.where(edge, coefficients, coefficients / 2))
        for values in (whole.real, whole.imag)
    ]
    return Slot(_as_slice(rows), _as_slice(bins), *parts)


def _as_slice(index: npt.NDArray[np.int64]) -> Index:
    """A run of consecutive numbers as a slice, so that numpy takes a view instead of a copy."""
    if len(index) and np.array_equal(index, np.arange(index[0], index[0] + len(index))):
        return slice(int(index[0]), int(index[0]) + len(index))
    return index


@dataclass(frozen=True, slots=True, eq=False)
class Transform:
    """One basis, ready for float32 (or float64) frames. The rows are the last axis of all that it takes and gives."""

    n: int
    taps: int
    rows: int
    window: Array  # [taps]
    slots: tuple[Slot, ...]
    complex_dtype: np.dtype

    @classmethod
    def of(cls, basis: DftBasis, dtype: np.dtype) -> Transform:
        """`basis` for frames of `dtype`."""
        complex_dtype = np.result_type(dtype, np.complex64)
        return cls(
            basis.n, len(basis.window), len(basis.bins), basis.window.astype(dtype), slots(basis, dtype), complex_dtype
        )

    @property
    def block(self) -> int:
        """Frames to transform at a time."""
        return max(BLOCK_SAMPLES // max(self.n, self.taps), 16)

    def synthesise(self, rows: Array) -> Array:
        """[..., rows, frames] -> [..., frames, taps]: the product with the weight, by an inverse real FFT."""
        spectrum = np.empty((*rows.shape[:-2], self.n // 2 + 1, rows.shape[-1]), self.complex_dtype)
        parts = (spectrum.real, spectrum.imag)
        filled = [False, False]
        for slot in self.slots:
            for i, half in enumerate((slot.half_real, slot.half_imag)):
                if half is not None:
                    self._place(parts[i], slot, rows, half, filled[i])
                    filled[i] = True
        for part, done in zip(parts, filled, strict=True):
            if not done:
                part[...] = 0
        samples = scipy.fft.irfft(spectrum.swapaxes(-1, -2), self.n, axis=-1, norm="forward")
        tiled = self._tiled(samples)
        tiled *= self.window
        return tiled

    def _place(self, part: Array, slot: Slot, rows: Array, half: Array, add: bool) -> None:
        """Rows times their coefficients, into the real or the imaginary part of their bins."""
        values = rows[..., slot.rows, :]
        if add:
            part[..., slot.bins, :] += values * half[:, None]
        elif isinstance(slot.bins, slice):
            part[..., : slot.bins.start, :] = 0
            part[..., slot.bins.stop :, :] = 0
            np.multiply(values, half[:, None], out=part[..., slot.bins, :])
        else:
            part[...] = 0
            part[..., slot.bins, :] = values * half[:, None]

    def analyse(self, frames: Array, out: Array) -> None:
        """[frames, taps] -> out [frames, rows]: the product with the transposed weight, by a real FFT."""
        spectrum = scipy.fft.rfft(self._folded(frames * self.window), self.n, axis=1, overwrite_x=True)
        if sum(_length(slot.rows) for slot in self.slots) < self.rows:
            out[...] = 0
        for slot in self.slots:
            part = spectrum[:, slot.bins]
            if slot.imag is None:
                out[:, slot.rows] = part.real * slot.real
            elif slot.real is None:
                out[:, slot.rows] = part.imag * slot.imag
            else:
                out[:, slot.rows] = part.real * slot.real + part.imag * slot.imag

    def _tiled(self, samples: Array) -> Array:
        if self.taps > self.n:
            repeats = (1,) * (samples.ndim - 1) + (-(-self.taps // self.n),)
            return np.tile(samples, repeats)[..., : self.taps]
        return samples[..., : self.taps]

    def _folded(self, frames: Array) -> Array:
        if self.taps <= self.n:
            return frames  # rfft fills with zeros
        padded = np.pad(frames, ((0, 0), (0, -self.taps % self.n)))
        folded: Array = padded.reshape(len(frames), -1, self.n).sum(axis=1, dtype=frames.dtype)
        return folded


def _length(index: Index) -> int:
    return index.stop - index.start if isinstance(index, slice) else len(index)
