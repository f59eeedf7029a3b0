"""Sizes that are not known yet: integers as polynomials of a model's dynamic dimensions.

A `Size` stands wherever an int stands while a graph is lowered for all sizes at once. Arithmetic stays exact: the
result is another Size, or an int where the dimensions cancel. A comparison that the ranges decide is just answered; any
other decision (a comparison, a truth value, a conversion to int, float or text) is answered for the sizes that are
traced, the `hint`, and recorded as a `Guard`. What was built holds at all sizes at which every guard of the trace does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from operator import add, eq, floordiv, ge, gt, le, lt, mod, mul, sub
from operator import index as as_index
from typing import Any, Literal

from .polynomial import Atom, Mono, Poly, added, low, multiplied, scaled, without

Relation = Literal["==", "!=", ">="]
Number = int  # an int or a Size: to the type checker a Size is an int, and so it is to the code that lowers
ROUNDS = 8  # quotients that a proof removes
DOUBLINGS = 12  # of a dimension that is too small


@dataclass(frozen=True, slots=True)
class Guard:
    """`size relation 0` must hold."""

    size: Size
    relation: Relation

    def holds(self, dims: Mapping[str, int]) -> bool:
        """Whether it does at these sizes."""
        value = evaluated(self.size, dims)
        return bool(value >= 0 if self.relation == ">=" else (value == 0) == (self.relation == "=="))

    def broken_by(self, dims: Mapping[str, int]) -> list[dict[str, int]]:
        """Sizes like `dims` but for one dimension, at which it does not hold; a larger one comes first. Of an equality
        none: what was built for one value may be right for no other."""
        found = []
        for name in self.size.trace.dims if self.relation != "==" else ():
            tried = [dims[name] << k for k in range(1, DOUBLINGS)] + [dims[name] >> 1]
            if self.relation == "!=":
                now, slope = evaluated(self.size, dims), self._slope(dims, name)
                tried = [dims[name] - now // slope] if slope else []
            found += [m for n in tried if n > 0 and self._fails(m := {**dims, name: n})][:1]
        return sorted(found, key=lambda m: -sum(m.values()))

    def _fails(self, dims: Mapping[str, int]) -> bool:
        try:
            return not self.holds(dims)
        except ZeroDivisionError:  # a guard before it rules these sizes out
            return False

    def _slope(self, dims: Mapping[str, int], name: str) -> int:
        """What one more in a dimension adds."""
        try:
            return int(evaluated(self.size, {**dims, name: dims[name] + 1}) - evaluated(self.size, dims))
        except ZeroDivisionError:
            return 0

    def __str__(self) -> str:
        left = _size({m: c for m, c in self.size.terms if c > 0})
        right = _size({m: -c for m, c in self.size.terms if c < 0})
        return f"{text_of(left)} {self.relation} {text_of(right)}"


class Trace:
    """The dimensions of one lowering, with the sizes that it is made with, and what it came to depend on."""

    def __init__(self, hints: Mapping[str, int]) -> None:
        self.dims: dict[str, Any] = {}
        self._guards: dict[tuple[str, Relation], Guard] = {}
        self._decided: list[Guard] = []
        self._atoms: dict[tuple[Any, ...], Size] = {}
        for name, hint in hints.items():
            made = self.atom("dim", (name,), hint)
            made.terms[0][0][0].lo = 1
            self.dims[name] = made

    def atom(self, op: str, args: tuple[Any, ...], hint: int) -> Size:
        """The atom `op` of `args`, made once."""
        key = (op, *(key_of(a) for a in args))
        found = self._atoms.get(key)
        if found is None:
            name = f"${len(self.dims)}" if op == "dim" else f"({key[1]} {op} {key[2]})"
            found = Size([((Atom(self, name, op, args, hint),), 1)])
            self._atoms[key] = found
        return found

    def require(self, size: Size, relation: Relation) -> None:
        """Record a guard, and what it says of the range of a lone atom."""
        guard = self._guards.setdefault((size.key, relation), Guard(size, relation))
        self._decided.append(guard)
        terms = [t for t in size.terms if t[0]]
        if relation != ">=" or len(terms) != 1 or len(terms[0][0]) != 1:
            return
        (atom,), c = terms[0]
        rest = sum(k for m, k in size.terms if not m)
        if c > 0:
            atom.lo = max(-(rest // c), -(1 << 62) if atom.lo is None else atom.lo)
        else:
            atom.hi = min(rest // -c, 1 << 62 if atom.hi is None else atom.hi)

    @property
    def decisions(self) -> tuple[Guard, ...]:
        """Every guard that was recorded, once each, the newest first."""
        return tuple({id(g): g for g in reversed(self._decided)}.values())

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What must hold; those that others imply are left out."""
        tightest: dict[tuple[tuple[Mono, int], ...], Guard] = {}
        others = []
        for g in self._guards.values():
            if g.relation != ">=":
                others.append(g)
                continue
            body = tuple(t for t in g.size.terms if t[0])
            old = tightest.get(body)
            if old is None or g.size.constant < old.size.constant:
                tightest[body] = g
        return (*tightest.values(), *others)


