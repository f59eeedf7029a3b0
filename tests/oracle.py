"""What ONNX says that an operator computes, written out in float64 for the tests: slow, and plainly right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

TOLERANCE = {  # dtype -> relative to the largest value of the result, at an accumulation length of 1
    np.dtype(np.float16): 2e-3,
    np.dtype(np.float32): 4e-7,
    np.dtype(np.float64): 1e-13,
}


def assert_close(got: np.ndarray, want: np.ndarray, accumulated: int = 1) -> None:
    """Raise unless `got` equals `want` to rounding: the error of a sum grows with the root of its length."""
    got = np.asarray(got)
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    finite = np.isfinite(want)
    assert np.array_equal(np.isnan(got), np.isnan(want)), "NaN in other places"
    assert np.array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)]), "infinities differ"
    if not finite.any():
        return
    limit = TOLERANCE[got.dtype] * max(1.0, np.sqrt(accumulated)) * max(np.abs(want[finite]).max(), 1e-30)
    error = np.abs(got[finite].astype(np.float64) - want[finite]).max()
    assert error <= limit, f"off by {error:.3g}, allowed {limit:.3g}"


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int] | None = None,
    group: int = 1,
    begin: Sequence[int] | None = None,
    output: Sequence[int],
) -> np.ndarray:
    """Scatter every input element times the kernel to output[t·stride + k·dilation - begin], output as given."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    spatial = x.ndim - 2
    dilations, begin = dilations or [1] * spatial, begin or [0] * spatial
    per_group = x.shape[1] // group
    y = np.zeros((x.shape[0], w.shape[1] * group, *output))
    for place in itertools.product(*(range(n) for n in x.shape[2:])):
        for tap in itertools.product(*(range(k) for k in w.shape[2:])):
            at = tuple(t * s + k * d - b for t, s, k, d, b in zip(place, strides, tap, dilations, begin, strict=True))
            if not all(0 <= a < n for a, n in zip(at, output, strict=True)):
                continue
            for g in range(group):
                channels = slice(g * per_group, (g + 1) * per_group)
                part = x[(slice(None), channels, *place)] @ w[(channels, slice(None), *tap)]
                y[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *at)] += part
    return y if bias is None else y + bias.astype(np.float64).reshape(1, -1, *[1] * spatial)


def conv(
    x: np.ndarray,
    w: np.ndarray,
    *,
    strides: Sequence[int],
    dilations: Sequence[int] | None = None,
    group: int = 1,
    pads: Sequence[int] | None = None,
) -> np.ndarray:
    """Gather, place by place."""
    spatial = x.ndim - 2
    dilations, pads = dilations or [1] * spatial, pads or [0] * 2 * spatial
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, [(0, 0), (0, 0), *((pads[i], pads[spatial + i]) for i in range(spatial))])
    size = [(x.shape[2 + i] - (w.shape[2 + i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(spatial)]
    y = np.zeros((x.shape[0], w.shape[0], *size))
    for tap in itertools.product(*(range(k) for k in w.shape[2:])):
        window = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(tap, dilations, size, strides, strict=True)
        )
        for g in range(group):
            inputs = slice(g * w.shape[1], (g + 1) * w.shape[1])
            outputs = slice(g * w.shape[0] // group, (g + 1) * w.shape[0] // group)
            y[:, outputs] += np.einsum(
                "nc...,oc->no...", x[(slice(None), inputs, *window)], w[(outputs, slice(None), *tap)]
            )
    return y


def conv_transpose_size(
    x: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    auto_pad: str = "NOTSET",
    pads: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
) -> tuple[list[int], list[int]]:
    """Output size and padding at the start, by the formulas of the ONNX operator's page."""
    spatial, size, begin = len(kernel), [], []
    for i in range(spatial):
        full = strides[i] * (x[i] - 1) + output_padding[i] + (kernel[i] - 1) * dilations[i] + 1
        if output_shape or auto_pad.startswith("SAME"):
            wanted = output_shape[i] if output_shape else min(x[i] * strides[i], full)  # ONNX Runtime's; ONNX pads
            total = max(full - wanted, 0)
            begin.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
            size.append(wanted)
        else:
            both = (pads[i], pads[spatial + i]) if pads and auto_pad == "NOTSET" else (0, 0)
            begin.append(both[0])
            size.append(full - sum(both))
    return size, begin


def dft_rows(
    n: int, taps: int, bins: np.ndarray, phase: np.ndarray, scale: np.ndarray, window: np.ndarray
) -> np.ndarray:
    """Rows scale·window[k]·cos(2π·bin·k/n + phase), the angle reduced before it is rounded."""
    turns = (bins[:, None] * np.arange(taps)[None]) % n
    rows: np.ndarray = scale[:, None] * window[None] * np.cos(2 * np.pi * turns / n + phase[:, None])
    return rows
