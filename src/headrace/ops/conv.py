"""Convolution: Conv, and the implicit matrix product that transposed convolution shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ..dtypes import Array
from ..kernels.expr import Fill, Map, Stored, Tensor, View, expanded, reshaped, transposed
from ..kernels.index import ZERO, Lin, unflatten, variable
from ..kernels.size import largest, same
from ..kernels.template import Build, Launch, Template, ceil_div, wgsl
from .conv_slide import build_slide, slides
from .fft_basis import forward_stft
from .matmul import SHARED_BYTES, SHARED_TILE, MatMul, floats_only, shares, tile
from .movement import Pad, sliced
from .registry import Call, Refuse, Value, broadcast, op

AXES = ("z", "y", "x")


@dataclass(frozen=True)
class Window:
    """Taps, strides, dilations and leading pads, one entry a spatial axis, and the sizes before and after."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    inside: tuple[int, ...]
    outside: tuple[int, ...]

    @property
    def padded(self) -> bool:
        """Whether any tap can fall outside the input."""
        return any(
            b > 0 or (o - 1) * s + (k - 1) * d - b >= n
            for k, s, d, b, n, o in zip(
                self.taps, self.strides, self.dilations, self.before, self.inside, self.outside, strict=True
            )
        )

    @property
    def iterations(self) -> int:
        """Of the nested loops over the taps, as three axes."""
        walked = [1] * (3 - len(self.taps)) + list(self.taps)
        return sum(prod(walked[: i + 1]) for i in range(3))

    def declare(self, b: Build) -> None:
        """Constants and uniforms of a kernel that walks the window, always as three axes."""
        lead = (1,) * (3 - len(self.taps))
        zero = (0,) * len(lead)
        for name, ones, values in (
            ("K", lead, self.taps),
            ("S", lead, self.strides),
            ("D", lead, self.dilations),
            ("P", zero, self.before),
        ):
            b.text.const(**{name + a.upper(): v for a, v in zip(AXES, (*ones, *values), strict=True)})
        inside, outside = (*lead, *self.inside), (*lead, *self.outside)
        b.text.uniform(
            IN_Z=inside[0],
            IN_Y=inside[1],
            IN_X=inside[2],
            OUT=prod(outside),
            OUT_YX=outside[1] * outside[2],
            OUT_X=outside[2],
        )

    def position(self) -> list[Lin]:
        """Variables z, y, x of an input position, as many as there are axes."""
        return [variable(a, n) for a, n in zip(AXES[3 - len(self.inside) :], self.inside, strict=True)]