class Size:
    """An int that depends on dimensions: a sum of `coefficient * product of atoms`, at least one of them an atom."""

    __slots__ = ("hint", "key", "terms")

    def __init__(self, terms: Sequence[tuple[Mono, int]]) -> None:
        self.terms = tuple(terms)
        self.hint = sum(c * prod(a.hint for a in m) for m, c in terms)
        parts = ["*".join([*([str(c)] if c != 1 or not m else []), *(a.name for a in m)]) for m, c in terms]
        self.key = parts[0] if len(parts) == 1 else "(" + " + ".join(parts) + ")"

    @property
    def trace(self) -> Trace:
        """Where its guards go."""
        trace: Trace = next(m for m, _ in self.terms if m)[0].trace
        return trace

    @property
    def constant(self) -> int:
        """The term without atoms."""
        return next((c for m, c in self.terms if not m), 0)

    def __add__(self, other: object) -> Any:
        return _with(self, other, added, add)

    def __sub__(self, other: object) -> Any:
        return _with(self, other, lambda a, b: added(a, scaled(b, -1)), sub)

    def __rsub__(self, other: object) -> Any:
        return _with(self, other, lambda a, b: added(scaled(a, -1), b), lambda a, b: b - a)

    def __mul__(self, other: object) -> Any:
        return _with(self, other, multiplied, mul)

    def __floordiv__(self, other: object) -> Any:
        return _with(self, other, lambda a, b: _poly(quotient(_size(a), _size(b))), floordiv)

    def __rfloordiv__(self, other: object) -> Any:
        return _with(self, other, lambda a, b: _poly(quotient(_size(b), _size(a))), lambda a, b: b // a)

    def __mod__(self, other: object) -> Any:
        return _with(self, other, lambda a, b: _poly(remainder(_size(a), _size(b))), mod)

    def __rmod__(self, other: object) -> Any:
        return _with(self, other, lambda a, b: _poly(remainder(_size(b), _size(a))), lambda a, b: b % a)

    __radd__, __rmul__ = __add__, __mul__

    def __divmod__(self, other: object) -> Any:
        return self // other, self % other

    def __pow__(self, power: int) -> Any:
        return prod([self] * as_index(power)) if power else 1

    def __truediv__(self, other: object) -> Any:
        return int(self) / (int(other) if isinstance(other, Size) else other)  # type: ignore[operator]

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    def __neg__(self) -> Any:
        return _size(scaled(_poly(self), -1))

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __lt__(self, other: object) -> Any:
        return _compared(self, other, lambda n: _decide(n - self - 1), lt)

    def __le__(self, other: object) -> Any:
        return _compared(self, other, lambda n: _decide(n - self), le)

    def __gt__(self, other: object) -> Any:
        return _compared(self, other, lambda n: _decide(self - n - 1), gt)

    def __ge__(self, other: object) -> Any:
        return _compared(self, other, lambda n: _decide(self - n), ge)

    def __eq__(self, other: object) -> Any:
        return self is other or _compared(self, other, lambda n: _is_zero(self - n), eq)

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        raise TypeError(f"the size {text_of(self)} is an expression and no key of a dict or cache: use key_of or int")

    def __bool__(self) -> bool:
        return not _is_zero(self)

    def __index__(self) -> int:
        _is_zero(self - self.hint)
        return self.hint

    __int__ = __trunc__ = __index__

    def __and__(self, other: int) -> int:
        return int(self) & other

    def __lshift__(self, other: int) -> int:
        return int(self) << other

    def __rshift__(self, other: int) -> int:
        return int(self) >> other

    def __rpow__(self, base: Any) -> Any:
        return base ** int(self)

    def bit_length(self) -> int:
        """Of the traced size."""
        return int(self).bit_length()

    def __float__(self) -> float:
        return float(int(self))

    def __str__(self) -> str:
        return str(int(self))

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)

    def __deepcopy__(self, memo: Any) -> Size:
        return self

    def __repr__(self) -> str:
        return text_of(self)


