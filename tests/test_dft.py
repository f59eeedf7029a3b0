"""DFT-shaped weights: recognised by their numbers, run as FFT, right to rounding; what must not be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import headrace
from headrace.model import load
from headrace.rules import Target, optimize_model
from headrace.rules.dft import DftBasis, NotDft, recognise

from . import oracle
from .models import inverse_dft_basis, model_of, normal, one_node


def hann(n: int) -> np.ndarray:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def rows(
    n: int,
    taps: int | None = None,
    window: np.ndarray | None = None,
    parts: str = "ri",
    delay: float = 0,
    two_sided=False,
):
    """Cosine and minus sine rows of a DFT of length n, in float64."""
    taps = taps or n
    window = hann(taps) if window is None else window
    bins = np.arange(n if two_sided else n // 2 + 1)
    shift = 2 * np.pi * bins * delay / n
    blocks = {"r": shift, "i": shift + np.pi / 2}
    return np.concatenate([oracle.dft_rows(n, taps, bins, blocks[p], np.ones(len(bins)), window) for p in parts])


ACCEPTED = {
    **{f"n {n}": (rows(n), n) for n in (16, 20, 60, 128, 257, 400, 513)},
    "no window": (rows(64, window=np.ones(64)), 64),
    "real only": (rows(128, parts="r"), 128),
    "imaginary only": (rows(128, parts="i"), 128),
    "imaginary first": (rows(128, parts="ir"), 128),
    "two-sided": (rows(96, two_sided=True), 96),
    "window shorter than n": (rows(128, taps=100), 128),
    "window padded into n": (rows(128, window=np.pad(hann(100), 14)), 128),
    "centred phase": (rows(128, delay=-64), 128),
    "odd phase": (rows(128, delay=13.25), 128),
    "negative lobes": (rows(128, window=scipy.signal.get_window("flattop", 128)), 128),
    "longer than n": (rows(64, taps=160), 64),
    "permuted": (rows(128)[np.random.default_rng(0).permutation(130)], 128),
    "scaled rows": (rows(128) * np.random.default_rng(1).uniform(0.5, 2, (130, 1)), 128),
    "zero rows left out": (np.delete(rows(128), (65, 129), axis=0), 128),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_recognised(name):
    weight, n = ACCEPTED[name]
    found = recognise(weight.astype(np.float32))
    assert isinstance(found, DftBasis), found
    assert found.n == n
    rebuilt = found.window * np.real(
        found.coefficients[:, None] * np.exp(2j * np.pi * (found.bins[:, None] * np.arange(weight.shape[1]) % n) / n)
    )
    assert np.abs(rebuilt - weight).max() <= 2.5e-7 * np.abs(weight).max()


def one_element_off():
    weight = rows(128).astype(np.float32)
    weight[40, 50] += 1e-4
    return weight


REFUSED = {
    "random": normal((130, 128)),
    "a learned basis near a DFT": (rows(128) + 1e-5 * normal((130, 128))).astype(np.float32),
    "one element off": one_element_off(),
    "angles computed in float32": np.cos(
        (2 * np.pi / 1024 * np.arange(513)[:, None] * np.arange(1024)[None]).astype(np.float32)
    ).astype(np.float32),
    "rounded to float16 but stored in float32": rows(128).astype(np.float16).astype(np.float32),
    "NaN": np.where(np.arange(128) == 5, np.nan, rows(128)).astype(np.float32),
    "zeros": np.zeros((130, 128), np.float32),
    "too small": rows(4).astype(np.float32),
    "chirps": np.cos(np.arange(130)[:, None] * np.arange(128)[None] ** 2 / 500).astype(np.float32),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    found = recognise(REFUSED[name])
    assert isinstance(found, NotDft)
    assert found.reason


def test_float16_storage_and_looser_tolerance():
    weight = rows(128).astype(np.float16)
    assert isinstance(recognise(weight.astype(np.float32), np.dtype(np.float16)), DftBasis)
    near = REFUSED["angles computed in float32"]
    refusal = recognise(near)
    assert isinstance(refusal, NotDft) and refusal.error is not None and "dft_tolerance" in refusal.reason
    assert isinstance(recognise(near, tolerance=refusal.error * 1.1), DftBasis)


def run(model, x, **options):
    with headrace.InferenceSession(model, device="cpu", **options) as session:
        return session.run(None, {"x": x})[0], [n for n in session.notes if not n.refused]


N, LONG = 512, 700  # length and frames for which an FFT pays


@pytest.mark.parametrize(
    ("attributes", "begin", "size"),
    [
        ({}, 0, lambda t: (t - 1) * 128 + 512),
        ({"pads": [256, 256]}, 256, lambda t: (t - 1) * 128),
        ({"pads": [3, 50], "output_padding": [7]}, 3, lambda t: (t - 1) * 128 + 512 - 53 + 7),
        ({"auto_pad": "SAME_UPPER"}, 192, lambda t: t * 128),
        ({"auto_pad": "SAME_LOWER"}, 192, lambda t: t * 128),
    ],
)
def test_inverse_stft(attributes, begin, size):
    w = inverse_dft_basis(N)
    x = normal((2, len(w), LONG))
    got, notes = run(one_node("ConvTranspose", x.shape, w, normal([1], 7), strides=[128], **attributes), x)
    assert any("inverse STFT" in n.text for n in notes)
    want = dense_transpose(x, w[:, 0], 128, begin, size(LONG)) + normal([1], 7).astype("f8")
    oracle.assert_close(got, want, len(w))


def dense_transpose(x, w, stride, begin, size):
    frames = np.einsum("brt,rk->btk", x.astype("f8"), w.astype("f8"))
    full = np.zeros((len(x), 1, max((x.shape[2] - 1) * stride + w.shape[1], begin + size)))
    for t in range(x.shape[2]):
        full[:, 0, t * stride : t * stride + w.shape[1]] += frames[:, t]
    return full[..., begin : begin + size]


@pytest.mark.parametrize("axis", [0, 1])
def test_inverse_stft_in_two_dimensions(axis):
    w = inverse_dft_basis(N)
    x = normal((1, len(w), LONG))
    shape = lambda a: np.expand_dims(a, 3 - axis)  # noqa: E731
    strides = [128, 1] if axis == 0 else [1, 128]
    got, notes = run(one_node("ConvTranspose", shape(x).shape, shape(w), strides=strides), shape(x))
    assert notes
    want = dense_transpose(x, w[:, 0], 128, 0, (LONG - 1) * 128 + N)
    oracle.assert_close(got, shape(want), len(w))


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("stride", [31, 512, 700])
def test_inverse_stft_strides(batch, stride):
    w = inverse_dft_basis(N)[np.random.default_rng(3).permutation(514)]
    x = normal((batch, len(w), LONG))
    got, notes = run(one_node("ConvTranspose", x.shape, w, strides=[stride]), x)
    assert notes
    oracle.assert_close(got, dense_transpose(x, w[:, 0], stride, 0, (LONG - 1) * stride + N), len(w))


@pytest.mark.parametrize("attributes", [{}, {"pads": [256, 30]}, {"auto_pad": "SAME_LOWER"}])
def test_stft_as_convolution(attributes):
    w = rows(N).astype(np.float32)[:, None]
    x = normal((2, 1, LONG * 128))
    got, notes = run(one_node("Conv", x.shape, w, strides=[128], **attributes), x)
    assert any("STFT" in n.text for n in notes)
    pads = attributes.get("pads") or ([192, 192] if attributes else [0, 0])
    padded = np.pad(x[:, 0].astype("f8"), ((0, 0), tuple(pads)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, N, axis=1)[:, ::128]
    oracle.assert_close(got, np.einsum("btk,rk->brt", frames, w[:, 0].astype("f8")), N)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("inverse", [False, True])
def test_matmul(side, inverse):
    matrix = rows(512, window=np.ones(512)).astype(np.float32)  # [514, 512]
    w = matrix if inverse else matrix.T
    x = normal((3, 1500, len(w)))
    if side == "right":
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": x.shape}, ["y"], {"w": w})
        want = x.astype("f8") @ w
    else:
        x = np.ascontiguousarray(x.swapaxes(1, 2))
        model = model_of([helper.make_node("MatMul", ["w", "x"], ["y"])], {"x": x.shape}, ["y"], {"w": w.T.copy()})
        want = w.T.astype("f8") @ x
    got, notes = run(model, x)
    assert any("DFT of length 512" in n.text for n in notes)
    oracle.assert_close(got, want, 512)


def test_real_and_imaginary_weights_apart():
    """Two ConvTransposes whose results are subtracted, as exporters of torch.istft write it, with work around them."""
    basis = inverse_dft_basis(N)
    re, im = basis[:257], -basis[257:]
    nodes = [
        helper.make_node("Mul", ["x", "gain"], ["scaled"]),
        helper.make_node("Split", ["scaled"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("ConvTranspose", ["a", "re"], ["ya"], strides=[128]),
        helper.make_node("ConvTranspose", ["b", "im"], ["yb"], strides=[128]),
        helper.make_node("Sub", ["ya", "yb"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["y"]),
    ]
    x, gain = normal((4, 514, LONG)), np.float32(0.5)
    model = model_of(nodes, {"x": x.shape}, ["y"], {"re": re, "im": im, "gain": np.array(gain)})
    got, notes = run(model, x)
    assert sum("inverse STFT" in n.text for n in notes) == 2
    want = np.tanh(dense_transpose(x * gain, basis[:, 0], 128, 0, (LONG - 1) * 128 + N))
    oracle.assert_close(got, want, 514)


def test_float16_weight_behind_a_cast():
    w = inverse_dft_basis(N, np.float16)
    nodes = [
        helper.make_node("Cast", ["w"], ["w32"], to=1),
        helper.make_node("ConvTranspose", ["x", "w32"], ["y"], strides=[128]),
    ]
    x = normal((1, 514, LONG))
    got, notes = run(model_of(nodes, {"x": x.shape}, ["y"], {"w": w}), x)
    assert notes
    want = dense_transpose(x, w[:, 0], 128, 0, (LONG - 1) * 128 + N)
    assert np.abs(got - want).max() <= 2e-3 * np.abs(want).max()  # the weight itself is rounded to float16


def test_unknown_length_keeps_one_session():
    w = inverse_dft_basis(512)
    model = one_node("ConvTranspose", ["batch", 514, "frames"], w, strides=[128])
    with headrace.InferenceSession(model, device="cpu") as session:
        for frames in (500, 501, 777):
            x = normal((2, 514, frames), frames)
            want = dense_transpose(x, w[:, 0], 128, 0, (frames - 1) * 128 + 512)
            oracle.assert_close(session.run(None, {"x": x})[0], want, 514)
        assert len(session._executable._by_choice) == 1


def test_tolerance_is_the_users_choice():
    bins, k = np.arange(513)[:, None], np.arange(1024)[None]
    angle = (2 * np.pi / 1024 * bins * k).astype(np.float32)
    w = np.concatenate([np.cos(angle), -np.sin(angle)]).astype(np.float32)[:, None]
    x = normal((1, 1026, 300))
    model = one_node("ConvTranspose", x.shape, w, strides=[256])
    with headrace.InferenceSession(model, device="cpu") as session:
        assert any("dft_tolerance" in n.text for n in session.notes)
        want = session.run(None, {"x": x})[0]
    got, notes = run(model, x, dft_tolerance=1e-3)
    assert any("inverse STFT" in n.text for n in notes)
    assert np.abs(got - want).max() <= 1e-3 * np.abs(want).max()


def test_export_keeps_a_recognised_dft_dense():
    model = one_node("ConvTranspose", (1, 130, 50), inverse_dft_basis(128), strides=[64])
    rewritten = optimize_model(load(model), Target.EXPORT)
    assert all(n.domain == "" for n in rewritten.graph)


@pytest.mark.parametrize("n", [1, 2, 400, 512, 513, 1009])
@pytest.mark.parametrize("kind", ["forward", "onesided", "inverse", "shorter", "longer", "axis -2 of three"])
def test_dft_op(n, kind):
    """C12, against numpy's float64 transform."""
    inverse, onesided = int(kind == "inverse"), int(kind == "onesided")
    x = normal((2, n, 1 if onesided else 2), n)
    axis, length = 1, {"shorter": max(n - 3, 1), "longer": n + 5}.get(kind, n)
    if kind == "axis -2 of three":
        x, axis = normal((n, 3, 2), n), 0
    inputs, constants = ["x", "n", "axis"], {"n": np.array(length), "axis": np.array(axis)}
    node = helper.make_node("DFT", inputs, ["y"], inverse=inverse, onesided=onesided)
    got, _ = run(model_of([node], {"x": x.shape}, ["y"], constants), x)
    values = x[..., 0].astype("f8") + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    transform = np.fft.ifft if inverse else np.fft.fft
    want = transform(values, length, axis=axis)
    if onesided:
        want = want[:, : length // 2 + 1]
    oracle.assert_close(got, np.stack([want.real, want.imag], -1), max(length, 4))


@pytest.mark.parametrize("length", [0, -3])
def test_dft_of_no_length_is_an_error(length):
    node = helper.make_node("DFT", ["x", "n"], ["y"])
    model = model_of([node], {"x": (1, 8, 1)}, ["y"], {"n": np.array(length)})
    with pytest.raises(headrace.HeadraceError):
        run(model, normal((1, 8, 1)))


@pytest.mark.parametrize(("samples", "n", "hop"), [(1024, 128, 8), (1000, 100, 10), (480_000, 400, 160)])
@pytest.mark.parametrize("onesided", [0, 1])
def test_stft_op(samples, n, hop, onesided):
    """C13."""
    window = hann(n).astype(np.float32)
    node = helper.make_node("STFT", ["x", "hop", "window"], ["y"], onesided=onesided)
    x = normal((1, samples, 1))
    got, _ = run(model_of([node], {"x": x.shape}, ["y"], {"hop": np.array(hop), "window": window}), x)
    frames = np.lib.stride_tricks.sliding_window_view(x[0, :, 0].astype("f8"), n)[::hop] * window
    want = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    oracle.assert_close(got, np.stack([want.real, want.imag], -1)[None], n)


@given(st.integers(16, 200), st.integers(1, 300), st.floats(-3, 3), st.integers(0, 9), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_basis_is_found_and_exact(n, stride, delay, seed, real_only):
    """Whatever the length, window, phase and order: the step computes what the dense product does."""
    rng = np.random.default_rng(seed)
    window = rng.uniform(0.2, 1, n)
    weight = rows(n, window=window, delay=delay, parts="r" if real_only else "ri")
    weight = weight[rng.permutation(len(weight))].astype(np.float32)
    found = recognise(weight)
    assert isinstance(found, DftBasis), found
    from headrace.backends.cpu.steps import OverlapAdd, Workers
    from headrace.backends.cpu.transform import Transform

    x = normal((2, len(weight), 37), seed)
    step = OverlapAdd(Transform.of(found, np.dtype(np.float32)), stride, 0, 0)
    got = step([x], Workers(1))[0]
    oracle.assert_close(got, dense_transpose(x, weight, stride, 0, 36 * stride + n), 4 * len(weight))


@pytest.mark.parametrize("inputs", [("x", "step", "window"), ("x", "step", "", "length")])
@pytest.mark.parametrize("parts", [1, 2])
def test_stft_of_no_signal(inputs, parts):
    x = np.zeros((0, 64, parts), np.float32)
    given = {"step": np.int64(4), "window": np.ones(16, np.float32), "length": np.int64(16)}
    nodes = [helper.make_node("STFT", list(inputs), ["y"], onesided=0)]
    model = model_of(nodes, {"x": ("batch", 64, parts)}, ["y"], {n: given[n] for n in inputs if n in given})
    assert run(model, x)[0].shape == (0, 13, 16, 2)
    assert run(model, np.ones((2, 64, parts), np.float32))[0].shape == (2, 13, 16, 2)


def test_framed_transform_of_no_signal(monkeypatch):
    monkeypatch.setattr("headrace.rules.cost.fft_ms", lambda *_: 1e-9)
    w = rows(N).astype(np.float32)[:, None]
    got, notes = run(one_node("Conv", ("batch", 1, 2048), w, strides=[128]), np.zeros((0, 1, 2048), np.float32))
    assert notes and got.shape == (0, len(w), 13)