@dataclass(frozen=True)
class Conv(Template):
    """out[n, g*M + m, o] = sum over taps and channels of x[n, g*C + c, o*stride + tap*dilation - before] * w[tap, c,
    g*M + m].

    With `shuffle`, m is (phase, channel) and the result goes to position o*shuffle + phase - crop: a transposed
    convolution. Weights are [taps, channels of a group, all rows].
    """

    batch: int
    groups: int
    rows: int
    channels: int
    window: Window
    shuffle: tuple[int, ...] = ()
    crop: tuple[int, ...] = ()
    result: tuple[int, ...] = ()
    name = "conv"
    costly_reads = True

    def build(self, b: Build) -> Launch:
        if slides(b.target, self.window, self.rows):
            return build_slide(self, b)
        w, positions = self.window, self.batch * prod(self.window.outside)
        rows, columns, lanes = tile(self.rows, positions)
        g, n, c = variable("g", self.groups), variable("n", self.batch), variable("c", self.channels, 1)
        m, tap, p = variable("m", self.rows), variable("t", prod(w.taps)), variable("p", positions)
        b.read("x", 0, (n, g * self.channels + c, *w.position()), ("g", "n", *AXES), ("c",))
        b.read("w", 1, (tap, c, g * self.rows + m), ("g", "m", "t"), ("c",))
        b.text.const(PADDED=w.padded)
        w.declare(b)
        b.text.uniform(M=self.rows, N=positions, CIN=self.channels, TAPS=prod(w.taps))
        batch, *place = unflatten(p, (self.batch, *w.outside))
        self.store_at(b, ["g", "m", "p"], g, m, batch, place)
        if shares(b.target, self.rows, positions, self.channels):
            tiles = (ceil_div(positions, SHARED_TILE), ceil_div(self.rows, SHARED_TILE), self.groups)
            return Launch(wgsl(__file__, "conv_shared.wgsl"), tiles, self.flops, (256, 1, 1), SHARED_BYTES)
        b.text.const(TM=rows, TN=columns, LANES=lanes)
        groups = (ceil_div(positions, lanes * columns), ceil_div(self.rows, rows), self.groups)
        return Launch(wgsl(__file__, "conv.wgsl"), groups, self.flops, (lanes, 1, 1))

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        positions = self.batch * prod(self.window.outside)
        return 2 * positions * self.groups * self.rows * self.channels * prod(self.window.taps)

    def store_at(self, b: Build, variables: Sequence[str], g: Lin, m: Lin, n: Lin, o: Sequence[Lin]) -> None:
        """Write `store_out(variables..., v)` for row m of group g at position o of batch n."""
        if not self.shuffle:
            b.store("store_out", variables, [(n, g * self.rows + m, *o)], [("v", "f32")])
            return
        phases = prod(self.shuffle)
        phase = unflatten(m // (self.rows // phases), self.shuffle)
        place = [q * s + f + (-c) for q, s, f, c in zip(o, self.shuffle, phase, self.crop, strict=True)]
        channel = g * (self.rows // phases) + m % (self.rows // phases)
        guard = list(zip(place, self.result, strict=True))
        b.store("store_out", variables, [(n, channel, *place)], [("v", "f32")], guard)


def window_of(call: Call, taps: Sequence[int], inside: Sequence[int]) -> Window:
    """The window that a node's attributes describe; auto_pad included."""
    rank = len(taps)
    strides = tuple(call.attr("strides") or (1,) * rank)
    dilations = tuple(call.attr("dilations") or (1,) * rank)
    pads = list(call.attr("pads") or (0,) * 2 * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    mode = call.attr("auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        for i, (n, s, span) in enumerate(zip(inside, strides, spans, strict=True)):
            total = max((-(-n // s) - 1) * s + span - n, 0)
            pads[i] = (total + 1) // 2 if mode == "SAME_LOWER" else total // 2
            pads[i + rank] = total - pads[i]
    elif mode == "VALID":
        pads = [0] * 2 * rank
    ceil = bool(call.attr("ceil_mode", 0))
    outside = []
    for i, (n, s, span) in enumerate(zip(inside, strides, spans, strict=True)):
        room = n + pads[i] + pads[i + rank] - span
        size = (ceil_div(room, s) if ceil else room // s) + 1
        if ceil and (size - 1) * s >= n + pads[i]:
            size -= 1
        outside.append(size)
    return Window(tuple(taps), strides, dilations, tuple(pads[:rank]), tuple(inside), tuple(outside))


def weights(call: Call, w: Tensor, groups: int) -> Tensor:
    """[rows, channels, taps...] as [taps, channels, rows], packed once where they are constant."""
    known = call.known(1)
    flat = (w.shape[0], w.shape[1], prod(w.shape[2:]))
    if known is not None and known.size > 1:
        return call.packed(1, "taps,channels,rows", lambda a: _pack(a, flat))
    return transposed(reshaped(w, flat), (2, 1, 0), call.node)


def _pack(a: Array, flat: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(a.reshape(flat).transpose(2, 1, 0))


@op("Conv")
def conv(call: Call) -> Tensor:
    """1-, 2- and 3-D, groups and dilation; 1x1, and one channel without padding, are matrix products."""
    x, w = call.x(0), call.x(1)
    floats_only(x, "Conv")
    groups = call.attr("group", 1)
    window = window_of(call, w.shape[2:], x.shape[2:])
    if len(window.taps) > 3:
        raise Refuse("more than three spatial axes")
    rows, channels = w.shape[0] // groups, w.shape[1]
    shape = (x.shape[0], w.shape[0], *window.outside)
    if any(n <= 0 for n in shape):
        y: Tensor = Fill(0, [max(n, 0) for n in shape], x.dtype)
    elif (found := forward_stft(call, x, window.outside, window.before, window.strides, window.dilations)) is not None:
        y = found
    elif groups == 1 and _is_product(window, channels, rows):
        y = _as_product(call, x, w, window, shape)
    else:
        if prod(window.taps) * channels > call.target.loops:
            return with_bias(call, _in_parts(call, x, w, call.target.loops // prod(window.taps)))
        template = Conv(x.shape[0], groups, rows, channels, window)
        y = call.heavy(template, [x, weights(call, w, groups)], shape, x.dtype)
    return with_bias(call, y)


def _in_parts(call: Call, x: Tensor, w: Tensor, most: int) -> Tensor:
    """The sum of convolutions of at most `most` channels each: as long as loops may be."""
    if call.attr("group", 1) != 1 or not most:
        raise Refuse(f"a window of {prod(w.shape[1:])} elements: more than the loops of this adapter may walk")
    total, known = None, call.known(1)
    for c in range(0, w.shape[1], most):
        size = min(most, w.shape[1] - c)
        start, ones = [0, c, *[0] * (len(x.shape) - 2)], [1] * len(x.shape)
        inputs: list[Value | None] = [sliced(x, start, ones, (x.shape[0], size, *x.shape[2:]), call.node)]
        part = sliced(w, start, ones, (w.shape[0], size, *w.shape[2:]), call.node)
        inputs.append(part if known is None else np.ascontiguousarray(known[:, c : c + size]))
        y = conv(replace(call, inputs=inputs))
        total = y if total is None else Map("{0} + {1}", [total, y], y.dtype, call.node)
    assert total is not None
    return total


def _is_product(window: Window, channels: int, rows: int) -> bool:
    if prod(window.taps) == 1:
        return not window.padded
    return channels == 1 and len(window.taps) == 1 and rows >= 8


def with_bias(call: Call, y: Tensor) -> Tensor:
    """y plus input 2 along the channels, if it is given."""
    if not call.has(2):
        return y
    bias = reshaped(call.x(2), (1, y.shape[1], *(1 for _ in y.shape[2:])), call.node)
    return Map("{0} + {1}", broadcast([y, bias], call.node), y.dtype, call.node)


def _as_product(call: Call, x: Tensor, w: Tensor, window: Window, shape: tuple[int, ...]) -> Tensor:
    """Weights [rows, k] times columns [k, positions] for each of the batch; with one channel and strides, the transpose
    of that for the whole batch, so that neighbouring threads read neighbouring weights."""
    batch, k, positions = x.shape[0], prod(w.shape[1:]), prod(window.outside)
    if prod(window.taps) > 1:
        return _taps_as_product(call, x, window, shape, k)
    moved = list(zip(window.strides, window.before, strict=True))

    def source(c: tuple[Lin, ...]) -> tuple[Lin, ...]:
        o = unflatten(c[2], window.outside)
        return (c[0], c[1], *(q * s + (-b) for q, (s, b) in zip(o, moved, strict=True)))

    whole = same(x.shape[2:], window.outside)
    columns = (
        reshaped(x, (batch, k, positions)) if whole else View("columns", x, (batch, k, positions), source, call.node)
    )
    left = reshaped(w, (w.shape[0], k))
    if same(batch, 1):
        columns = reshaped(columns, (k, positions))
        y = call.heavy(MatMul((), w.shape[0], k, positions), [left, columns], (w.shape[0], positions), x.dtype)
        return reshaped(y, shape, call.node)
    left = expanded(left, (batch, *left.shape))
    y = call.heavy(MatMul((batch,), w.shape[0], k, positions), [left, columns], (batch, w.shape[0], positions), x.dtype)
    return reshaped(y, shape, call.node)


def _taps_as_product(call: Call, x: Tensor, window: Window, shape: tuple[int, ...], k: int) -> Tensor:
    """One channel, one spatial axis: frames [batch * positions, k] times weights [k, rows]."""
    count, (stride,), (step,), (before,) = window.outside[0], window.strides, window.dilations, window.before

    if window.padded:
        after = (count - 1) * stride + (k - 1) * step + 1 - before - x.shape[2]
        x = Stored(Pad(x, Fill(0, (), x.dtype), (0, 0, before), (0, 0, largest(after, 0)), call.node), call.node)
        before = 0

    def source(c: tuple[Lin, ...]) -> tuple[Lin, ...]:
        return (c[0] // count, ZERO, (c[0] % count) * stride + c[1] * step + (-before))

    frames = View("frames", x, (shape[0] * count, k), source, call.node)
    right = weights(call, call.x(1), 1)
    template = MatMul((), shape[0] * count, k, shape[1])
    y = call.heavy(template, [frames, reshaped(right, (k, shape[1]))], (shape[0] * count, shape[1]), x.dtype)
    return transposed(reshaped(y, (shape[0], count, shape[1])), (0, 2, 1), call.node)
