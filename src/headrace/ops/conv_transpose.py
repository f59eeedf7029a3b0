"""Transposed convolution as an ordinary one (polyphase): no multiplication by inserted zeros, nothing scattered.

With stride S, output position o + pad = q*S + phase takes the taps k = phase + S*t at input position q - t. So it is a
convolution over q with r = ceil(K / S) taps and S * Cout rows, whose store puts (q, phase) at q*S + phase - pad. Taps
past the kernel's end are zero in the packed weight; dilation spreads the kernel with zeros first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dtypes import Array
from ..kernels.expr import Coords, Fill, Stored, Tensor, View, reshaped, transposed
from ..kernels.template import ceil_div
from .conv import Conv, Window, with_bias
from .fft_basis import inverse_stft
from .matmul import floats_only
from .movement import Pad
from .registry import Call, Refuse, op


def pack(w: Array, groups: int, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """[channels, rows of a group, taps...] as [taps r, channels of a group, groups * phases * rows], taps reversed."""
    channels, rows, taps = w.shape[0] // groups, w.shape[1], w.shape[2:]
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    turns = [ceil_div(s, stride) for s, stride in zip(spans, strides, strict=True)]
    wide = np.zeros((*w.shape[:2], *(t * s for t, s in zip(turns, strides, strict=True))), w.dtype)
    wide[(slice(None), slice(None), *(slice(0, n, d) for n, d in zip(spans, dilations, strict=True)))] = w
    split = wide.reshape(groups, channels, rows, *(n for t, s in zip(turns, strides, strict=True) for n in (t, s)))
    rank = len(taps)
    times, phases = [3 + 2 * i for i in range(rank)], [4 + 2 * i for i in range(rank)]
    moved = split.transpose(*times, 1, 0, *phases, 2)
    flipped = moved[tuple(slice(None, None, -1) for _ in times)]
    return np.ascontiguousarray(flipped.reshape(prod(turns), channels, groups * prod(strides) * rows))


def output_sizes(
    call: Call, inside: Sequence[int], taps: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Sizes of the result and the leading pads: from pads, auto_pad, output_padding or output_shape."""
    rank = len(taps)
    extra = call.attr("output_padding") or (0,) * rank
    full = [
        s * (n - 1) + p + (k - 1) * d + 1 for n, s, p, k, d in zip(inside, strides, extra, taps, dilations, strict=True)
    ]
    mode, wanted = call.attr("auto_pad", "NOTSET"), call.attr("output_shape")
    if wanted is not None:
        sizes = list(wanted)[-rank:]
    elif mode.startswith("SAME"):
        gaps = [max(s - p - (k - 1) * d - 1, 0) for s, p, k, d in zip(strides, extra, taps, dilations, strict=True)]
        sizes = [n * s - g for n, s, g in zip(inside, strides, gaps, strict=True)]  # as ONNX Runtime: never padded
    else:
        pads = [0] * 2 * rank if mode == "VALID" else list(call.attr("pads") or (0,) * 2 * rank)
        return [f - pads[i] - pads[i + rank] for i, f in enumerate(full)], pads[:rank]
    totals = [f - n for f, n in zip(full, sizes, strict=True)]
    if wanted is not None:
        totals = [max(t, 0) for t in totals]  # a larger shape adds places at the end, it does not pad
    return sizes, [t - t // 2 if mode != "SAME_UPPER" else t // 2 for t in totals]


def pack_lazily(w: Tensor, groups: int, strides: Sequence[int], dilations: Sequence[int], node: str) -> Tensor:
    """`pack` as index maps, for weights that are computed on the device; stored before they are read."""
    channels, rows, taps, rank = w.shape[0] // groups, w.shape[1], w.shape[2:], len(w.shape) - 2
    turns = [ceil_div((k - 1) * d + 1, s) for k, d, s in zip(taps, dilations, strides, strict=True)]
    zero, lead = Fill(0, (), w.dtype), (0,) * (2 + 2 * rank)
    apart = reshaped(w, (*w.shape[:2], *(n for k in taps for n in (k, 1))), node)
    spread = Pad(apart, zero, lead, (0, 0, *(n for d in dilations for n in (0, d - 1))), node)
    flat = reshaped(spread, (*w.shape[:2], *(k * d for k, d in zip(taps, dilations, strict=True))), node)
    after = [t * s - k * d for t, s, k, d in zip(turns, strides, taps, dilations, strict=True)]
    wide = Pad(flat, zero, (0,) * (2 + rank), (0, 0, *after), node)
    phases = [n for t, s in zip(turns, strides, strict=True) for n in (t, s)]
    split = reshaped(wide, (groups, channels, rows, *phases), node)
    order = [*(3 + 2 * i for i in range(rank)), 1, 0, *(4 + 2 * i for i in range(rank)), 2]
    moved = transposed(split, order, node)

    def reverse(c: Coords) -> Coords:
        return (*(v * -1 + (t - 1) for v, t in zip(c, turns, strict=False)), *c[rank:])

    flipped = View("flip", moved, moved.shape, reverse, node)
    return Stored(reshaped(flipped, (prod(turns), channels, groups * prod(strides) * rows), node), node)


@op("ConvTranspose")
def conv_transpose(call: Call) -> Tensor:
    """1-, 2- and 3-D, groups and dilation, every way to say the output's size."""
    x, w = call.x(0), call.x(1)
    floats_only(x, "ConvTranspose")
    taps, groups = w.shape[2:], call.attr("group", 1)
    rank = len(taps)
    if rank > 3:
        raise Refuse("more than three spatial axes")
    strides = tuple(call.attr("strides") or (1,) * rank)
    dilations = tuple(call.attr("dilations") or (1,) * rank)
    sizes, pads = output_sizes(call, x.shape[2:], taps, strides, dilations)
    shape = (x.shape[0], w.shape[1] * groups, *sizes)
    if any(n <= 0 for n in shape) or x.size == 0:
        return with_bias(call, Fill(0, [max(n, 0) for n in shape], x.dtype))
    by_fft = inverse_stft(call, x, sizes, pads, strides, dilations)
    if by_fft is not None:
        return with_bias(call, by_fft)
    turns = [ceil_div((k - 1) * d + 1, s) for k, d, s in zip(taps, dilations, strides, strict=True)]
    first = [p // s for p, s in zip(pads, strides, strict=True)]  # the first q that reaches the result
    count = [(n + p - 1) // s + 1 - f for n, p, s, f in zip(sizes, pads, strides, first, strict=True)]
    window = Window(
        tuple(turns),
        (1,) * rank,
        (1,) * rank,
        tuple(t - 1 - f for t, f in zip(turns, first, strict=True)),
        x.shape[2:],
        tuple(count),
    )
    crop = tuple(p - f * s for p, f, s in zip(pads, first, strides, strict=True))
    template = Conv(
        x.shape[0], groups, prod(strides) * w.shape[1], w.shape[0] // groups, window, strides, crop, tuple(sizes)
    )
    call.note(f"ConvTranspose as a convolution of {prod(turns)} tap(s) with a pixel shuffle")
    how = f"polyphase {groups} {strides} {dilations}"
    if call.known(1) is None:
        packed = pack_lazily(w, groups, strides, dilations, call.node)
    else:
        packed = call.packed(1, how, lambda a: pack(a, groups, strides, dilations))
    return with_bias(call, call.heavy(template, [x, packed], shape, x.dtype))