def hint(n: Number) -> int:
    """The value at the sizes that are traced, for what decides about speed only: it records nothing."""
    return n.hint if isinstance(n, Size) else n


def key_of(n: object) -> str:
    """Text that is the same for the same expression: for keys, never for what a kernel or a user reads."""
    return n.key if isinstance(n, Size) else str(n)


def text_of(size: Any) -> str:
    """The expression with the names of the dimensions, for a user."""
    if not isinstance(size, Size):
        return str(size)
    names = list(size.trace.dims)
    return re.sub(r"\$(\d+)", lambda m: names[int(m[1])], size.key)


def same(a: Any, b: Any) -> bool:
    """Whether two numbers (or shapes) are equal at all sizes. False may mean that nobody knows; it records nothing."""
    if type(a) is int and type(b) is int:
        return a == b
    if isinstance(a, tuple | list) or isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Size) or isinstance(b, Size):
        return not isinstance(a - b, Size) and bool(a - b == 0)
    return bool(a == b)


def at_least(a: Number, b: Number) -> bool:
    """Whether a >= b at all sizes; False may mean that nobody knows. It records nothing."""
    n: Any = a - b
    return _never_negative(_poly(n)) if isinstance(n, Size) else bool(n >= 0)


def divides(n: Number, a: Number) -> bool:
    """Whether `n` divides `a` at all sizes; False may mean that nobody knows. It records nothing."""
    if not isinstance(n, Size):
        return same(a % n, 0)
    return at_least(n, 1) and same(a % n, 0)


def common_factor(n: Number, others: Iterable[Number]) -> Number:
    """A divisor of all, the greatest one where they are ints."""
    numbers = [n, *others]
    if not any(isinstance(v, Size) for v in numbers):
        return gcd(*numbers)
    for v in numbers[1:]:
        if not same(v, 1) and at_least(v, 1) and all(divides(v, w) for w in numbers):
            return v
    return gcd(*(c for v in numbers for c in _poly(v).values()))


def largest(*numbers: Number) -> Number:
    """max, as an expression where the sizes decide."""
    result = numbers[0]
    for n in numbers[1:]:
        if at_least(n, result):
            result = n
        elif not at_least(result, n):
            some = n if isinstance(n, Size) else result
            assert isinstance(some, Size)
            made = some.trace.atom("max", (result, n), max(hint(result), hint(n)))
            lows = [v for v in (low(_poly(result)), low(_poly(n))) if v is not None]
            made.terms[0][0][0].lo = max(lows) if lows else None
            result = made
    return result


