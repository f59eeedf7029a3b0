"""Transforms on the device: the ONNX operators, and weights that are recognised as a DFT basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests import oracle
from tests.models import inverse_dft_basis, normal

from conftest import model
from headrace.backends.webgpu import WebGpuExecutable
from headrace.errors import UnsupportedOpError
from headrace.ops.fft import accesses, factors, padded_length, roots, smooth

N = helper.make_node
LENGTHS = (1, 2, 3, 16, 74, 400, 512, 513, 1009, 4096)


def close(got: np.ndarray, want: np.ndarray) -> None:
    """An FFT's error grows with the logarithm of its length, far slower than a dense sum's."""
    oracle.assert_close(got, want, 8)


def by_numpy(x: np.ndarray, n: int, axis: int, inverse: bool, onesided: bool) -> np.ndarray:
    values = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(values, n, axis)[..., None]
    y = (np.fft.ifft if inverse else np.fft.fft)(values, n, axis)
    if onesided:
        y = np.take(y, range(n // 2 + 1), axis)
    return np.stack([y.real, y.imag], -1)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(
    ("inverse", "onesided", "kinds"), [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 2), (1, 1, 2), (1, 0, 1)]
)
def test_dft(run: Any, n: int, inverse: int, onesided: int, kinds: int) -> None:
    size = n // 2 + 1 if inverse and onesided else n
    x = normal((2, size, 3, kinds))
    nodes = [N("DFT", ["x", "n", "axis"], ["y"], inverse=inverse, onesided=onesided)]
    m = model(nodes, {"x": x.shape}, ["y"], {"n": np.array(n), "axis": np.array(1)}, opset=20)
    close(run(m, {"x": x})[0], by_numpy(x, n, 1, bool(inverse), bool(onesided)))


@pytest.mark.parametrize(("axis", "n"), [(0, 5), (1, 30), (-2, 7), (-3, 64), (2, 4)])
def test_dft_cuts_and_fills_along_any_axis(run: Any, axis: int, n: int) -> None:
    x = normal((5, 16, 7, 2))
    nodes = [N("DFT", ["x", "n", "axis"], ["y"])]
    m = model(nodes, {"x": x.shape}, ["y"], {"n": np.array(n), "axis": np.array(axis)}, opset=20)
    close(run(m, {"x": x})[0], by_numpy(x, n, axis % 4, False, False))


def test_dft_17_has_its_axis_as_an_attribute(run: Any) -> None:
    x = normal((3, 4, 20, 1))
    for attributes, axis in (({}, 1), ({"axis": 2, "onesided": 1}, 2)):
        m = model([N("DFT", ["x"], ["y"], **attributes)], {"x": x.shape}, ["y"], opset=17)
        close(run(m, {"x": x})[0], by_numpy(x, x.shape[axis], axis, False, "onesided" in attributes))


def test_a_dft_of_no_length_says_so(run: Any) -> None:
    m = model([N("DFT", ["x", "n"], ["y"])], {"x": (2, 4, 1)}, ["y"], {"n": np.array(0)}, opset=20)
    with pytest.raises(UnsupportedOpError, match="at least 1, not 0"):
        run(m, {"x": normal((2, 4, 1))})


@pytest.mark.parametrize(
    ("samples", "n", "hop", "kinds", "onesided", "window"),
    [(1024, 128, 8, 1, 1, True), (1000, 100, 10, 1, 0, True), (4800, 400, 160, 1, 1, False), (300, 37, 9, 2, 0, True)],
)
def test_stft(run: Any, samples: int, n: int, hop: int, kinds: int, onesided: int, window: bool) -> None:
    x, w = normal((2, samples, kinds)), np.hanning(n).astype(np.float32)
    weights = {"hop": np.array(hop), "n": np.array(n)} | ({"w": w} if window else {})
    m = model(
        [N("STFT", ["x", "hop", "w" if window else "", "n"], ["y"], onesided=onesided)],
        {"x": x.shape},
        ["y"],
        weights,
        opset=17,
    )
    values = x[..., 0].astype(np.float64) + (1j * x[..., 1] if kinds == 2 else 0)
    frames = np.lib.stride_tricks.sliding_window_view(values, n, 1)[:, ::hop] * (w.astype(np.float64) if window else 1)
    y = np.fft.fft(frames, axis=-1)[..., : n // 2 + 1 if onesided else n]
    close(run(m, {"x": x})[0], np.stack([y.real, y.imag], -1))


def kernels(m: Any, feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, list[str]]:
    executable = WebGpuExecutable(m, fallback=False)
    try:
        (y,) = executable.run(None, feeds)
        assert executable.plan is not None
        return y, [executable.plan.kernels[d.kernel].name for d in executable.plan.dispatches]
    finally:
        executable.close()


def istft(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, **attributes: Any) -> tuple[Any, np.ndarray]:
    weights = {"w": w} | ({} if bias is None else {"b": bias})
    m = model([N("ConvTranspose", ["x", *weights], ["y"], **attributes)], {"x": x.shape}, ["y"], weights)
    spatial = x.ndim - 2
    ones = [1] * spatial
    given = {k: v for k, v in attributes.items() if k in ("pads", "output_shape", "auto_pad")}
    size, begin = oracle.conv_transpose_size(
        x.shape[2:],
        w.shape[2:],
        strides=attributes["strides"],
        dilations=ones,
        output_padding=attributes.get("output_padding", [0] * spatial),
        **given,
    )
    return m, oracle.conv_transpose(x, w, bias, strides=attributes["strides"], begin=begin, output=size)


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
@pytest.mark.parametrize(
    ("n", "attributes"),
    [
        (256, {"strides": [64]}),
        (256, {"strides": [100], "pads": [128, 128]}),
        (250, {"strides": [50], "pads": [3, 7], "output_padding": [4]}),
        (509, {"strides": [60]}),
        (1018, {"strides": [1200]}),
        (256, {"strides": [64], "output_shape": [500]}),
    ],
)
def test_an_inverse_stft_is_recognised(n: int, attributes: dict[str, Any]) -> None:
    w = inverse_dft_basis(n)
    x, bias = normal((2, len(w), 9)), normal((1,))
    m, want = istft(x, w, bias, **attributes)
    got, names = kernels(m, {"x": x})
    assert "overlap_add" in names
    oracle.assert_close(got, want, n)


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_an_inverse_stft_in_two_dimensions() -> None:
    w = inverse_dft_basis(128)[:, :, None]
    x = normal((2, len(w), 1, 5))
    m, want = istft(x, w, strides=[1, 32])
    got, names = kernels(m, {"x": x})
    assert "overlap_add" in names
    oracle.assert_close(got, want, 128)


def general_rows(n: int, taps: int, rows: int, seed: int = 3) -> np.ndarray:
    """Bins in any order, some twice, complex coefficients."""
    rng = np.random.default_rng(seed)
    bins = rng.permutation(np.arange(rows) % (n // 2 + 1))
    window = 0.6 + 0.4 * np.cos(np.linspace(-3, 3, taps))
    phase, scale = rng.uniform(-3, 3, rows), rng.uniform(0.5, 2, rows)
    return oracle.dft_rows(n, taps, bins, phase, scale, window).astype(np.float32)


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
@pytest.mark.parametrize(("n", "taps"), [(256, 256), (256, 200), (225, 225)])
def test_rows_of_any_order_and_phase(n: int, taps: int) -> None:
    w = general_rows(n, taps, 2 * (n // 2 + 1))
    x = normal((2, len(w), 5))
    m, want = istft(x, w[:, None], strides=[80])
    got, names = kernels(m, {"x": x})
    assert "overlap_add" in names
    oracle.assert_close(got, want, n)


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
@pytest.mark.parametrize(("n", "taps", "pads"), [(256, 256, [0, 0]), (400, 400, [200, 200]), (250, 250, [5, 0])])
def test_a_convolution_with_a_dft_basis(n: int, taps: int, pads: Sequence[int]) -> None:
    w = general_rows(n, taps, 2 * (n // 2 + 1))[:, None]
    x, bias = normal((2, 1, 3000)), normal((len(w),))
    node = N("Conv", ["x", "w", "b"], ["y"], strides=[100], pads=pads)
    got, names = kernels(model([node], {"x": x.shape}, ["y"], {"w": w, "b": bias}), {"x": x})
    assert "fft" in names and "matmul" not in names
    oracle.assert_close(got, oracle.conv(x, w, strides=[100], pads=pads) + bias[:, None], n)


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("side", [0, 1])
def test_a_product_with_a_dft_matrix(inverse: bool, side: int) -> None:
    rows = general_rows(256, 256, 258)
    w = rows if inverse else rows.T  # [in, out]
    x = normal((3, 20, len(w)))
    if side == 0:
        x, w = np.ascontiguousarray(x.swapaxes(1, 2)), np.ascontiguousarray(w.T)
    node = N("MatMul", ["x", "w"] if side else ["w", "x"], ["y"])
    got, names = kernels(model([node], {"x": x.shape}, ["y"], {"w": w}), {"x": x})
    assert "fft" in names and "matmul" not in names
    wide = x.astype(np.float64), w.astype(np.float64)
    oracle.assert_close(got, np.matmul(*(wide if side else wide[::-1])), 258)


@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
def test_other_weights_and_short_transforms_stay_dense() -> None:
    for w in (normal((258, 1, 256)), inverse_dft_basis(16)):
        x = normal((1, len(w), 4))
        m, want = istft(x, w, strides=[8])
        got, names = kernels(m, {"x": x})
        assert names == ["conv"]
        oracle.assert_close(got, want, w.shape[2] * 8)


@pytest.mark.parametrize("n", [1, 2, 16, 400, 512, 513, 1009, 2018, 4096, 96000])
def test_passes_multiply_to_the_length(n: int) -> None:
    assert int(np.prod(factors(n), initial=1)) == n
    assert smooth(padded_length(n)) and padded_length(n) >= 2 * n - 1
    assert accesses(n) > 0


@pytest.mark.parametrize("n", [1, 3, 4, 12, 1009])
def test_roots_are_exact(n: int) -> None:
    exact = np.exp(2j * np.pi * np.arange(n) / n)
    assert np.abs(roots(n) - np.stack([exact.real, exact.imag])).max() <= 6e-8
    assert n % 4 or roots(n)[0, n // 4] == 0
