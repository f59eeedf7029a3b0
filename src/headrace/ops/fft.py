"""Fast Fourier transforms: the passes, Bluestein's form for lengths with large factors, and real transforms packed.

All work on lazy tensors whose first axis is the transform and whose last one counts transforms, so that neighbouring
threads touch neighbouring elements in every pass and nothing is ever transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.expr import Buffer, Coords, Fill, Map, Stored, Tensor, View, expanded, reshaped
from ..kernels.helpers import functions_text
from ..kernels.index import unflatten, variable
from ..kernels.size import at_least, largest
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .movement import Pad, Take, sliced
from .registry import Call

BUTTERFLIES = (16, 8, 5, 4, 3, 2)
LARGEST_FACTOR = 31  # larger prime factors go through Bluestein's form
ACCESS_FLOPS = 12  # what an access to memory costs in a pass, in operations of a dense product (measured: 9 to 17)
FLOAT = ir.DataType.FLOAT


@dataclass(frozen=True)
class Pass(Template):
    """One pass of radix `radix` over `count` transforms of `length`; `before` is the product of the radices so far.

    Inputs: real and imaginary parts [length, count], the roots of unity, and with `hermitian` or `times` a factor for
    each element (see fft.wgsl). Result: [length, 2, count].
    """

    length: int
    count: int
    radix: int
    before: int
    inverse: bool
    hermitian: bool = False
    times: bool = False
    name = "fft"

    def build(self, b: Build) -> Launch:
        after = self.length // (self.before * self.radix)
        k, t, c = variable("k", self.length + self.hermitian), variable("t", self.count), variable("c", 2)
        inner = variable("k", self.length + self.hermitian, 1)
        b.read("re", 0, (inner, t), ("t",), ("k",), any_map=True)
        b.read("im", 1, (inner, t), ("t",), ("k",), any_map=True)
        b.read("w", 2, (c, k), ("c", "k"))
        b.read("f", 3 if self.hermitian or self.times else 2, (c, k), ("c", "k"))
        b.store("store_out", ["k", "c", "t"], [(variable("k", self.length), c, t)], [("v", "f32")])
        sign = "1.0" if self.inverse else "-1.0"
        b.text.const(SIGN=sign, HERMITIAN=self.hermitian, TIMES=self.times, LAST=after == 1)
        direct = self.radix not in BUTTERFLIES
        threads = self.count * (self.length if direct else self.length // self.radix)
        groups = spread(ceil_div(threads, 64), b.target.workgroups)
        b.text.uniform(N=self.length, S=self.before, M=after, R=self.radix, T=self.count, GROUPS_X=groups[0])
        b.text.uniform_as("SIZE", "u32", threads)
        flops = 8 * self.count * self.length * (self.radix if direct else self.radix.bit_length())
        if direct:
            return Launch(wgsl(__file__, "fft_direct.wgsl"), (*groups, 1), flops)
        b.text.functions.append(functions_text(wgsl(__file__, "fft_radix.wgsl"), f"butterfly{self.radix}"))
        text = wgsl(__file__, "fft.wgsl").replace("butterfly(", f"butterfly{self.radix}(")
        return Launch(text, (*groups, 1), flops)


@dataclass(frozen=True, slots=True)
class Parts:
    """A complex tensor: real and imaginary parts [length, count], and where they lie together, that [length, 2,
    count]."""

    re: Tensor
    im: Tensor
    whole: Tensor | None = None


@lru_cache(maxsize=256)
def factors(n: int) -> tuple[int, ...]:
    """Radices of the passes for length n: few large powers of two, then odd primes."""
    twos = (n & -n).bit_length() - 1
    passes = ceil_div(twos, 4)
    found = [1 << (twos // passes + (i < twos % passes)) for i in range(passes)]
    n >>= twos
    p = 3
    while p <= isqrt(n):
        while n % p == 0:
            found.append(p)
            n //= p
        p += 2
    return (*found, n) if n > 1 else tuple(found)


def smooth(n: int) -> bool:
    """Whether the passes alone do: no large prime factor."""
    return max(factors(n), default=1) <= LARGEST_FACTOR


@lru_cache(maxsize=256)
def padded_length(n: int) -> int:
    """The cheapest length of at least 2n - 1, for Bluestein's form."""
    least = 2 * n - 1
    options = [o << max(0, (ceil_div(least, o) - 1).bit_length()) for o in (1, 3, 5, 9, 15)]
    return min(options, key=lambda m: m * (len(factors(m)) + 0.5))


