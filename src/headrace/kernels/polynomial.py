"""Polynomials with integer coefficients over atoms of known range: sums, products, and bounds from below."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

Mono = tuple["Atom", ...]
Poly = dict[Mono, int]


class Atom:
    """A dimension ("dim"), or a quotient ("//"), or the larger ("max") of two sizes. `lo` and `hi` bound its value.
    `name` is unambiguous: dimensions are $0, $1, ..."""

    __slots__ = ("args", "hi", "hint", "lo", "name", "op", "trace")

    def __init__(self, trace: Any, name: str, op: str, args: tuple[Any, ...], hint: int) -> None:
        self.trace, self.name, self.op, self.args, self.hint = trace, name, op, args, hint
        self.lo: int | None = None
        self.hi: int | None = None

    def __lt__(self, other: Atom) -> bool:
        return self.name < other.name


def without(mono: Mono, part: Mono) -> Mono | None:
    """`mono` over `part`; None where it does not divide."""
    left = list(mono)
    for a in part:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


def added(a: Poly, b: Poly) -> Poly:
    """a + b."""
    out = dict(a)
    for m, c in b.items():
        out[m] = out.get(m, 0) + c
    return {m: c for m, c in out.items() if c}


def scaled(a: Poly, k: int) -> Poly:
    """k * a."""
    return {m: c * k for m, c in a.items()}


def multiplied(a: Poly, b: Poly) -> Poly:
    """a * b."""
    out: Poly = {}
    for m, c in a.items():
        for n, k in b.items():
            mono = tuple(sorted((*m, *n)))
            out[mono] = out.get(mono, 0) + c * k
    return {m: c for m, c in out.items() if c}


def low(p: Poly) -> int | None:
    """A lower bound from the ranges of the atoms: each is its least value plus something from 0 to `hi - lo`."""
    moved: Poly = {}
    for mono, c in p.items():
        if any(a.lo is None for a in mono):
            return _mirrored_low(p)
        for count in range(len(mono) + 1):
            for chosen in combinations(range(len(mono)), count):
                rest = prod(a.lo or 0 for i, a in enumerate(mono) if i not in chosen)
                key = tuple(mono[i] for i in chosen)
                moved[key] = moved.get(key, 0) + c * rest
    bound = 0
    for mono, c in moved.items():
        if not mono or c < 0:
            spans = [None if a.hi is None else a.hi - (a.lo or 0) for a in mono]
            if c and None in spans:
                return None
            bound += c * prod(s or 0 for s in spans)
    return bound


def _mirrored_low(p: Poly) -> int | None:
    """The bound of a sum of lone atoms that have a greatest value where they need one."""
    bound = 0
    for mono, c in p.items():
        if len(mono) > 1:
            return None
        end = 1 if not mono else mono[0].lo if c > 0 else mono[0].hi
        if end is None:
            return None
        bound += c * end
    return bound
