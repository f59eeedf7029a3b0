"""Stages that remove strides and dilations from one spatial axis by moving index residues into other axes.

After the stages every index advances by one, so no zero of a dilation is left to multiply. A transposed convolution
becomes the polyphase form (ceil(K/S) taps, S times the output features), a strided one space-to-depth, an atrous one
space-to-batch, and gradients, where all roles are permuted, fall out of the same three lines of algebra.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from .geometry import Axis, Problem
from .named import Named

SHARED = {
    frozenset(("lhs", "out")): "n",
    frozenset(("rhs", "out")): "o",
    frozenset(("lhs", "rhs")): "c",
}


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


@dataclass(frozen=True, slots=True)
class Split:
    """The axis has one stride S > 1; the two arrays without it are split into blocks of S: position and residue."""

    axis: int
    before: Axis
    strided: str

    @property
    def stride(self) -> int:
        """S."""
        return max(self.before.window_stride, self.before.rhs_dilation, self.before.lhs_dilation)

    @property
    def letter(self) -> str:
        """Role of the residue axis."""
        return SHARED[frozenset({"lhs", "rhs", "out"} - {self.strided})]

    @property
    def count(self) -> int:
        """Length of the residue axis: S, or fewer where the taps do not reach every residue."""
        return min(self.stride, self.before.out if self.strided == "rhs" else self.before.rhs)

    def __str__(self) -> str:
        kind = {"lhs": "polyphase", "out": "space to depth", "rhs": "space to batch"}[self.strided]
        return f"axis {self.axis}: {kind}, stride {self.stride}, {self.after().rhs} taps a residue"

    def after(self) -> Axis:
        """The axis with every stride one."""
        a, s = self.before, self.stride
        if self.strided == "lhs":
            shift, taps = a.turned_padding, ceil_div(a.rhs, s)
            first = shift // s
            return Axis(a.lhs, taps, (a.out - 1 + shift) // s - first + 1, padding=taps - 1 - first)
        if self.strided == "out":
            taps = ceil_div(a.rhs, s)
            return Axis(a.out + taps - 1, taps, a.out)
        blocks = ceil_div(a.out, s)
        return Axis(a.rhs + blocks - 1, a.rhs, blocks)

    def apply(self, which: str, x: Named, name: str) -> Named:
        """Splits an operand ("lhs" or "rhs"); `name` is the residue's."""
        if which == self.strided:
            return x
        a, s, axis = self.before, self.stride, f"s{self.axis}"
        if which == "lhs":
            total = s * self.after().lhs
            return x.window(axis, -a.padding, total).split(axis, name, s).window(name, 0, self.count)
        missing = self.count * self.after().rhs - a.rhs
        if self.strided == "lhs":  # out = lhs * S + (K - 1 - k): the taps run backwards
            return x.pad(axis, missing, 0).split(axis, name, self.count).flip(name)
        return x.pad(axis, 0, missing).split(axis, name, self.count)

    def undo(self, y: Named, name: str) -> Named:
        """Joins the result."""
        if self.strided == "out":
            return y
        a, s, axis = self.before, self.stride, f"s{self.axis}"
        start = (a.turned_padding) % s if self.strided == "lhs" else 0
        return (
            y.window(name, 0, s if self.strided == "lhs" else self.count).merge(axis, name).window(axis, start, a.out)
        )


