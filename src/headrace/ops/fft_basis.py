"""Weights that are a DFT basis: STFT as Conv, inverse STFT as ConvTranspose, MatMul with a DFT matrix, as FFTs.

The recogniser (rules/dft.py) gives row r of a weight as window[k] * Re(coefficients[r] * e^(2 pi i bins[r] k / n)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..dtypes import Array
from ..kernels.expr import Coords, Fill, Map, Stored, Tensor, View, reshaped, transposed
from ..rules.dft import DftBasis, recognise
from .fft import FLOAT, OverlapAdd, Parts, analyse, columns, folded, framed, pays, rows_at, synthesise
from .registry import Call, remembered

LAYERS = 4  # rows that may share a bin and a part; more stay dense


def basis_of(call: Call, i: int, side: str, dense_flops: float, rows: Array) -> DftBasis | None:
    """`rows` [rows, taps] of constant input `i` as a DFT basis, if it is one that pays; looked at once a weight."""
    value = call.known(i)
    name = call.name_of(value) if value is not None else None
    if name is None or rows.dtype.kind != "f" or min(rows.shape) < 8 or not pays(min(rows.shape), dense_flops):
        return None
    found = remembered(call, f"{name}|dft {side}", lambda: recognise(rows, _stored(rows), call.target.dft_tolerance))
    if not isinstance(found, DftBasis):
        if found.error is not None:
            call.note(f"no FFT for this weight: {found.reason}", refused=True)
        return None
    if not pays(found.n, dense_flops):
        call.note(f"a DFT of length {found.n}, kept dense: too short to pay", refused=True)
        return None
    return found


def _stored(rows: Array) -> np.dtype:
    """The narrowest dtype that holds the weight: float16 where a Cast has widened it."""
    with np.errstate(over="ignore"):
        half = rows.dtype.itemsize > 2 and np.array_equal(rows, rows.astype(np.float16).astype(rows.dtype))
    return np.dtype(np.float16) if half else rows.dtype


def line_of(kernel: Sequence[int], inside: Sequence[int]) -> int | None:
    """The one spatial axis along which everything lies, the others being of size 1 in kernel and input; else None."""
    long = [i for i, k in enumerate(kernel) if k > 1]
    alone = len(long) == 1 and all(n == 1 for i, n in enumerate(inside) if i != long[0])
    return long[0] if alone else None


def _window(call: Call, basis: DftBasis, count: int) -> Tensor:
    return columns(call, basis.window[None], (len(basis.window), count))[0]


def analysed(call: Call, frames: Tensor, basis: DftBasis) -> Tensor:
    """Frames [taps, count] times the basis: [rows, count]."""
    product = Map("{0} * {1}", [frames, _window(call, basis, frames.shape[1])], FLOAT, call.node)
    return analyse(call, folded(call, product, basis.n), basis.n, basis.bins, basis.coefficients)


def synthesised(call: Call, rows: Tensor, basis: DftBasis) -> Tensor | None:
    """Rows [rows, count] times the basis, without its window: [n, count]. None if too many rows share a bin."""
    inner = np.where((basis.bins == 0) | (2 * basis.bins == basis.n), 1.0, 0.5)
    c = basis.coefficients
    parts = [_part(call, rows, basis, v * inner, i == 1) for i, v in enumerate((c.real, c.imag))]
    if parts[0] is None or parts[1] is None:
        return None
    return synthesise(call, Parts(parts[0], parts[1]), basis.n)


def _part(call: Call, rows: Tensor, basis: DftBasis, scale: npt.NDArray[np.float64], imaginary: bool) -> Tensor | None:
    """One part of the spectrum [n // 2 + 1, count]: for each bin, the rows that carry it times their coefficients."""
    shape = (basis.n // 2 + 1, rows.shape[1])
    layers: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
    left = np.flatnonzero(scale)
    while len(left):
        _, first = np.unique(basis.bins[left], return_index=True)
        index, factor = np.full(shape[0], -1), np.zeros(shape[0])
        index[basis.bins[left[first]]], factor[basis.bins[left[first]]] = left[first], scale[left[first]]
        layers.append((_filled(index, rows.shape[0]), _at_edges(factor, basis.n) if imaginary else factor))
        left = np.delete(left, first)
    if len(layers) > LAYERS:
        return None
    if not layers:
        return Fill(0, shape, FLOAT)
    taken = rows_at(call, [rows] * len(layers), [i for i, _ in layers])
    scales = columns(call, np.stack([f for _, f in layers]), shape)
    text = " + ".join(f"{{{i}}} * {{{i + len(layers)}}}" for i in range(len(layers)))
    total = Map(text, [*taken, *scales], FLOAT, call.node, 2 * len(layers))
    return Stored(total, call.node) if len(layers) > 1 else total


def _at_edges(factor: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.float64]:
    """Factors of imaginary parts, which count for nothing in the first and the last bin: the neighbours' there, so that
    equal factors are one number."""
    factor[0] = factor[1]
    if n % 2 == 0:
        factor[-1] = factor[-2]
    return factor


def _filled(index: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """An index for bins that no row carries (their factor is 0): the neighbour's next, so that a run stays one."""
    known = np.flatnonzero(index >= 0)
    run: npt.NDArray[np.int64] = index[known[0]] + np.arange(len(index)) - known[0]
    if (run[known] == index[known]).all() and run[0] >= 0 and run[-1] < rows:
        return run
    clipped: npt.NDArray[np.int64] = np.maximum(index, 0)
    return clipped


def inverse_stft(
    call: Call, x: Tensor, sizes: Sequence[int], pads: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Tensor | None:
    """ConvTranspose by an inverse DFT basis: FFT and overlap-add. None where it is no such thing or does not pay."""
    w = call.known(1)
    if w is None or w.shape[1] != 1 or call.attr("group", 1) != 1:
        return None
    axis = line_of(w.shape[2:], x.shape[2:])
    if axis is None or dilations[axis] != 1 or any(n != 1 or p for i, (n, p) in _others(sizes, pads, axis)):
        return None
    rows, taps, frames = w.shape[0], w.shape[2 + axis], x.shape[2 + axis]
    basis = basis_of(call, 1, "rows", 2.0 * rows * taps, w.reshape(rows, taps))
    if basis is None:
        return None
    batch = x.shape[0]
    flat = reshaped(x, (batch, rows, frames), call.node)
    across = reshaped(transposed(flat, (1, 0, 2), call.node), (rows, batch * frames), call.node)
    samples = synthesised(call, across, basis)
    if samples is None:
        return None
    call.note(f"inverse STFT: {call.op_type} is an inverse DFT of length {basis.n} with overlap-add, run as an FFT")
    kind = OverlapAdd(batch, frames, basis.n, taps, strides[axis], pads[axis], sizes[axis])
    window = call.lift(basis.window.astype(np.float32), call.node)
    y = call.heavy(kind, [samples, window], (batch, sizes[axis]), FLOAT)
    return _typed(reshaped(y, (batch, 1, *sizes), call.node), x)


def _others(sizes: Sequence[int], pads: Sequence[int], axis: int) -> list[tuple[int, tuple[int, int]]]:
    return [(i, p) for i, p in enumerate(zip(sizes, pads, strict=True)) if i != axis]


def _typed(y: Tensor, x: Tensor) -> Tensor:
    return y if x.dtype == FLOAT else Map("{0}", [y], x.dtype, y.node, 0)


def forward_stft(
    call: Call, x: Tensor, outside: Sequence[int], before: Sequence[int], strides: Sequence[int], step: Sequence[int]
) -> Tensor | None:
    """Conv by a DFT basis: an FFT of each frame. None where it is no such thing or does not pay."""
    w = call.known(1)
    if w is None or w.shape[1] != 1 or call.attr("group", 1) != 1:
        return None
    axis = line_of(w.shape[2:], x.shape[2:])
    if axis is None or any(n != 1 or p for i, (n, p) in _others(outside, before, axis)):
        return None
    rows, taps, frames, batch = w.shape[0], w.shape[2 + axis], outside[axis], x.shape[0]
    basis = basis_of(call, 1, "rows", 2.0 * rows * taps, w.reshape(rows, taps))
    if basis is None:
        return None
    call.note(f"STFT: {call.op_type} is a DFT of length {basis.n} of overlapping frames, run as an FFT")
    signals = reshaped(x, (batch, x.shape[2 + axis]), call.node)
    y = analysed(call, framed(call, signals, taps, strides[axis], step[axis], frames, before[axis]), basis)
    apart = transposed(reshaped(y, (rows, batch, frames), call.node), (1, 0, 2), call.node)
    return _typed(reshaped(apart, (batch, rows, *outside), call.node), x)


def dft_product(call: Call, a: Tensor, b: Tensor) -> Tensor | None:
    """MatMul with a DFT matrix on either side, forward or inverse. None where it is no such thing or does not pay."""
    for side, x in ((1, a), (0, b)):
        w = call.known(side)
        if w is None or w.ndim != 2 or len(x.shape) < 2 or x.size == 0:
            continue
        inner = w if side == 1 else w.T  # [in, out]
        for inverse, rows in ((False, inner.T), (True, inner)):
            basis = basis_of(call, side, f"{side} {inverse}", 2.0 * w.size, rows)
            y = None if basis is None else _product(call, x, basis, side, inverse, inner.shape[1])
            if y is not None and basis is not None:
                kind = "an inverse DFT" if inverse else "a DFT"
                call.note(f"{call.op_type} is {kind} of length {basis.n}, run as an FFT")
                return _typed(y, x)
    return None


def _product(call: Call, x: Tensor, basis: DftBasis, side: int, inverse: bool, width: int) -> Tensor | None:
    rank = len(x.shape)
    axis = rank - 1 if side == 1 else rank - 2
    others = [i for i in range(rank) if i != axis]
    lead = [x.shape[i] for i in others]
    count = x.size // x.shape[axis]
    columns_of = reshaped(transposed(x, (axis, *others), call.node), (x.shape[axis], count), call.node)
    if inverse:
        samples = synthesised(call, columns_of, basis)
        if samples is None:
            return None
        tiled = _tiled(call, samples, width)
        y: Tensor = Map("{0} * {1}", [tiled, _window(call, basis, count)], FLOAT, call.node)
    else:
        y = analysed(call, columns_of, basis)
    shaped = reshaped(y, (width, *lead), call.node)
    back = (*range(1, rank), 0) if side == 1 else (*range(1, rank - 1), 0, rank - 1)
    return transposed(shaped, back, call.node)


def _tiled(call: Call, x: Tensor, taps: int) -> Tensor:
    """[n, count] as [taps, count], cut or repeated."""
    n, count = x.shape

    def source(c: Coords) -> Coords:
        return (c[0] % n, c[1])

    return x if taps == n else View("tile", x, (taps, count), source, call.node)