def accesses(n: int, real: bool = True) -> float:
    """Memory accesses of one transform: what it costs, nearly."""
    length = n // 2 if real and n % 2 == 0 else n
    if smooth(length):
        extra = sum(p for p in factors(length) if p not in BUTTERFLIES)
        return 4.0 * length * len(factors(length)) + 2.0 * length * extra + 4.0 * n
    m = padded_length(length)
    return 2 * (4.0 * m * (len(factors(m)) + 0.5)) + 6.0 * n


def pays(n: int, dense_flops: float) -> bool:
    """Whether a real transform of length n beats a dense form of so many operations for the same transform."""
    return dense_flops > 1.3 * ACCESS_FLOPS * accesses(n)


@lru_cache(maxsize=64)
def roots(n: int) -> Array:
    """e^(2 pi i k / n) as [2, n], exact to float64 and rounded once."""
    angle = np.exp(2j * np.pi * np.arange(n) / n)
    for eighth in range(0, n * 4 + 1, n):  # where the cosine or the sine is 0, it is that
        if eighth % 4 == 0 and eighth // 4 < n:
            angle[eighth // 4] = 1j ** (eighth // n)
    return np.stack([angle.real, angle.imag]).astype(np.float32)


@lru_cache(maxsize=64)
def chirp(n: int, inverse: bool) -> npt.NDArray[np.complex128]:
    """e^(+-i pi j^2 / n), its angle reduced before it is rounded."""
    j = np.arange(n, dtype=np.int64)
    found: npt.NDArray[np.complex128] = np.exp((1j if inverse else -1j) * np.pi * (j * j % (2 * n)) / n)
    return found


@lru_cache(maxsize=64)
def chirp_tables(n: int, inverse: bool) -> tuple[Array, Array]:
    """Bluestein's two factors as [2, m]: for the padded input, and for its spectrum (1 / m included)."""
    m, c = padded_length(n), chirp(n, inverse)
    first = np.zeros(m, complex)
    first[:n] = c
    kernel = np.zeros(m, complex)
    kernel[:n] = np.conj(c)
    kernel[m - n + 1 :] = np.conj(c[:0:-1])
    second = np.fft.fft(kernel) / m
    one, two = (np.stack([v.real, v.imag]).astype(np.float32) for v in (first, second))
    return one, two


def table(name: str, data: Array) -> Tensor:
    """A constant that is shared by all that ask for it under this name."""
    return Buffer(name, data.shape, ir.DataType.from_numpy(data.dtype), data)


def transform(
    call: Call, x: Parts, n: int, inverse: bool, hermitian: bool = False, times: tuple[str, Array] | None = None
) -> Parts:
    """The unscaled DFT of length n along the first axis. With `hermitian`, x holds bins 0 ... n of a real signal of
    length 2n, and the result's real parts are its even samples. `times` is a factor for each element of x."""
    if not smooth(n):
        return _bluestein(call, x, n, inverse)
    count, before = x.re.shape[1], 1
    for radix in factors(n):
        kind = Pass(n, count, radix, before, inverse, hermitian and before == 1, times is not None and before == 1)
        inputs = [x.re, x.im, table(f"fft roots {n}", roots(n))]
        if kind.hermitian:
            inputs.append(table(f"fft roots {2 * n}", roots(2 * n)))
        elif kind.times and times:
            inputs.append(table(*times))
        x = _parts(call, call.heavy(kind, inputs, (n, 2, count), FLOAT), n)
        before *= radix
    return x


def _parts(call: Call, whole: Tensor, n: int) -> Parts:
    count = whole.shape[2]
    re, im = (reshaped(sliced(whole, (0, c, 0), (1, 1, 1), (n, 1, count), call.node), (n, count)) for c in (0, 1))
    return Parts(re, im, whole)


def _bluestein(call: Call, x: Parts, n: int, inverse: bool) -> Parts:
    m, c = padded_length(n), chirp(n, inverse)
    first, second = chirp_tables(n, inverse)
    name = f"fft chirp {n} {'inverse' if inverse else 'forward'}"
    wide = Parts(*(padded(v, m, call.node) for v in (x.re, x.im)))
    spectrum = transform(call, wide, m, False, times=(name, first))
    y = transform(call, spectrum, m, True, times=(f"{name} spectrum", second))
    re, im = (sliced(v, (0, 0), (1, 1), (n, v.shape[1]), call.node) for v in (y.re, y.im))
    cos, sin = columns(call, np.stack([c.real, c.imag]), re.shape)
    real = Map("{0} * {2} - {1} * {3}", [re, im, cos, sin], FLOAT, call.node, 3)
    return Parts(real, Map("{0} * {3} + {1} * {2}", [re, im, cos, sin], FLOAT, call.node, 3))


def padded(x: Tensor, n: int, node: str) -> Tensor:
    """x with zeros behind it along the first axis, or cut, to length n."""
    if x.shape[0] >= n:
        return sliced(x, (0, 0), (1, 1), (n, x.shape[1]), node)
    return Pad(x, Fill(0, (), x.dtype), (0, 0), (n - x.shape[0], 0), node)


def columns(call: Call, values: npt.NDArray[np.float64], shape: tuple[int, ...]) -> list[Tensor]:
    """For each row of `values`, one number a row of a tensor of `shape` [rows, count]; all of them in one constant."""
    data = values.astype(np.float32)
    if (data == data[:, :1]).all():
        return [Fill(float(v), shape, FLOAT) for v in data[:, 0]]
    return [expanded(reshaped(v, (shape[0], 1)), shape, call.node) for v in _rows(call, data)]


def _rows(call: Call, data: Array) -> list[Tensor]:
    whole, n = call.lift(np.ascontiguousarray(data), call.node), data.shape[1]
    return [reshaped(sliced(whole, (i, 0), (1, 1), (1, n), call.node), (n,)) for i in range(len(data))]


def rows_at(call: Call, x: Sequence[Tensor], index: Sequence[npt.NDArray[np.int64]]) -> list[Tensor]:
    """x[i][index[i]] along the first axis; indices that are no runs are in one constant."""
    runs = [len(i) == 1 or bool((np.diff(i) == 1).all()) for i in index]
    loose = {i.tobytes(): i for i, run in zip(index, runs, strict=True) if not run}
    stored = dict(zip(loose, _rows(call, np.stack(list(loose.values()))), strict=True)) if loose else {}
    found: list[Tensor] = []
    for v, i, run in zip(x, index, runs, strict=True):
        cut = sliced(v, (int(i[0]), 0), (1, 1), (len(i), v.shape[1]), call.node)
        found.append(cut if run else Take(v, stored[i.tobytes()], 0, call.node))
    return found


def analyse(
    call: Call, frames: Tensor, n: int, bins: npt.NDArray[np.int64], coefficients: npt.NDArray[np.complex128]
) -> Tensor:
    """[n, count] real samples -> [rows, count]: row r is the sum over k of Re(coefficients[r] e^(2 pi i bins[r] k / n))
    times sample k. Rows are linear in the parts of a packed transform of half the length, where n is even."""
    alpha, beta = coefficients.real, coefficients.imag
    count = frames.shape[1]
    if n % 2 or n < 4:
        z = transform(call, Parts(frames, Fill(0, frames.shape, FLOAT)), n, False)
        terms = [(z.re, bins % n, alpha), (z.im, bins % n, beta)]
    else:
        half = n // 2
        apart = reshaped(frames, (half, 2, count), call.node)
        z = transform(call, _parts(call, apart, half), half, False)
        angle = -2 * np.pi * (bins % n) / n
        c, s = np.cos(angle), np.sin(angle)
        u, v = c * alpha + s * beta, s * alpha - c * beta
        here, there = bins % half, -bins % half
        terms = [
            (z.re, here, (alpha + v) / 2),
            (z.re, there, (alpha - v) / 2),
            (z.im, here, (beta + u) / 2),
            (z.im, there, (u - beta) / 2),
        ]
    shape = (len(bins), count)
    scales = columns(call, np.stack([scale for _, _, scale in terms]), shape)
    rows = rows_at(call, [x for x, _, _ in terms], [index for _, index, _ in terms])
    text = " + ".join(f"{{{i}}} * {{{i + len(terms)}}}" for i in range(len(terms)))
    return Map(text, [*rows, *scales], FLOAT, call.node, 2 * len(terms))


def synthesise(call: Call, spectrum: Parts, n: int) -> Tensor:
    """Bins 0 ... n // 2 [n // 2 + 1, count] -> [n, count], the real inverse DFT without a factor: inner bins count
    twice, as themselves and as their mirrors; imaginary parts of the edges count for nothing."""
    count = spectrum.re.shape[1]
    if n % 2 == 0 and n >= 4 and smooth(n // 2):
        z = transform(call, spectrum, n // 2, True, hermitian=True)
        assert z.whole is not None
        return reshaped(z.whole, (n, count), call.node)
    weight = np.full(n // 2 + 1, 2.0)
    weight[0] = 1
    if n % 2 == 0:
        weight[-1] = 1
    (scale,) = columns(call, weight[None], spectrum.re.shape)
    both = (Map("{0} * {1}", [v, scale], FLOAT, call.node) for v in (spectrum.re, spectrum.im))
    return transform(call, Parts(*(padded(v, n, call.node) for v in both)), n, True).re


@dataclass(frozen=True)
class OverlapAdd(Template):
    """Frames [length, batch * frames] times a window, added where they overlap: [batch, size]. Taps past `length` are
    the frame again. Inputs: frames and the window [taps]."""

    batch: int
    frames: int
    length: int
    taps: int
    stride: int
    begin: int
    size: int
    name = "overlap_add"

    def build(self, b: Build) -> Launch:
        signal, k, f = variable("b", self.batch), variable("k", self.length), variable("f", self.frames, 1)
        b.read("x", 0, (k, signal * self.frames + f), ("b", "k"), ("f",), any_map=True)
        b.read("window", 1, (variable("k", self.taps),), ("k",))
        first = self.begin // self.stride
        count = ceil_div(self.size + self.begin, self.stride) - first
        threads = ceil_div(self.stride, 16) * self.batch * ceil_div(count, 4)
        groups = spread(ceil_div(threads, 64), b.target.workgroups)
        b.store("store_out", ["b", "o"], [(signal, variable("o", self.size))], [("v", "f32")])
        b.text.const(WRAPS=self.taps > self.length)
        b.text.uniform(
            FIRST=first, QUARTERS=ceil_div(count, 4), BATCH=self.batch, STRIDE=self.stride, FRAMES=self.frames
        )
        b.text.uniform(BEGIN=self.begin, TAPS=self.taps, LENGTH=self.length, OUT=self.size, GROUPS_X=groups[0])
        b.text.uniform_as("SIZE", "u32", threads)
        flops = 2 * self.batch * self.size * ceil_div(self.taps, self.stride)
        return Launch(wgsl(__file__, "overlap_add.wgsl"), (*groups, 1), flops)


def framed(call: Call, x: Tensor, taps: int, stride: int, step: int, count: int, before: int = 0) -> Tensor:
    """Frames [taps, batch * count] of signals [batch, samples]: tap k of frame f is sample f * stride + k * step -
    before, zero outside."""
    batch, samples = x.shape
    after = (count - 1) * stride + (taps - 1) * step + 1 - before - samples
    if before > 0 or not at_least(0, after):
        x = Stored(Pad(x, Fill(0, (), x.dtype), (0, max(before, 0)), (0, largest(after, 0)), call.node), call.node)
        before = min(before, 0)

    def source(c: Coords) -> Coords:
        signal, frame = unflatten(c[1], (batch, count))
        return (signal, frame * stride + c[0] * step + (-before))

    return View("frames", x, (taps, batch * count), source, call.node)


def folded(call: Call, frames: Tensor, n: int) -> Tensor:
    """Frames [taps, count] as [n, count]: zeros behind short ones, long ones added to themselves."""
    taps, count = frames.shape
    if taps <= n:
        return padded(frames, n, call.node)
    turns = ceil_div(taps, n)
    wide = padded(frames, turns * n, call.node)
    parts = [sliced(wide, (i * n, 0), (1, 1), (n, count), call.node) for i in range(turns)]
    return Map(" + ".join(f"{{{i}}}" for i in range(turns)), parts, FLOAT, call.node, turns)
