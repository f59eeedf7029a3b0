"""Convolution for adapters where loads cost more than products: neighbouring positions and taps share their inputs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ..kernels.index import Lin, variable
from ..kernels.size import hint
from ..kernels.template import Build, Launch, ceil_div, wgsl
from ..target import Target

if TYPE_CHECKING:
    from .conv import Conv, Window

LANES = 16


def chunk_of(taps: int) -> int:
    """Taps that share their inputs: up to 4, such that the fewest of them do not exist."""
    return 1 if taps == 1 else min((4, 3, 2), key=lambda c: (ceil_div(taps, c) * c, -c))


def slides(target: Target, window: Window, rows: int) -> bool:
    """Whether this kernel is the better one: neighbouring taps along the last axis, enough positions and rows."""
    plain = window.strides[-1] == 1 and (window.dilations[-1] == 1 or window.taps[-1] == 1)
    return target.software and plain and hint(window.outside[-1]) >= 6 and rows >= 4


def build_slide(conv: Conv, b: Build) -> Launch:
    """The kernel's text and launch."""
    w, axes = conv.window, ("z", "y", "x")
    outside = (*(1,) * (3 - len(w.taps)), *w.outside)
    columns, rows, chunk = 16 if hint(outside[2]) >= 24 else 8, 8 if conv.rows > 4 else 4, chunk_of(w.taps[-1])
    n, c, g = variable("n", conv.batch), variable("c", conv.channels, 1), variable("g", conv.groups)
    m, tap, j = variable("m", conv.rows), variable("t", prod(w.taps)), variable("j", rows, 1)
    b.read("x", 0, (n, g * conv.channels + c, *w.position()), ("g", "n", *axes), ("c",))
    b.read("w", 1, (tap, c, g * conv.rows + m + j), ("g", "m", "t"), ("c", "j"))
    w.declare(b)
    chunks = ceil_div(w.taps[-1], chunk)
    b.text.const(TM=rows, TN=columns, LANES=LANES, CHUNK=chunk, PARTIAL=w.taps[-1] % chunk != 0)
    blocks = ceil_div(outside[2], columns)
    count = conv.batch * outside[0] * outside[1] * blocks
    b.text.uniform(M=conv.rows, CIN=conv.channels, OUT_Z=outside[0], OUT_Y=outside[1], COUNT=count, BLOCKS=blocks)
    b.text.uniform(CHUNKS=chunks, TURNS=prod(w.taps[:-1]) * chunks)
    _store(conv, b, [variable(a, k) for a, k in zip(axes, outside, strict=True)][3 - len(w.taps) :])
    groups = (ceil_div(count, LANES), ceil_div(conv.rows, rows), conv.groups)
    return Launch(wgsl(__file__, "conv_slide.wgsl"), groups, conv.flops, (LANES, 1, 1))


def _store(conv: Conv, b: Build, place: list[Lin]) -> None:
    """Write `store_out`, for channel c and phases fz, fy, fx of a group at a position."""
    rank, phases = len(place), conv.shuffle or (1,) * len(place)
    channels = conv.rows // prod(phases)
    wide = (*(1,) * (3 - rank), *phases)
    b.text.const(FY=wide[1], FX=wide[2])
    b.text.uniform(CHANNELS=channels)
    g, c, n = variable("g", conv.groups), variable("c", channels), variable("n", conv.batch)
    names = ["g", "c", "fz", "fy", "fx", "n", "z", "y", "x"]
    guard: list[tuple[Lin, int]] = []
    if conv.shuffle:
        at = [variable(f, k) for f, k in zip(names[2:5], wide, strict=True)][3 - rank :]
        place = [q * s + f + (-k) for q, s, f, k in zip(place, phases, at, conv.crop, strict=True)]
        guard = list(zip(place, conv.result, strict=True))
    b.store("store_out", names, [(n, g * channels + c, *place)], [("v", "f32")], guard)
