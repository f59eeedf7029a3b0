"""The phase of a spectrum, at places where the spectrum is exactly zero or real."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace

pytestmark = pytest.mark.webgpu
HOP, SIZE = 5, 20


def phase_model(transform: bool) -> onnx.ModelProto:
    """atan2 as torch exports it: of a spectrum, or of two inputs that no transform made."""
    node = helper.make_node
    nodes = [
        node("Gather", ["s", "one"], ["y"], axis=-1),
        node("Gather", ["s", "none"], ["x"], axis=-1),
        node("Div", ["y", "x"], ["slope"]),
        node("Atan", ["slope"], ["angle"]),
        node("Greater", ["y", "zero"], ["up"]),
        node("Less", ["x", "zero"], ["left"]),
        node("Add", ["angle", "pi"], ["plus"]),
        node("Sub", ["angle", "pi"], ["minus"]),
        node("Where", ["up", "plus", "minus"], ["turned"]),
        node("Where", ["left", "turned", "angle"], ["phase"], name="phase"),
    ]
    shape: list[int | None] = [None, None, 2]
    if transform:
        nodes.insert(0, node("STFT", ["signal", "hop", "window", "size"], ["s"], onesided=1))
        shape = [None, None]
    constants = {"one": np.array(1), "none": np.array(0), "hop": np.array(HOP), "size": np.array(SIZE)}
    constants |= {
        "zero": np.float32(0),
        "pi": np.float32(np.pi),
        "window": np.hanning(SIZE + 1)[:-1].astype(np.float32),
    }
    weights = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    fed = helper.make_tensor_value_info("signal" if transform else "s", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "test", [fed], [onnx.ValueInfoProto(name="phase")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
            return session.run(None, feeds)[0], [n.text for n in session.notes]


def test_phase_of_a_spectrum() -> None:
    """As atan2 of the exact spectrum: frames of a constant have empty bins, and a negative one turns bin 0 by π."""
    rng = np.random.default_rng(0)
    signal = np.concatenate([np.full(40, -0.7), rng.standard_normal(60), np.full(30, 0.4), np.zeros(30)])[None]
    got, notes = run(phase_model(True), {"signal": signal.astype(np.float32)})
    frames = np.stack([signal[0, i : i + SIZE] for i in range(0, signal.size - SIZE + 1, HOP)])
    want = np.fft.rfft(frames.astype(np.float32) * np.hanning(SIZE + 1)[:-1])
    assert np.isfinite(got).all()
    real = np.abs(want.imag) < 1e-9
    np.testing.assert_allclose(got[0][real & (want.real < -1e-5)], np.pi, rtol=1e-6)
    sound = np.abs(want) > 1e-2
    turn = np.exp(1j * got[0]) - np.exp(1j * np.angle(want))
    assert np.abs(turn[sound]).max() < 1e-4
    assert any("atan2" in text for text in notes)


def test_other_angles_stay_as_they_are_written() -> None:
    rng = np.random.default_rng(1)
    s = rng.standard_normal((3, 50, 2)).astype(np.float32)
    s[0, :9, 1], s[0, :5, 0] = 0, -1
    got, notes = run(phase_model(False), {"s": s})
    with np.errstate(all="ignore"):
        y, x = s[..., 1].astype(np.float64), s[..., 0].astype(np.float64)
        angle = np.arctan(y / x)
        want = np.where(x < 0, np.where(y > 0, angle + np.pi, angle - np.pi), angle)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert not any("atan2" in text for text in notes)
