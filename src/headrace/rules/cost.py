"""What a transposed convolution costs in each form on a CPU: a model that can be printed.

ONNX Runtime's ConvTranspose is a matrix multiplication into a column matrix that is then scattered (col2im). The
scatter strides over the output: from 256 samples on, the strides fall on few cache sets and an element costs ten times
as much. The polyphase form has no scatter, but reads its input `taps` times and shuffles its output. The constants are
nanoseconds an element on two cores of a current x86 server at 380 GFLOP/s; only ratios are used, and a rewrite must
promise `MARGIN` before it is taken, so that another machine's constants do not turn a gain into a loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

GFLOPS = 380.0
MARGIN = 1.2
FFT_NS = 0.13  # per n·log2(n) of one frame: transform, window, overlap-add and memory
FFT_OVERHEAD_MS = 0.12  # leaving ONNX Runtime and coming back
SCATTER_SPAN_BYTES = 80_000  # an output row that fits in the first-level caches does not thrash them


@dataclass(frozen=True, slots=True)
class ConvTransposeSize:
    """Sizes of one transposed convolution: x [batch, groups·in_channels, *spatial], w [.., out_channels, *kernel]."""

    batch: int
    groups: int
    in_channels: int  # of one group
    out_channels: int  # of one group
    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def taps(self) -> tuple[int, ...]:
        return tuple(-(-k // s) for k, s in zip(self.kernel, self.strides, strict=True))

    @property
    def frames(self) -> int:
        return self.batch * math.prod(self.spatial)

    @property
    def flops(self) -> float:
        return 2.0 * self.frames * self.groups * self.in_channels * self.out_channels * math.prod(self.kernel)


def gemm_ms(flops: float) -> float:
    return flops / GFLOPS / 1e6


def scatter_ms(size: ConvTransposeSize) -> float:
    """ONNX Runtime's own node: GEMM, then col2im."""
    stride, span = size.strides[-1], size.spatial[-1] * size.strides[-1] * 4
    steps = ((64, 0.4), (128, 0.6), (256, 0.9), (512, 4.2))
    element = next((ns for below, ns in steps if stride < below), 6.4)
    if span < SCATTER_SPAN_BYTES:
        element = min(element, 0.9)
    columns = size.frames * size.groups * size.out_channels * math.prod(size.kernel)
    return gemm_ms(size.flops) + element * columns / 1e6


def polyphase_ms(size: ConvTransposeSize) -> float:
    """The same as an ordinary convolution with ceil(K/S) taps and S·Cout channels, and a pixel shuffle."""
    taps, stride = math.prod(size.taps), math.prod(size.strides)
    places = math.prod(t + r - 1 for t, r in zip(size.spatial, size.taps, strict=True))
    frames = size.batch * places
    flops = 2.0 * frames * size.groups * size.in_channels * size.out_channels * stride * taps
    efficiency = 1.0 if places >= 128 else 1.25 if places >= 80 else 1.5
    shuffle = 6.0
    if len(size.strides) == 1:
        shuffle = 0.35 if stride >= 32 else 1.0 if stride >= 8 else 2.5
    columns = frames * size.groups * size.in_channels * taps if taps > 1 else 0
    narrow = size.out_channels * stride < 64  # the product then reads its columns more than it multiplies
    moved = (0.15 if narrow else 0.04) * columns
    moved += shuffle * frames * size.groups * size.out_channels * stride
    return efficiency * gemm_ms(flops) + moved / 1e6 + 0.01


def fft_ms(frames: int, n: int) -> float:
    """`frames` real transforms of length `n`, with the windowing and overlap-add around them."""
    return FFT_OVERHEAD_MS + frames * FFT_NS * n * math.log2(max(n, 2)) * _prime_penalty(n) / 1e6


def _prime_penalty(n: int) -> float:
    """A length with a large prime factor goes through Bluestein's algorithm: three transforms of twice the length."""
    for prime in (2, 3, 5, 7, 11):
        while n % prime == 0:
            n //= prime
    return 1.0 if n == 1 else 5.0


def filled(dims: Sequence[int | None], guess: int = 512) -> tuple[int, ...]:
    """Dimensions with a typical length in the place of those that are not known before the run."""
    return tuple(guess if d is None else d for d in dims)
