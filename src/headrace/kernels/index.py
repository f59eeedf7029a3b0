"""Integer expressions over loop variables: sums of `coefficient * atom`, simplified with the ranges that are known.

An atom is a variable, a quotient, a remainder or an integer that the kernel reads from memory. Numbers are ints, or
sizes that are expressions themselves; they become uniforms when they are written, so a new size gives the same text.
What is simplified holds at all sizes: where that cannot be proved, the longer form stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .size import Number, at_least, common_factor, divides, hint, key_of, largest, same


class Atom:
    """A variable (`Var`), or `lin / n`, `lin % n` (`op` "/" or "%"). `level` is the loop depth that it varies at."""

    __slots__ = ("hi", "key", "level", "lin", "lo", "n", "op")

    def __init__(
        self, op: str, key: str, lo: Number, hi: Number, level: int, lin: Lin | None = None, n: Number = 0
    ) -> None:
        self.op, self.key, self.lo, self.hi, self.level, self.lin, self.n = op, key, lo, hi, level, lin, n


class Lin:
    """A constant plus a sum of atoms with coefficients. Immutable; equal sums have equal `key`."""

    __slots__ = ("const", "hi", "key", "level", "lo", "terms")

    def __init__(self, terms: Sequence[tuple[Atom, Number]], const: Number = 0) -> None:
        self.terms = tuple(terms)
        self.const = const
        lo = hi = const
        level = 0
        parts = []
        for atom, c in self.terms:
            lo += c * (atom.lo if c > 0 else atom.hi)
            hi += c * (atom.hi if c > 0 else atom.lo)
            level = max(level, atom.level)
            parts.append(atom.key if same(c, 1) else f"{key_of(c)}*{atom.key}")
        self.lo, self.hi, self.level = lo, hi, level
        if not parts or not same(const, 0):
            parts.append(key_of(const))
        self.key = "+".join(parts)

    def __add__(self, other: Lin | Number) -> Lin:
        if not isinstance(other, Lin):
            return self if same(other, 0) else Lin(self.terms, self.const + other)
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        return _make([*self.terms, *other.terms], self.const + other.const)

    def __mul__(self, k: Number) -> Lin:
        if same(k, 1):
            return self
        return ZERO if same(k, 0) else Lin([(a, c * k) for a, c in self.terms], self.const * k)

    def __floordiv__(self, n: Number) -> Lin:
        if same(n, 1):
            return self
        whole, rest, whole_const, rest_const = _split(self, n)
        quotient = Lin([(a, c // n) for a, c in whole], whole_const // n)
        r, turns = _not_negative(Lin(rest, rest_const), n)
        if at_least(r.lo, 0) and at_least(n - 1, r.hi):
            return quotient + (-turns)
        return quotient + _divide(r, n) + (-turns)

    def __mod__(self, n: Number) -> Lin:
        if same(n, 1):
            return ZERO
        _, rest, _, rest_const = _split(self, n)
        r, _ = _not_negative(Lin(rest, rest_const), n)
        if at_least(r.lo, 0) and at_least(n - 1, r.hi):
            return r
        return _remainder(r, n)


ZERO = Lin(())


def number(value: Number) -> Lin:
    """A constant."""
    return Lin((), value)


def variable(name: str, extent: Number, level: int = 0, lo: int = 0) -> Lin:
    """A loop variable in [lo, lo + extent)."""
    return Lin([(Atom("var", name, lo, lo + largest(extent, 1) - 1, level), 1)])


def _make(terms: Iterable[tuple[Atom, Number]], const: Number) -> Lin:
    merged: dict[str, tuple[Atom, Number]] = {}
    for atom, c in terms:
        old = merged.get(atom.key)
        merged[atom.key] = (atom, c + old[1] if old else c)
    for key in [k for k, (a, c) in merged.items() if a.op == "%" and not same(c, 0)]:
        atom, c = merged[key]
        assert atom.lin is not None
        quotient = _divide(atom.lin, atom.n) if atom.lin.terms else None
        if quotient is None or not _is_one_atom(quotient):
            continue
        other = merged.get(quotient.terms[0][0].key)
        if other and same(other[1], c * atom.n):  # (x / n) * n + x % n is x
            rest = [t for k, t in merged.items() if k not in (key, other[0].key)]
            scaled = atom.lin * c
            return _make([*rest, *scaled.terms], const + scaled.const)
    return Lin([merged[k] for k in sorted(merged) if not same(merged[k][1], 0)], const)


def _is_one_atom(x: Lin) -> bool:
    return len(x.terms) == 1 and same(x.const, 0) and same(x.terms[0][1], 1)


def _split(x: Lin, n: Number) -> tuple[list[tuple[Atom, Number]], list[tuple[Atom, Number]], Number, Number]:
    """Terms that n divides, the others, and the constant cut the same way."""
    divided = [divides(n, c) for _, c in x.terms]
    whole = [t for t, d in zip(x.terms, divided, strict=True) if d]
    rest = [t for t, d in zip(x.terms, divided, strict=True) if not d]
    return whole, rest, x.const - x.const % n, x.const % n


def _not_negative(r: Lin, n: Number) -> tuple[Lin, Number]:
    """r plus as many n as make it unsigned, and how many: kernels divide unsigned numbers."""
    turns = largest(0, -(r.lo // n))
    return r + turns * n, turns


def _divide(r: Lin, n: Number) -> Lin:
    g = common_factor(n, [c for _, c in r.terms])
    if not same(g, 1):
        return Lin([(a, c // g) for a, c in r.terms], r.const // g) // (n // g)
    if _is_one_atom(r):
        atom = r.terms[0][0]
        if atom.op == "/" and atom.lin is not None:
            return atom.lin // (atom.n * n)
        if atom.op == "%" and divides(n, atom.n) and atom.lin is not None:
            return (atom.lin // n) % (atom.n // n)
    return Lin([(Atom("/", f"({r.key})/{key_of(n)}", r.lo // n, r.hi // n, r.level, r, n), 1)])


def _remainder(r: Lin, n: Number) -> Lin:
    g = common_factor(n, [c for _, c in r.terms])
    if not same(g, 1):
        inner = Lin([(a, c // g) for a, c in r.terms], r.const // g) % (n // g)
        return inner * g + r.const % g
    if _is_one_atom(r):
        atom = r.terms[0][0]
        if atom.op == "%" and divides(n, atom.n) and atom.lin is not None:
            return atom.lin % n
    return Lin([(Atom("%", f"({r.key})%{key_of(n)}", 0, n - 1, r.level, r, n), 1)])


def strides(shape: Sequence[Number]) -> tuple[Number, ...]:
    """Row-major strides in elements."""
    result: list[Number] = []
    step: Number = 1
    for n in reversed(shape):
        result.append(step)
        step *= n
    return tuple(reversed(result))


def flatten(coords: Sequence[Lin], shape: Sequence[Number]) -> Lin:
    """The row-major position of `coords` in a tensor of `shape`."""
    total = ZERO
    for c, step, n in zip(coords, strides(shape), shape, strict=True):
        if not same(n, 1):
            total = total + c * step
    return total


def unflatten(position: Lin, shape: Sequence[Number]) -> tuple[Lin, ...]:
    """The coordinates in `shape` of a row-major position."""
    coords: list[Lin] = []
    first = True
    for n, step in zip(shape, strides(shape), strict=True):
        if same(n, 1):
            coords.append(ZERO)
            continue
        q = position // step
        coords.append(q if first else q % n)
        first = False
    return tuple(coords)


def reshape(coords: Sequence[Lin], source: Sequence[Number], target: Sequence[Number]) -> tuple[Lin, ...]:
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
        while not same(a, b) and (i < len(source) or j < len(target)):
            if i < len(source) and (hint(a) < hint(b) or j == len(target)):
                a, i = a * source[i], i + 1
            else:
                b, j = b * target[j], j + 1
        result += unflatten(flatten(coords[i0:i], source[i0:i]), target[j0:j])
    return tuple(result)
