"""ONNX's DFT and STFT."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor, expanded, reshaped, transposed
from .fft import FLOAT, Parts, analyse, framed, padded, synthesise, transform
from .matmul import floats_only
from .movement import Concat, axis_of, sliced
from .registry import Call, Refuse, op


def _length(call: Call, i: int, default: int) -> int:
    n = call.ints(i, "length")[0] if call.has(i) else default
    if n <= 0:
        raise Refuse(f"a DFT needs a length of at least 1, not {n}")
    return n


def _parts_of(call: Call, x: Tensor) -> Parts:
    """x [n, count, 1 | 2] as its parts [n, count]."""
    n, count, kinds = x.shape
    re, im = (
        reshaped(sliced(x, (0, 0, c), (1, 1, 1), (n, count, 1), call.node), (n, count)) if c < kinds else None
        for c in (0, 1)
    )
    assert re is not None
    return Parts(re, im if im is not None else Fill(0, re.shape, x.dtype))


def _joined(call: Call, x: Parts) -> Tensor:
    """Parts as [n, count, 2]."""
    if x.whole is not None:
        return transposed(x.whole, (0, 2, 1), call.node)
    shape = (*x.re.shape, 1)
    return Concat([reshaped(x.re, shape), reshaped(x.im, shape)], 2, call.node)


def spectrum_of(call: Call, x: Parts, n: int, bins: int, real: bool) -> Tensor:
    """The first bins of a forward transform of length n, as [bins, count, 2]."""
    x = Parts(padded(x.re, n, call.node), padded(x.im, n, call.node))
    if not real:
        y = _joined(call, transform(call, x, n, False))
        return sliced(y, (0, 0, 0), (1, 1, 1), (bins, *y.shape[1:]), call.node)
    index = np.arange(2 * bins) % bins
    parts = np.where(np.arange(2 * bins) < bins, 1, 1j)
    rows = analyse(call, x.re, n, index, parts)
    return transposed(reshaped(rows, (2, bins, rows.shape[1]), call.node), (1, 2, 0), call.node)


def _inverse(call: Call, x: Parts, n: int, onesided: bool) -> Tensor:
    """The inverse transform of length n as [n, count, 1 | 2]."""
    if onesided:
        half = Parts(padded(x.re, n // 2 + 1, call.node), padded(x.im, n // 2 + 1, call.node))
        y = synthesise(call, half, n)
        y = reshaped(y, (*y.shape, 1), call.node)
    else:
        y = _joined(call, transform(call, Parts(padded(x.re, n, call.node), padded(x.im, n, call.node)), n, True))
    return Map("{0} * {1}", [y, Fill(1 / n, y.shape, FLOAT)], FLOAT, call.node)


@op("DFT", since=17, known=(1, 2))
def dft(call: Call) -> Tensor:
    """Along any axis, of any length; real or complex, inverse, one-sided."""
    x = call.x(0)
    floats_only(x, "DFT")
    rank = len(x.shape)
    axis = call.attr("axis", 1) if call.opset < 20 else call.ints(2, "axis")[0] if call.has(2) else -2
    axis = axis_of(axis, rank)
    if axis == rank - 1:
        raise Refuse("a DFT along the axis of real and imaginary parts")
    inverse, onesided, size = bool(call.attr("inverse", 0)), bool(call.attr("onesided", 0)), x.shape[axis]
    n = int(_length(call, 1, 2 * (size - 1) if inverse and onesided else size))
    others = [i for i in range(rank - 1) if i != axis]
    lead = [x.shape[i] for i in others]
    moved = transposed(x, (axis, *others, rank - 1), call.node)
    parts = _parts_of(call, reshaped(moved, (size, prod(lead), x.shape[-1]), call.node))
    bins = n // 2 + 1 if onesided and not inverse else n
    if x.size == 0 or size == 0:
        y: Tensor = Fill(0, (bins, prod(lead), 1 if inverse and onesided else 2), FLOAT)
    elif inverse:
        y = _inverse(call, parts, n, onesided)
    else:
        y = spectrum_of(call, parts, n, bins, x.shape[-1] == 1)
    y = reshaped(y, (y.shape[0], *lead, y.shape[2]), call.node)
    return _cast(transposed(y, [*(1 + i for i in range(axis)), 0, *range(axis + 1, rank)], call.node), x.dtype)


def _cast(x: Tensor, dtype: ir.DataType) -> Tensor:
    return x if dtype == FLOAT else Map("{0}", [x], dtype, x.node, 0)


@op("STFT", since=17, known=(1, 3))
def stft(call: Call) -> Tensor:
    """Real or complex signals, with or without a window, one- or two-sided."""
    x = call.x(0)
    floats_only(x, "STFT")
    if len(x.shape) == 2:
        x = reshaped(x, (*x.shape, 1), call.node)
    batch, samples, kinds = x.shape
    hop = call.ints(1, "frame step")[0]
    n = int(_length(call, 3, call.shape(2)[0] if call.has(2) else samples))
    if hop <= 0:
        raise Refuse(f"an STFT needs a step of at least 1, not {hop}")
    frames = (samples - n) // hop + 1 if samples >= n else 0
    onesided = bool(call.attr("onesided", 1))
    bins = n // 2 + 1 if onesided else n
    if frames == 0 or batch == 0:
        return Fill(0, (batch, frames, bins, 2), x.dtype)
    signals = [
        reshaped(sliced(x, (0, 0, c), (1, 1, 1), (batch, samples, 1), call.node), (batch, samples))
        for c in range(kinds)
    ]
    parts = [framed(call, s, n, hop, 1, frames) for s in signals]
    if call.has(2):
        window = padded(reshaped(call.x(2), (call.shape(2)[0], 1), call.node), n, call.node)
        wide = expanded(window, parts[0].shape, call.node)
        parts = [Map("{0} * {1}", [p, wide], FLOAT, call.node) for p in parts]
    real = kinds == 1
    both = Parts(parts[0], Fill(0, parts[0].shape, FLOAT) if real else parts[1])
    y = reshaped(spectrum_of(call, both, n, bins, real), (bins, batch, frames, 2), call.node)
    return _cast(transposed(y, (1, 2, 0, 3), call.node), x.dtype)
