"""C1 to C3 of the cases that broke other systems, at their own sizes, on both devices; checked at random places."""

from __future__ import annotations

import numpy as np
import pytest

import headrace

from . import oracle
from .models import inverse_dft_basis, normal, one_node

CASES = {  # x, taps, stride
    "C1": ((8, 4098, 435), 4096, 1024),
    "C2": ((1, 1026, 224), 1024, 256),
    "C3": ((16, 129, 405), 256, 64),
}


def hops(x: np.ndarray, w: np.ndarray, stride: int, places: np.ndarray) -> np.ndarray:
    """Output samples q·stride … (q + 1)·stride of every signal, in float64, for each q of `places`."""
    taps, found = w.shape[2], []
    for q in places:
        total = np.zeros((len(x), stride))
        for j in range(-(-taps // stride)):
            if 0 <= q - j < x.shape[2]:
                part = w[:, 0, j * stride : (j + 1) * stride].astype(np.float64)
                total[:, : part.shape[1]] += x[:, :, q - j].astype(np.float64) @ part
        found.append(total)
    return np.stack(found, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")
@pytest.mark.parametrize("kind", ["random", "inverse STFT"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("webgpu", marks=pytest.mark.webgpu)])
@pytest.mark.parametrize("name", CASES)
def test_reported_shape(name, device, kind):
    shape, taps, stride = CASES[name]
    if kind == "random":
        w = normal((shape[1], 1, taps), 1)
    else:
        w = inverse_dft_basis(taps)
        shape = (shape[0], len(w), shape[2])
    x = normal(shape)
    with headrace.InferenceSession(one_node("ConvTranspose", shape, w, strides=[stride]), device=device) as session:
        (got,) = session.run(None, {"x": x})
    assert got.shape == (shape[0], 1, (shape[2] - 1) * stride + taps)
    last = (got.shape[2] - 1) // stride
    places = np.array([0, 1, last, *np.random.default_rng(0).integers(0, last, 5)])
    seen = np.stack([got[:, 0, q * stride : (q + 1) * stride] for q in places], 1)
    oracle.assert_close(seen, hops(x, w, stride, places), shape[1] * (taps // stride))
