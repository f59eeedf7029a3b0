"""What a convolution is, without its arrays: named axes, and one index relation a spatial axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True, slots=True)
class Axis:
    """Sizes and strides of one spatial axis.

    out[o] = sum lhs[i] * rhs[k] over  o * window_stride + k * rhs_dilation - padding = i * lhs_dilation.
    Indices outside an array count as zeros, so there is no padding at the end: the output's size says it.
    """

    lhs: int
    rhs: int
    out: int
    window_stride: int = 1
    rhs_dilation: int = 1
    lhs_dilation: int = 1
    padding: int = 0

    @property
    def unit(self) -> bool:
        """Whether every index advances by one."""
        return self.window_stride == self.rhs_dilation == self.lhs_dilation == 1

    @property
    def turned_padding(self) -> int:
        """The padding of the gradient with respect to lhs, whose taps run backwards."""
        return (self.rhs - 1) * self.rhs_dilation - self.padding

    @property
    def padding_pair(self) -> tuple[int, int]:
        """(low, high) as `jax.lax.conv_general_dilated` takes it."""
        reach = (self.out - 1) * self.window_stride + (self.rhs - 1) * self.rhs_dilation + 1
        return self.padding, reach - self.padding - ((self.lhs - 1) * self.lhs_dilation + 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """A convolution of named arrays.

    The first letter of a name is the role of the axis: g is in all three arrays, n in lhs and out, o in rhs and out,
    c in lhs and rhs (summed), and s0, s1, … are the spatial axes. A role may have any number of axes: a vmap adds one,
    and nothing moves. This form is closed under transposition: the gradients are Problems again.
    """

    lhs_dims: tuple[str, ...]
    rhs_dims: tuple[str, ...]
    out_dims: tuple[str, ...]
    axes: tuple[Axis, ...]
    sizes: tuple[tuple[str, int], ...]

    def size(self, letter: str) -> int:
        """Product of the lengths of the axes with this role."""
        return prod(n for d, n in self.sizes if d[0] == letter)

    def shape(self, which: str) -> tuple[int, ...]:
        """Shape of "lhs", "rhs" or "out"."""
        dims = {"lhs": self.lhs_dims, "rhs": self.rhs_dims, "out": self.out_dims}[which]
        sizes = dict(self.sizes)
        return tuple(getattr(self.axes[int(d[1:])], which) if d[0] == "s" else sizes[d] for d in dims)

    @property
    def empty(self) -> bool:
        """Whether the result has no elements or nothing is summed, so that it is all zeros."""
        return any(n == 0 for _, n in self.sizes) or any(0 in (a.lhs, a.rhs, a.out) for a in self.axes)

    def transposed_lhs(self) -> Problem:
        """The gradient with respect to lhs, from (cotangent, rhs reversed along its spatial axes)."""
        swap = {"o": "c", "c": "o"}
        axes = tuple(
            Axis(a.out, a.rhs, a.lhs, a.lhs_dilation, a.rhs_dilation, a.window_stride, a.turned_padding)
            for a in self.axes
        )
        return self._renamed(swap, self.out_dims, self.rhs_dims, self.lhs_dims, axes)

    def transposed_rhs(self) -> Problem:
        """The gradient with respect to rhs, from (lhs, cotangent)."""
        swap = {"n": "c", "c": "n"}
        axes = tuple(
            Axis(a.lhs, a.out, a.rhs, a.rhs_dilation, a.window_stride, a.lhs_dilation, a.padding) for a in self.axes
        )
        return self._renamed(swap, self.lhs_dims, self.out_dims, self.rhs_dims, axes)

    def _renamed(self, swap: dict[str, str], *arguments: tuple[Any, ...]) -> Problem:
        """Problem(*arguments) with the sizes of this one, the two roles of `swap` exchanged."""
        lhs, rhs, out, axes = arguments
        names = {d: d for d in (*lhs, *rhs, *out)}
        used = dict.fromkeys(swap.values(), 0)
        for d, _ in self.sizes:
            if d[0] in swap:
                names[d] = f"{swap[d[0]]}{used[swap[d[0]]]}"
                used[swap[d[0]]] += 1
        lhs, rhs, out = (tuple(names[d] for d in dims) for dims in (lhs, rhs, out))
        return Problem(lhs, rhs, out, axes, tuple((names[d], n) for d, n in self.sizes))

    def batched(self, lhs_axis: int | None, rhs_axis: int | None, size: int) -> Problem:
        """The Problem with one more axis at these positions; the new axis of the result is its first."""
        letter = "g" if lhs_axis is not None and rhs_axis is not None else "n" if lhs_axis is not None else "o"
        name = f"{letter}{sum(d[0] == letter for d, _ in self.sizes)}"
        lhs, rhs = list(self.lhs_dims), list(self.rhs_dims)
        if lhs_axis is not None:
            lhs.insert(lhs_axis, name)
        if rhs_axis is not None:
            rhs.insert(rhs_axis, name)
        return Problem(tuple(lhs), tuple(rhs), (name, *self.out_dims), self.axes, ((name, size), *self.sizes))