@dataclass(frozen=True, slots=True)
class Phase:
    """Two strides > 1: f + t = a * A + b * B, f being the array with stride one.

    `phased` (a) is split into B / gcd(A, B) phases, each of which meets its own residues of f: afterwards b has
    stride one and a has A / gcd(A, B).
    """

    axis: int
    before: Axis
    phased: str
    fine: str

    def __str__(self) -> str:
        return f"axis {self.axis}: {self.phased} in {self.count} phases"

    def _numbers(self) -> tuple[int, int, int, int, int]:
        """A, B, gcd, t and the number of phases."""
        a = self.before
        stride = {"lhs": a.lhs_dilation, "rhs": a.rhs_dilation, "out": a.window_stride}
        other = ({"lhs", "rhs", "out"} - {self.phased, self.fine}).pop()
        big_a, big_b = stride[self.phased], stride[other]
        common = gcd(big_a, big_b)
        shift = {"lhs": a.padding, "out": a.turned_padding, "rhs": (a.out - 1) * a.window_stride - a.padding}
        return big_a, big_b, common, shift[self.fine], big_b // common

    def _range(self) -> tuple[int, int]:
        """First and end of the positions of f, after, that any phase can use."""
        big_a, big_b, common, t, phases = self._numbers()
        other = ({"lhs", "rhs", "out"} - {self.phased, self.fine}).pop()
        a = self.before
        blocks = ceil_div(getattr(a, self.phased), phases)
        end = (blocks - 1) * (big_a // common) + getattr(a, other)
        first = max(0, ceil_div(t - (phases - 1) * big_a, big_b))
        return first, max(first, min(end, (getattr(a, self.fine) - 1 + t) // big_b + 1))

    @property
    def letter(self) -> str:
        """Role of the phase axis."""
        return SHARED[frozenset((self.phased, self.fine))]

    @property
    def count(self) -> int:
        """Length of the phase axis."""
        return self._numbers()[4]

    def after(self) -> Axis:
        """The axis with one stride less."""
        a, (big_a, _, common, _, phases) = self.before, self._numbers()
        first, end = self._range()
        sizes = {"lhs": a.lhs, "rhs": a.rhs, "out": a.out}
        sizes[self.phased] = ceil_div(sizes[self.phased], phases)
        sizes[self.fine] = end - first
        key = {"lhs": "lhs_dilation", "rhs": "rhs_dilation", "out": "window_stride"}[self.phased]
        stride = big_a // common
        reach = (sizes["out"] - 1) * (stride if self.phased == "out" else 1)
        padding = {"lhs": first, "out": a.rhs - 1 - first, "rhs": reach - first}[self.fine]
        return replace(Axis(**sizes, padding=padding), **{key: stride})

    def apply(self, which: str, x: Named, name: str) -> Named:
        """Splits an operand into its phases."""
        big_a, big_b, _, t, phases = self._numbers()
        axis = f"s{self.axis}"
        if which == self.phased:
            return x.pad(axis, 0, -x.size(axis) % phases).split(axis, name, phases)
        if which != self.fine:
            return x
        first, end = self._range()
        parts = [x.window(axis, big_b * first + phase * big_a - t, end - first, big_b) for phase in range(phases)]
        return Named.stack(parts, name)

    def undo(self, y: Named, name: str) -> Named:
        """Joins the phases of the result."""
        big_a, big_b, _, t, phases = self._numbers()
        axis = f"s{self.axis}"
        if self.phased == "out" and self.fine == "lhs":
            return y.merge(axis, name).window(axis, 0, self.before.out)
        if self.phased == "out":  # rhs = lhs * L + (O - 1 - out) * W: the result runs backwards
            missing = y.size(axis) * y.size(name) - self.before.out
            return y.flip(name).merge(axis, name).window(axis, missing, self.before.out)
        if self.fine != "out":
            return y
        first, end = self._range()
        span, total = (end - first - 1) * big_b + 1, None
        for phase in range(phases):
            low = big_b * first + phase * big_a - t
            part = y.take(name, phase).pad(axis, low, self.before.out - low - span, big_b - 1)
            total = part if total is None else Named(total.array + part.array, part.dims)
        assert total is not None
        return total


@dataclass(frozen=True, slots=True)
class Inflate:
    """All three strides > 1: the taps are spread out with zeros, which leaves two."""

    axis: int
    before: Axis
    letter: str = "o"
    count: int = 1

    def __str__(self) -> str:
        return f"axis {self.axis}: taps spread out with zeros, all three strides being more than one"

    def after(self) -> Axis:
        """The axis with rhs_dilation one."""
        a = self.before
        return replace(a, rhs=(a.rhs - 1) * a.rhs_dilation + 1, rhs_dilation=1)

    def apply(self, which: str, x: Named, name: str) -> Named:
        """Spreads rhs."""
        return x.pad(f"s{self.axis}", 0, 0, self.before.rhs_dilation - 1) if which == "rhs" else x

    def undo(self, y: Named, name: str) -> Named:
        """Nothing to do."""
        return y


Stage = Split | Phase | Inflate


def next_stage(axis: int, a: Axis) -> Stage | None:
    """The stage that removes one stride of this axis, None if there is none."""
    strides = {"lhs": a.lhs_dilation, "rhs": a.rhs_dilation, "out": a.window_stride}
    strided = [role for role, s in strides.items() if s > 1]
    if len(strided) == 3:
        return Inflate(axis, a)
    if len(strided) == 2:
        fine = ({"lhs", "rhs", "out"} - set(strided)).pop()
        # The stride that goes is rhs_dilation, or the smaller of the other two.
        goes = "rhs" if "rhs" in strided else min(strided, key=lambda role: strides[role])
        return Phase(axis, a, next(role for role in strided if role != goes), fine)
    return Split(axis, a, strided[0]) if strided else None


def reduce_problem(problem: Problem) -> tuple[Problem, tuple[tuple[Stage, str], ...]]:
    """The Problem with unit strides, and the stages (with the name of each new axis) that lead there.

    The dims of the result are not meaningful in order: stages decide where new axes stand.
    """
    stages: list[tuple[Stage, str]] = []
    axes, sizes = list(problem.axes), list(problem.sizes)
    for i in range(len(axes)):
        while (stage := next_stage(i, axes[i])) is not None:
            name = f"{stage.letter}r{len(stages)}"
            stages.append((stage, name))
            axes[i] = stage.after()
            if not isinstance(stage, Inflate):
                sizes.append((name, stage.count))
            if 0 in (axes[i].lhs, axes[i].rhs, axes[i].out):  # nothing meets: the result is all zeros
                return replace(problem, axes=tuple(axes), sizes=tuple(sizes)), tuple(stages)
    return replace(problem, axes=tuple(axes), sizes=tuple(sizes)), tuple(stages)
