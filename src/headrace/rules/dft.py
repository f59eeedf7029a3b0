"""Recognise a windowed DFT basis from its numbers.

A constant weight of an STFT (Conv, MatMul) or inverse STFT (ConvTranspose, MatMul) is, row by row,

    W[r, k] = window[k] · Re(coefficient[r] · exp(2πi · bin[r] · k / n)),

whatever the order of the bins, the scale, the phase convention and the window are. `recognise` solves for all of them
by least squares and accepts only if the weight rebuilt from the solution agrees within `tolerance`.

The window comes first: over a complete set of real and imaginary rows the squares of a column add up to a multiple of
window². The bin of a row is where the transform of row·window peaks, since window² has no negative value; scale and
phase follow from the 2×2 normal equations, whose entries are values of that transform and of the transform of window².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.fft

SMALLEST = 16  # shorter transforms are dense in every form
UNITS = 4  # of rounding, of the dtype in which the weight is stored
CONCENTRATED = 0.7  # share of a basis row's energy near its peak, whatever the window
FAR = 0.2  # a probe row that misses by this share of its energy is no basis row at all
ROUNDS = 40  # of fitting rows and window in turn; real parts alone need many, a full set one
STALLED = 0.9  # a round that leaves more of the error than this is the last
ROWS_AT_ONCE = 256

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DftBasis:
    """A weight [rows, taps] as a DFT: W[r, k] = window[k] · Re(coefficients[r] · exp(2πi · bins[r] · k / n))."""

    n: int  # transform length
    window: Floats  # [taps]
    bins: npt.NDArray[np.int64]  # [rows], 0 … n // 2
    coefficients: npt.NDArray[np.complex128]  # [rows]; 0 for a row of zeros
    error: float  # largest deviation of the rebuilt weight, over the largest weight


@dataclass(frozen=True, slots=True)
class NotDft:
    """Why a weight is not taken for a DFT; `error` is what the best candidate missed by, when there was one."""

    reason: str
    error: float | None = None


def rounding_tolerance(dtype: np.dtype) -> float:
    """Largest relative deviation that rounding in `dtype` explains: 4 units, where a unit is half the spacing at 1."""
    return UNITS * float(np.finfo(dtype).eps) / 2 if dtype.kind == "f" else 1e-12


def plausible(weight: np.ndarray) -> bool:
    """A cheap first look at `weight` [rows, taps]: are a few of its rows concentrated around one frequency each?"""
    rows, taps = weight.shape
    if min(taps, rows) < SMALLEST // 2 or max(taps, rows) < SMALLEST:
        return False
    alive = 0
    for place in (0.2, 0.37, 0.55, 0.8):
        row = np.asarray(weight[int(place * rows)], np.float64)
        energy = np.abs(scipy.fft.rfft(row)) ** 2
        total = float(energy.sum())
        if total == 0:
            continue
        peak = int(energy.argmax())
        if not np.isfinite(total) or energy[max(peak - 5, 0) : peak + 6].sum() < CONCENTRATED * total:
            return False
        alive += 1
    return alive > 0


def recognise(weight: np.ndarray, stored: np.dtype | None = None, tolerance: float | None = None) -> DftBasis | NotDft:
    """Is `weight` [rows, taps] a windowed DFT basis?

    Args:
        weight: any float dtype, one basis function a row.
        stored: the dtype in which the model stores it (float16 weights that a Cast widens); default the weight's own.
        tolerance: largest accepted deviation over the largest weight; default 4 units of rounding of `stored`.
    """
    rows, taps = weight.shape
    if min(taps, rows) < SMALLEST // 2 or max(taps, rows) < SMALLEST:
        return NotDft("too small to gain from an FFT")
    if np.isfinite(weight).all() and not plausible(weight):
        return NotDft("its rows are no windowed sines and cosines")
    limit = rounding_tolerance(np.dtype(stored or weight.dtype)) if tolerance is None else tolerance
    peak = float(np.abs(weight).max())
    if not np.isfinite(peak) or peak == 0:
        return NotDft("the weight holds NaN or infinity" if peak else "the weight is all zeros")
    scaled = weight.astype(np.float64) / peak
    window = np.sqrt(np.einsum("rk,rk->k", scaled, scaled))
    best: NotDft = NotDft("its rows are no windowed sines and cosines")
    for n in _lengths(rows, taps):
        result = _solve(scaled, window, n, limit)
        if isinstance(result, DftBasis):
            return DftBasis(result.n, result.window * peak, result.bins, result.coefficients, result.error)
        if result.error is not None and (best.error is None or result.error < best.error):
            best = result
    return best


def _lengths(rows: int, taps: int) -> list[int]:
    """Transform lengths that a weight of this size can have: one part or both, one- or two-sided, some bins."""
    guesses = [
        taps,
        rows - 2,
        rows - 1,
        rows,
        2 * (rows - 1),
        2 * rows - 1,
        2 * rows,
        rows // 2,
        1 << (taps - 1).bit_length(),
    ]
    return [n for n in dict.fromkeys(guesses) if n >= SMALLEST and n <= 16 * taps]


def _solve(weight: Floats, window: Floats, n: int, limit: float) -> DftBasis | NotDft:
    if _probe(weight, window, n) > FAR:
        return NotDft("its rows are no windowed sines and cosines")
    error = best = np.inf
    for _ in range(ROUNDS):
        bins, coefficients = _fit_rows(weight, window, n)
        coefficients = _snap(coefficients, limit)
        before, error = error, _rebuild_error(weight, window, n, bins, coefficients, limit)
        if error <= limit:
            return DftBasis(n, window, bins, coefficients, error)
        best = min(best, error)
        if error > STALLED * before:
            break
        window = _fit_window(weight, window, n, bins, coefficients)
    return NotDft(
        f"it is a DFT of length {n} only to within {best:.1e} of its largest weight, and its dtype explains "
        f"{limit:.1e}: raise dft_tolerance to accept it",
        best,
    )


def _probe(weight: Floats, window: Floats, n: int) -> float:
    """Worst share of energy that a few rows leave unexplained."""
    energy = np.einsum("rk,rk->r", weight, weight)
    alive = np.flatnonzero(energy > 1e-6 * energy.max())
    rows = weight[alive[np.linspace(0, len(alive) - 1, 5).astype(int)]]
    bins, coefficients = _fit_rows(rows, window, n)
    rest = rows - _rebuild(window, n, bins, coefficients)
    return float((np.einsum("rk,rk->r", rest, rest) / np.einsum("rk,rk->r", rows, rows)).max())


def _folded(rows: Floats, n: int) -> Floats:
    """Rows longer than the transform wrapped onto it, shorter ones filled with zeros."""
    taps = rows.shape[-1]
    padded = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -taps % n)])
    folded: Floats = padded.reshape(*rows.shape[:-1], -1, n).sum(axis=-2)
    return folded


def _fit_rows(weight: Floats, window: Floats, n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.complex128]]:
    """Bin and coefficient of every row, for a known window."""
    power = scipy.fft.fft(_folded(window**2, n))
    bins = np.zeros(len(weight), np.int64)
    coefficients = np.zeros(len(weight), np.complex128)
    for start in range(0, len(weight), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        spectrum = scipy.fft.rfft(_folded(weight[part] * window, n), axis=1)
        bins[part], coefficients[part] = _best_bins(spectrum, power, n)
    return bins, coefficients


def _best_bins(
    spectrum: npt.NDArray[np.complex128], power: npt.NDArray[np.complex128], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Near the peak of each row's spectrum, the bin whose sine and cosine explain most of the row."""
    peak = np.abs(spectrum).argmax(axis=1)
    rows = np.arange(len(spectrum))
    chosen, coefficient, explained = peak.copy(), np.zeros(len(peak), complex), np.full(len(peak), -1.0)
    for shift in (0, -1, 1, -2, 2):
        bins = np.clip(peak + shift, 0, n // 2)
        value, energy = _least_squares(
            spectrum[rows, bins], power[0].real, power[2 * bins % n], (bins == 0) | (2 * bins == n)
        )
        better = energy > explained * (1 + 1e-9)
        chosen[better], coefficient[better], explained[better] = bins[better], value[better], energy[better]
    return chosen, coefficient


def _least_squares(
    inner: np.ndarray, total: float, double: np.ndarray, edge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficient c with row ≈ window·Re(c·e^{iθk}), and the energy it explains.

    `inner` is Σ row·window·e^{-iθk}; the Gram matrix of window·cos and window·sin has the entries
    (total ± Re double)/2 and -Im double/2, with double = Σ window²·e^{-2iθk}. At bin 0 and n/2 there is no sine.
    """
    a, b = inner.real, -inner.imag  # inner products with window·cos and window·sin
    cc, ss, cs = (total + double.real) / 2, (total - double.real) / 2, -double.imag / 2
    det = cc * ss - cs * cs
    single = edge | (det < 1e-12 * total * total)
    safe = np.where(single, 1.0, det)
    alpha = np.where(single, a / np.where(cc > 0, cc, 1.0), (ss * a - cs * b) / safe)
    beta = np.where(single, 0.0, (cc * b - cs * a) / safe)
    return alpha - 1j * beta, alpha * a + beta * b


def _snap(coefficients: npt.NDArray[np.complex128], limit: float) -> npt.NDArray[np.complex128]:
    """Parts that are rounding noise become zeros, so that plain cosine and sine rows are told from mixed ones."""
    floor = 0.25 * limit * np.abs(coefficients).max()
    real = np.where(np.abs(coefficients.real) <= floor, 0.0, coefficients.real)
    imag = np.where(np.abs(coefficients.imag) <= floor, 0.0, coefficients.imag)
    snapped: npt.NDArray[np.complex128] = real + 1j * imag
    return snapped


def _rebuild(window: Floats, n: int, bins: np.ndarray, coefficients: np.ndarray) -> Floats:
    """Rows [rows, taps] of the basis, exact to float64: the angle is looked up, never multiplied out."""
    angles = np.exp(2j * np.pi * np.arange(n) / n)
    basis = angles[bins[:, None] * np.arange(len(window))[None] % n]
    rows: Floats = (coefficients.real[:, None] * basis.real - coefficients.imag[:, None] * basis.imag) * window
    return rows


def _rebuild_error(
    weight: Floats, window: Floats, n: int, bins: np.ndarray, coefficients: np.ndarray, limit: float
) -> float:
    worst = 0.0
    for start in range(0, len(weight), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        rebuilt = _rebuild(window, n, bins[part], coefficients[part])
        worst = max(worst, float(np.abs(rebuilt - weight[part]).max()))
        if worst > 0.1 > limit:
            break
    return worst


def _fit_window(weight: Floats, window: Floats, n: int, bins: np.ndarray, coefficients: np.ndarray) -> Floats:
    """The window that explains the weight best, for known bins and coefficients; may be negative."""
    above, below = np.zeros_like(window), np.zeros_like(window)
    for start in range(0, len(weight), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        unit = _rebuild(np.ones_like(window), n, bins[part], coefficients[part])
        above += np.einsum("rk,rk->k", weight[part], unit)
        below += np.einsum("rk,rk->k", unit, unit)
    seen = below > 1e-9 * below.max()
    return np.where(seen, above / np.where(seen, below, 1.0), window)