def broadcast_shapes(*shapes: Sequence[Number]) -> tuple[Number, ...]:
    """numpy's rule for shapes whose sizes may be expressions. Raises ValueError where they do not fit."""
    result: list[Number] = []
    for place in range(-max((len(s) for s in shapes), default=0), 0):
        size: Number = 1
        for n in (s[place] for s in shapes if len(s) >= -place):
            if same(n, size) or same(n, 1):
                continue
            if same(size, 1) or (hint(size) == 1 and hint(n) != 1 and size == 1):
                size = n
            elif not (n == size if hint(n) == hint(size) else n == 1) and n != size:
                raise ValueError(f"shapes {', '.join(str([hint(v) for v in s]) for s in shapes)} do not broadcast")
        result.append(size)
    return tuple(result)


def evaluated(value: Any, dims: Mapping[str, int], memo: dict[str, int] | None = None) -> Any:
    """An int for a number, at the given sizes of the dimensions; shapes and other values element by element."""
    memo = {} if memo is None else memo
    if isinstance(value, tuple):
        return tuple(evaluated(v, dims, memo) for v in value)
    if not isinstance(value, Size):
        return value
    found = memo.get(value.key)
    if found is None:
        found = sum(c * prod(_atom_value(a, dims, memo) for a in m) for m, c in value.terms)
        memo[value.key] = found
    return found


