"""Integer expressions over loop variables: sums of `coefficient * atom`, simplified with the ranges that are known.

An atom is a variable, a quotient, a remainder or an integer that the kernel reads from memory. All numbers are concrete
while they are simplified, and become uniforms when they are written, so a new size gives the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod


class Atom:
    """A variable (`Var`), or `lin / n`, `lin % n` (`op` "/" or "%"). `level` is the loop depth that it varies at."""

    __slots__ = ("hi", "key", "level", "lin", "lo", "n", "op")

    def __init__(self, op: str, key: str, lo: int, hi: int, level: int, lin: Lin | None = None, n: int = 0) -> None:
        self.op, self.key, self.lo, self.hi, self.level, self.lin, self.n = op, key, lo, hi, level, lin, n


class Lin:
    """A constant plus a sum of atoms with coefficients. Immutable; equal sums have equal `key`."""

    __slots__ = ("const", "hi", "key", "level", "lo", "terms")

    def __init__(self, terms: Sequence[tuple[Atom, int]], const: int = 0) -> None:
        self.terms = tuple(terms)
        self.const = const
        lo = hi = const
        level = 0
        parts = []
        for atom, c in self.terms:
            lo += c * (atom.lo if c > 0 else atom.hi)
            hi += c * (atom.hi if c > 0 else atom.lo)
            level = max(level, atom.level)
            parts.append(f"{c}*{atom.key}" if c != 1 else atom.key)
        self.lo, self.hi, self.level = lo, hi, level
        if const or not parts:
            parts.append(str(const))
        self.key = "+".join(parts)

    def __add__(self, other: Lin | int) -> Lin:
        if isinstance(other, int):
            return self if other == 0 else Lin(self.terms, self.const + other)
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        return _make([*self.terms, *other.terms], self.const + other.const)

    def __mul__(self, k: int) -> Lin:
        if k == 1:
            return self
        return Lin([(a, c * k) for a, c in self.terms], self.const * k) if k else ZERO

    def __floordiv__(self, n: int) -> Lin:
        if n == 1:
            return self
        whole, rest, whole_const, rest_const = _split(self, n)
        quotient = Lin([(a, c // n) for a, c in whole], whole_const // n)
        r, turns = _not_negative(Lin(rest, rest_const), n)
        if r.lo >= 0 and r.hi < n:
            return quotient + (-turns)
        return quotient + _divide(r, n) + (-turns)

    def __mod__(self, n: int) -> Lin:
        if n == 1:
            return ZERO
        _, rest, _, rest_const = _split(self, n)
        r, _ = _not_negative(Lin(rest, rest_const), n)
        if r.lo >= 0 and r.hi < n:
            return r
        return _remainder(r, n)


ZERO = Lin(())


def number(value: int) -> Lin:
    """A constant."""
    return Lin((), value)


def variable(name: str, extent: int, level: int = 0, lo: int = 0) -> Lin:
    """A loop variable in [lo, lo + extent)."""
    return Lin([(Atom("var", name, lo, lo + max(extent, 1) - 1, level), 1)])


def _make(terms: Iterable[tuple[Atom, int]], const: int) -> Lin:
    merged: dict[str, tuple[Atom, int]] = {}
    for atom, c in terms:
        old = merged.get(atom.key)
        merged[atom.key] = (atom, c + old[1] if old else c)
    for key in [k for k, (a, c) in merged.items() if a.op == "%" and c]:
        atom, c = merged[key]
        assert atom.lin is not None
        quotient = _divide(atom.lin, atom.n) if atom.lin.terms else None
        if quotient is None or len(quotient.terms) != 1 or quotient.const or quotient.terms[0][1] != 1:
            continue
        other = merged.get(quotient.terms[0][0].key)
        if other and other[1] == c * atom.n:  # (x / n) * n + x % n is x
            rest = [t for k, t in merged.items() if k not in (key, other[0].key)]
            scaled = atom.lin * c
            return _make([*rest, *scaled.terms], const + scaled.const)
    return Lin([merged[k] for k in sorted(merged) if merged[k][1]], const)


def _split(x: Lin, n: int) -> tuple[list[tuple[Atom, int]], list[tuple[Atom, int]], int, int]:
    """Terms that n divides, the others, and the constant cut the same way."""
    whole = [(a, c) for a, c in x.terms if c % n == 0]
    rest = [(a, c) for a, c in x.terms if c % n]
    return whole, rest, x.const - x.const % n, x.const % n


def _not_negative(r: Lin, n: int) -> tuple[Lin, int]:
    """r plus as many n as make it unsigned, and how many: kernels divide unsigned numbers."""
    turns = max(0, -(r.lo // n))
    return r + turns * n, turns


def _divide(r: Lin, n: int) -> Lin:
    g = gcd(n, *(c for _, c in r.terms))
    if g > 1:
        return Lin([(a, c // g) for a, c in r.terms], r.const // g) // (n // g)
    if len(r.terms) == 1 and r.const == 0 and r.terms[0][1] == 1:
        atom = r.terms[0][0]
        if atom.op == "/" and atom.lin is not None:
            return atom.lin // (atom.n * n)
        if atom.op == "%" and atom.n % n == 0 and atom.lin is not None:
            return (atom.lin // n) % (atom.n // n)
    return Lin([(Atom("/", f"({r.key})/{n}", r.lo // n, r.hi // n, r.level, r, n), 1)])


def _remainder(r: Lin, n: int) -> Lin:
    g = gcd(n, *(c for _, c in r.terms))
    if g > 1:
        inner = Lin([(a, c // g) for a, c in r.terms], r.const // g) % (n // g)
        return inner * g + r.const % g
    if len(r.terms) == 1 and r.const == 0 and r.terms[0][1] == 1:
        atom = r.terms[0][0]
        if atom.op == "%" and atom.n % n == 0 and atom.lin is not None:
            return atom.lin % n
    return Lin([(Atom("%", f"({r.key})%{n}", 0, n - 1, r.level, r, n), 1)])


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    result, step = [], 1
    for n in reversed(shape):
        result.append(step)
        step *= n
    return tuple(reversed(result))


def flatten(coords: Sequence[Lin], shape: Sequence[int]) -> Lin:
    """The row-major position of `coords` in a tensor of `shape`."""
    total = ZERO
    for c, step, n in zip(coords, strides(shape), shape, strict=True):
        if n != 1:
            total = total + c * step
    return total


def unflatten(position: Lin, shape: Sequence[int]) -> tuple[Lin, ...]:
    """The coordinates in `shape` of a row-major position."""
    coords: list[Lin] = []
    first = True
    for n, step in zip(shape, strides(shape), strict=True):
        if n == 1:
            coords.append(ZERO)
            continue
        q = position // step
        coords.append(q if first else q % n)
        first = False
    return tuple(coords)


def reshape(coords: Sequence[Lin], source: Sequence[int], target: Sequence[int]) -> tuple[Lin, ...]:
    """Coordinates in `target` of what stands at `coords` in `source`; both shapes hold as many elements.

    Only groups of axes whose products differ are flattened, so an untouched axis keeps its expression.
    """
    result: list[Lin] = []
    i = j = 0
    while i < len(source) or j < len(target):
        i0, j0 = i, j
        a = source[i] if i < len(source) else 1
        b = target[j] if j < len(target) else 1
        i, j = min(i + 1, len(source)), min(j + 1, len(target))
        while a != b:
            if a < b and i < len(source):
                a, i = a * source[i], i + 1
            elif j < len(target):
                b, j = b * target[j], j + 1
            else:
                a, i = prod(source[i0:]), len(source)
        result += unflatten(flatten(coords[i0:i], source[i0:i]), target[j0:j])
    return tuple(result)
