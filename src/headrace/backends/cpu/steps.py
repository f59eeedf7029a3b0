"""What runs beside ONNX Runtime on the CPU: transforms that it would compute as dense products."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.fft

from .transform import BLOCK_SAMPLES, Transform

Array = npt.NDArray[Any]
Task = Callable[[], None]


class Workers:
    """Threads for the tasks of one step; numpy and scipy.fft release the interpreter lock inside them."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, "headrace") if threads > 1 else None

    def run(self, tasks: Sequence[Task]) -> None:
        if self._pool is None or len(tasks) < 2:
            for task in tasks:
                task()
        else:
            for _ in self._pool.map(lambda task: task(), tasks):
                pass

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class Step(Protocol):
    """One node's worth of work outside ONNX Runtime."""

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        """Arrays of the node's inputs (None where it is left out) to arrays of its outputs."""


def _compute_dtype(x: Array) -> np.dtype:
    return np.dtype(np.float64 if x.dtype == np.float64 else np.float32)


def _ranges(length: int, parts: int) -> Iterable[tuple[int, int]]:
    """`length` cut into at most `parts` nearly equal ranges, none of them empty."""
    edges = np.linspace(0, length, min(parts, length) + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Reshape of a graph output: ONNX Runtime copies it, numpy does not. Zeros in `shape` keep a dimension."""

    shape: tuple[int, ...]

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        (x,) = inputs
        assert x is not None
        return [x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(self.shape)])]


@dataclass(frozen=True, slots=True, eq=False)
class OverlapAdd:
    """ConvTranspose by a DFT basis: x [batch, rows, frames] -> [batch, 1, (frames - 1)·stride + taps - begin - end].

    Where the convolution is 2- or 3-D, `before` and `after` axes of size one stand around the frames and the samples.
    """

    transform: Transform
    stride: int
    begin: int
    end: int
    before: int = 0
    after: int = 0

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        x, bias = inputs[0], inputs[1] if len(inputs) > 1 else None
        assert x is not None
        dtype = _compute_dtype(x)
        batch, frames = x.shape[0], x.shape[2 + self.before]
        rows = x.reshape(batch, x.shape[1], frames).astype(dtype, copy=False)
        length = max((frames - 1) * self.stride + self.transform.taps - self.begin - self.end, 0) if frames else 0
        out = np.empty((batch, 1, length), dtype)
        together = max(
            1, min(self.transform.block // max(frames, 1), -(-batch // workers.threads))
        )  # signals at a time
        cuts = max(1, 2 * workers.threads * together // max(batch, 1))
        pieces = [(b, t) for b in range(0, batch, together) for t in _ranges(frames, cuts)]
        sums: dict[tuple[int, tuple[int, int]], Array] = {}

        def piece(b: int, span: tuple[int, int]) -> Task:
            def task() -> None:
                total = self._sum(rows[b : b + together], *span)
                if cuts == 1:
                    _copy_cropped(out[b : b + together, 0], total, self.begin)
                else:
                    sums[b, span] = total

            return task

        workers.run([piece(*p) for p in pieces])
        if cuts > 1 or not pieces:
            out[...] = 0
        for (b, span), total in sums.items():
            _add_cropped(out[b : b + together, 0], total, span[0] * self.stride - self.begin)
        if bias is not None:
            out += bias.reshape(1, -1, 1)
        return [out.astype(x.dtype, copy=False).reshape(_among_ones(out.shape, self.before, self.after))]

    def _sum(self, rows: Array, first: int, last: int) -> Array:
        """Frames first … last-1 of some signals [signals, rows, frames], windowed and added where they overlap."""
        stride, taps = self.stride, self.transform.taps
        shifts = -(-taps // stride)
        total = np.zeros((len(rows), last - first + shifts - 1, stride), rows.dtype)
        for a in range(first, last, self.transform.block):
            z = min(a + self.transform.block, last)
            samples = self.transform.synthesise(rows[:, :, a:z])
            for j in range(shifts):
                part = samples[..., j * stride : (j + 1) * stride]
                total[:, a - first + j : z - first + j, : part.shape[-1]] += part
        return total.reshape(len(rows), -1)


def _among_ones(shape: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """The last axis of a shape with axes of size one on either side."""
    return (*shape[:-1], *(1,) * before, shape[-1], *(1,) * after)


def _copy_cropped(out: Array, whole: Array, begin: int) -> None:
    """`whole` from position `begin` on, with zeros where it ends before `out` does."""
    part = whole[..., begin : begin + out.shape[-1]]
    out[..., : part.shape[-1]] = part
    out[..., part.shape[-1] :] = 0


def _add_cropped(out: Array, piece: Array, at: int) -> None:
    """Add `piece` to `out` from position `at`, which may lie before its start; what falls outside is cropped."""
    first, last = max(at, 0), min(at + piece.shape[-1], out.shape[-1])
    if last > first:
        out[..., first:last] += piece[..., first - at : last - at]


@dataclass(frozen=True, slots=True, eq=False)
class FramedTransform:
    """Conv by a DFT basis: x [batch, 1, samples] -> [batch, rows, frames]. `pads`: (begin, end) or an auto_pad."""

    transform: Transform
    stride: int
    pads: tuple[int, int] | str
    before: int = 0
    after: int = 0

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        x, bias = inputs[0], inputs[1] if len(inputs) > 1 else None
        assert x is not None
        signal = x.reshape(x.shape[0], x.shape[2 + self.before]).astype(_compute_dtype(x), copy=False)
        signal = np.pad(signal, ((0, 0), self._pads(signal.shape[1])))
        frames = max((signal.shape[1] - self.transform.taps) // self.stride + 1, 0)
        out = np.empty((len(signal), self.transform.rows, frames), signal.dtype)

        def block(b: int, first: int, last: int) -> Task:
            def task() -> None:
                view = np.lib.stride_tricks.sliding_window_view(signal[b], self.transform.taps)[:: self.stride]
                size = self.transform.block
                for a in range(first, last, size):
                    z = min(a + size, last)
                    self.transform.analyse(view[a:z], out[b, :, a:z].T)

            return task

        parts = max(1, workers.threads * 2 // max(len(signal), 1))
        workers.run([block(b, a, z) for b in range(len(signal)) for a, z in _ranges(frames, parts)])
        if bias is not None:
            out += bias.reshape(1, -1, 1)
        return [out.astype(x.dtype, copy=False).reshape(_among_ones(out.shape, self.before, self.after))]

    def _pads(self, length: int) -> tuple[int, int]:
        if not isinstance(self.pads, str):
            return self.pads
        frames = -(-length // self.stride)
        total = max((frames - 1) * self.stride + self.transform.taps - length, 0)
        half = total // 2
        return (half, total - half) if self.pads == "SAME_UPPER" else (total - half, half)


@dataclass(frozen=True, slots=True, eq=False)
class ProductTransform:
    """MatMul with a DFT basis: x [..., taps] -> [..., rows], or with `inverse` x [..., rows] -> [..., taps]."""

    transform: Transform
    inverse: bool
    axis: int = -1  # -2: the constant stands on the left

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        x = inputs[0]
        assert x is not None
        moved = np.moveaxis(x, self.axis, -1)
        flat = moved.reshape(-1, moved.shape[-1]).astype(_compute_dtype(x), copy=False)
        width = self.transform.taps if self.inverse else self.transform.rows
        out = np.empty((len(flat), width), flat.dtype)

        def block(first: int, last: int) -> Task:
            def task() -> None:
                size = self.transform.block
                for a in range(first, last, size):
                    z = min(a + size, last)
                    if self.inverse:
                        out[a:z] = self.transform.synthesise(flat[a:z].T)
                    else:
                        self.transform.analyse(flat[a:z], out[a:z])

            return task

        workers.run([block(a, z) for a, z in _ranges(len(flat), workers.threads * 2)])
        shaped = np.moveaxis(out.reshape(*moved.shape[:-1], width), -1, self.axis)
        return [np.ascontiguousarray(shaped, dtype=x.dtype)]


@dataclass(frozen=True, slots=True, eq=False)
class Stft:
    """ONNX STFT: signal [batch, samples, 1|2], step, window?, length? -> [batch, frames, bins, 2]."""

    onesided: bool

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        signal, step, window, length = (*inputs, None, None)[:4]
        assert signal is not None and step is not None
        hop = int(step.reshape(-1)[0])
        n = int(length.reshape(-1)[0]) if length is not None else len(window)  # type: ignore[arg-type]
        dtype = _compute_dtype(signal)
        width = signal.shape[2] if signal.ndim > 2 else 1  # real, or real and imaginary
        x = signal.reshape(*signal.shape[:2], width).astype(dtype, copy=False)
        values = x[..., 0] if x.shape[2] == 1 else x[..., 0] + 1j * x[..., 1]
        taps = np.ones(n, dtype) if window is None else window.astype(dtype)
        taps = np.pad(taps, (0, max(n - len(taps), 0)))[:n]  # a shorter window stands at the start of the frame
        frames = max((values.shape[1] - n) // hop + 1, 0)
        bins = n // 2 + 1 if self.onesided else n
        out = np.empty((len(values), frames, bins), np.result_type(dtype, np.complex64))
        transform = scipy.fft.rfft if self.onesided and values.dtype.kind == "f" else scipy.fft.fft

        def block(b: int, first: int, last: int) -> Task:
            def task() -> None:
                view = np.lib.stride_tricks.sliding_window_view(values[b], n)[::hop]
                size = max(BLOCK_SAMPLES // n, 16)
                for a in range(first, last, size):
                    z = min(a + size, last)
                    out[b, a:z] = transform(view[a:z] * taps, axis=1)[:, :bins]

            return task

        parts = max(1, workers.threads * 2 // max(len(values), 1))
        workers.run([block(b, a, z) for b in range(len(values)) for a, z in _ranges(frames, parts)])
        return [out.view(dtype).reshape(*out.shape, 2).astype(signal.dtype, copy=False)]


@dataclass(frozen=True, slots=True, eq=False)
class Dft:
    """ONNX DFT: x [..., n, ..., 1|2], dft_length?, axis? -> the transform along `axis`, real and imaginary last."""

    inverse: bool
    onesided: bool
    axis: int  # where the node does not give it as an input

    def __call__(self, inputs: Sequence[Array | None], workers: Workers) -> list[Array]:
        x, length, axis_input = (*inputs, None, None)[:3]
        assert x is not None
        axis = int(axis_input.reshape(-1)[0]) if axis_input is not None else self.axis
        axis %= x.ndim
        dtype = _compute_dtype(x)
        data = x.astype(dtype, copy=False)
        real_result = self.inverse and self.onesided
        values = (
            data[..., 0]
            if x.shape[-1] == 1
            else np.ascontiguousarray(data).view(np.result_type(dtype, np.complex64))[..., 0]
        )
        n = int(length.reshape(-1)[0]) if length is not None else self._default_length(values.shape[axis], real_result)
        if n <= 0:
            raise ValueError(f"DFT length must be positive, not {n}")
        if real_result:
            result = scipy.fft.irfft(values, n, axis=axis, workers=workers.threads)[..., None]
        elif self.inverse:
            result = scipy.fft.ifft(values, n, axis=axis, workers=workers.threads)
        elif self.onesided and values.dtype.kind == "f":
            result = scipy.fft.rfft(values, n, axis=axis, workers=workers.threads)
        else:
            result = scipy.fft.fft(values, n, axis=axis, workers=workers.threads)
            if self.onesided:
                result = np.take(result, range(n // 2 + 1), axis=axis)
        if result.dtype.kind == "c":
            result = np.ascontiguousarray(result).view(dtype).reshape(*result.shape, 2)
        return [np.ascontiguousarray(result, dtype=x.dtype)]

    @staticmethod
    def _default_length(size: int, real_result: bool) -> int:
        return 2 * (size - 1) if real_result else size
