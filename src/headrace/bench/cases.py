"""The reported cases, built from their sizes: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GEMM = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Case:
    """A model to time: `gemm` is the (rows, inner, columns) of the matrix product that it is, done densely."""

    name: str
    build: Callable[[], onnx.ModelProto]
    feeds: Mapping[str, tuple[int, ...]]
    gemm: GEMM | None = None


def _model(op: str, x: tuple[int, ...], constants: Mapping[str, np.ndarray], **attributes: Any) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *constants], ["y"], name=op, **attributes)],
        op,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _weight(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


def hann(n: int) -> np.ndarray:
    """Periodic Hann window [n], float64."""
    window: np.ndarray = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)
    return window


def inverse_stft_weight(n: int) -> np.ndarray:
    """[2·(n // 2 + 1), 1, n] float32: the weight with which a ConvTranspose is an inverse STFT of real, then imaginary
    parts, windowed by Hann."""
    bins, k = np.arange(n // 2 + 1)[:, None], np.arange(n)[None]
    sides = np.where((bins == 0) | (2 * bins == n), 1.0, 2.0)
    angle = 2 * np.pi * (bins * k % n) / n
    rows = np.concatenate([sides * np.cos(angle), -sides * np.sin(angle)]) * hann(n) / n
    weight: np.ndarray = rows[:, None].astype(np.float32)
    return weight


def _transposed(batch: int, channels: int, frames: int, kernel: int, stride: int) -> Callable[[], onnx.ModelProto]:
    x = (batch, channels, frames)
    return lambda: _model("ConvTranspose", x, {"w": _weight((channels, 1, kernel))}, strides=[stride])


def _inverse_stft(batch: int, n: int, frames: int, stride: int) -> Callable[[], onnx.ModelProto]:
    x = (batch, 2 * (n // 2 + 1), frames)
    return lambda: _model("ConvTranspose", x, {"w": inverse_stft_weight(n)}, strides=[stride])


def _stft(samples: int, n: int, hop: int) -> onnx.ModelProto:
    constants: dict[str, np.ndarray] = {"hop": np.array(hop, np.int64), "window": hann(n).astype(np.float32)}
    return _model("STFT", (1, samples, 1), constants, onesided=1)


def _forward() -> onnx.ModelProto:
    return _model("Conv", (16, 1, 25600), {"w": _weight((129, 1, 256))}, strides=[64], pads=[256, 256])


CASES = (
    Case("Conv, K 256 s 64", _forward, {"x": (16, 1, 25600)}, (16 * 405, 256, 129)),
    Case("its ConvTranspose (JAX report)", _transposed(16, 129, 400, 256, 64), {"x": (16, 129, 400)}, (6400, 129, 256)),
    Case("inverse STFT, n 256", _inverse_stft(16, 256, 400, 64), {"x": (16, 258, 400)}, (6400, 258, 256)),
    Case(
        "ConvTranspose, K 4096 (WebGPU report)",
        _transposed(8, 4098, 435, 4096, 1024),
        {"x": (8, 4098, 435)},
        (3480, 4098, 4096),
    ),
    Case("inverse STFT, n 4096", _inverse_stft(8, 4096, 435, 1024), {"x": (8, 4098, 435)}, (3480, 4098, 4096)),
    Case("STFT of 30 s, n 400 hop 160", lambda: _stft(480_000, 400, 160), {"x": (1, 480_000, 1)}),
)