def _atom_value(atom: Atom, dims: Mapping[str, int], memo: dict[str, int]) -> int:
    if atom.op == "dim":
        return dims[atom.args[0]]
    a, b = (evaluated(v, dims, memo) for v in atom.args)
    return int(max(a, b)) if atom.op == "max" else int(a // b)


def quotient(a: Number, b: Number) -> Number:
    """a // b, simplified."""
    if isinstance(b, int):
        if b < 0:
            return quotient(-a, -b)
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b
    elif not b > 0:
        if b == 0:
            raise ZeroDivisionError("a division by a size that is zero")
        return quotient(-a, -b)
    whole, rest = _split(_poly(a), b)
    r = _size(rest)
    if at_least(r, 0) and at_least(b - 1, r):
        return _size(whole)
    if at_least(-1, r) and at_least(r, -b):
        return _size(whole) - 1
    return _size(whole) + _lone_quotient(r, b)


def remainder(a: Number, b: Number) -> Number:
    """a % b."""
    return a - b * quotient(a, b)


def _lone_quotient(r: Number, b: Number) -> Any:
    """r // b where nothing can be taken out of it: nested quotients become one, common factors go."""
    poly = _poly(r)
    if isinstance(b, int) and isinstance(r, Size):
        terms = [(m, c) for m, c in poly.items() if m]
        g = gcd(b, *(c for _, c in terms))
        if g > 1:
            return quotient(_size({m: c // g for m, c in poly.items()}), b // g)
        (mono, c), constant = terms[0], poly.get((), 0)
        if len(terms) == 1 and c == 1 and len(mono) == 1 and mono[0].op == "//" and isinstance(mono[0].args[1], int):
            inner, n = mono[0].args
            return quotient(inner + constant * n, n * b)
    some = r if isinstance(r, Size) else b
    assert isinstance(some, Size)
    made = some.trace.atom("//", (r, b), hint(r) // hint(b))
    if isinstance(made, Size) and isinstance(b, int):
        atom = made.terms[0][0][0]
        least, most = low(poly), low(scaled(poly, -1))
        atom.lo = least // b if least is not None and atom.lo is None else atom.lo
        atom.hi = -most // b if most is not None and atom.hi is None else atom.hi
    elif at_least(r, 0):
        made.terms[0][0][0].lo = max(made.terms[0][0][0].lo or 0, 0)
    return made


def _split(a: Poly, b: Number) -> tuple[Poly, Poly]:
    """Polynomials q, r with a = q * b + r, as much as possible in q."""
    if isinstance(b, int):
        whole = {m: c // b for m, c in a.items() if c % b == 0 or not m}
        return whole, {m: c if m else c % b for m, c in a.items() if c % b}
    if a.get((), 0) < 0 and len(a) == 1:
        return {}, a
    lead, factor = max(((m, c) for m, c in b.terms), key=lambda t: (len(t[0]), [x.name for x in t[0]]))
    whole, rest = {}, dict(a)
    for _ in range(64):
        found = next(
            ((m, c, left) for m, c in rest.items() if c % factor == 0 and (left := without(m, lead)) is not None), None
        )
        if found is None:
            break
        _, c, left = found
        step = {left: c // factor}
        whole = added(whole, step)
        rest = added(rest, scaled(multiplied(step, _poly(b)), -1))
    return whole, rest


def _poly(n: Any) -> Poly:
    return dict(n.terms) if isinstance(n, Size) else {(): n} if n else {}


def _size(p: Poly) -> Any:
    kept = [(m, p[m]) for m in sorted(p, key=lambda m: (-len(m), [a.name for a in m])) if p[m]]
    if not any(m for m, _ in kept):
        return kept[0][1] if kept else 0
    return Size(kept)


def _number(other: Any) -> Any:
    """`other` as a Size or int; floats as they are; None for what is no number."""
    if isinstance(other, Size | float):
        return other
    try:
        return as_index(other)
    except TypeError:
        return None


def _with(self: Size, other: object, f: Any, plain: Any) -> Any:
    """An operation with an int or Size; float arithmetic is done for the sizes that are traced."""
    n = _number(other)
    if n is None:
        return NotImplemented
    return plain(int(self), n) if isinstance(n, float) else _size(f(_poly(self), _poly(n)))


def _compared(self: Size, other: object, f: Any, plain: Any) -> Any:
    """A comparison with a whole number, proved or guarded; with another float, that of the sizes that are traced."""
    n = _number(other)
    if n is None:
        return NotImplemented
    return f(n) if not isinstance(n, float) else f(int(n)) if n.is_integer() else plain(int(self), n)


def _decide(n: Any) -> bool:
    """Whether n >= 0: proved, or as the hint says, with a guard."""
    if not isinstance(n, Size):
        return bool(n >= 0)
    if _never_negative(_poly(n)):
        return True
    if _never_negative(_poly(-n - 1)):
        return False
    n.trace.require(n if n.hint >= 0 else -n - 1, ">=")
    return bool(n.hint >= 0)


def _is_zero(n: Any) -> bool:
    if not isinstance(n, Size):
        return bool(n == 0)
    if _never_negative(_poly(n - 1)) or _never_negative(_poly(-n - 1)):
        return False
    n.trace.require(n, "==" if n.hint == 0 else "!=")
    return bool(n.hint == 0)


def _never_negative(p: Poly) -> bool:
    for _ in range(ROUNDS):
        bound = low(p)
        if bound is not None and bound >= 0:
            return True
        atoms = {a for m in p for a in m if a.op == "//" and isinstance(a.args[1], int)}
        if not atoms:
            return False
        p = _freed(p, max(atoms, key=lambda a: (a.args[1], a.name)))
    return False


def _freed(p: Poly, atom: Atom) -> Poly:
    """At most a positive multiple of `p`, without the quotient x // n: it lies between (x - n + 1) / n and x / n."""
    x, n = atom.args
    others = [a.args[1] for m in p for a in m if a.op == "//" and isinstance(a.args[1], int)]
    shared = max((m for m in others if m < n and n % m == 0), default=1)  # x // n is (x // m) // (n // m)
    x, n = quotient(x, shared), n // shared
    out: Poly = {}
    for mono, c in p.items():
        rest = [a for a in mono if a is not atom]
        if len(rest) == len(mono):
            part = {mono: c * n}
        elif len(rest) + 1 == len(mono) and all(a.lo is not None and a.lo >= 0 for a in rest):
            part = multiplied({tuple(rest): c}, _poly(x if c < 0 else x - n + 1))
        else:
            return {(): -1}
        out = added(out, part)
    return out
