"""Sizes: exact at every value of the dimensions, and every decision proved or guarded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace.kernels.known import SizeArray, dtype_of, known_array
from headrace.kernels.size import (
    Size,
    Trace,
    at_least,
    broadcast_shapes,
    common_factor,
    divides,
    evaluated,
    hint,
    largest,
    same,
)

Dims = dict[str, int]
Value = tuple[Any, Callable[[Dims], int]]  # a size, and the same computed by Python

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": lambda a, b: largest(a, b) if isinstance(a, Size) or isinstance(b, Size) else max(a, b),
}
DECISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "bool": lambda a, b: bool(a),
    "int": lambda a, b: int(a),
    "text": lambda a, b: f"{a}",
    "float": lambda a, b: a / 4,
    "float less": lambda a, b: a < 2.5,
    "index": lambda a, b: len(range(min(max(int(a), 0), 99))),
}


def grown(rng: random.Random, trace: Trace) -> list[Value]:
    """Random expressions over the dimensions."""
    values: list[Value] = [(trace.dims[d], lambda x, d=d: x[d]) for d in trace.dims]  # type: ignore[misc]
    values += [(k, lambda x, k=k: k) for k in (0, 1, 2, 3, 5, 8, -2)]  # type: ignore[misc]
    for _ in range(9):
        (a, f), (b, g) = rng.choice(values[-6:]), rng.choice(values)
        operation = OPERATIONS[rng.choice(list(OPERATIONS))]
        try:
            made = operation(a, b)
        except ZeroDivisionError:
            continue
        values.append((made, lambda x, f=f, g=g, o=operation: o(f(x), g(x))))  # type: ignore[misc]
    return values


@pytest.mark.parametrize("seed", range(40))
def test_expressions_and_decisions_hold_wherever_the_guards_do(seed):
    rng = random.Random(seed)
    for _ in range(40):
        trace = Trace({"a": rng.randint(1, 9), "b": rng.randint(1, 40)})
        values = grown(rng, trace)
        claims: list[tuple[Any, Callable[[Dims], Any]]] = []
        for _ in range(5):
            (a, f), (b, g), name = rng.choice(values), rng.choice(values), rng.choice(list(DECISIONS))
            decide = DECISIONS[name]
            claims.append((decide(a, b), lambda x, f=f, g=g, d=decide: d(f(x), g(x))))
        for _ in range(8):
            (a, f), (b, g) = rng.choice(values), rng.choice(values)
            if at_least(a, b):
                claims.append((True, lambda x, f=f, g=g: f(x) >= g(x)))
            if same(a, b):
                claims.append((True, lambda x, f=f, g=g: f(x) == g(x)))
            if b != 0 and divides(b, a):
                claims.append((True, lambda x, f=f, g=g: f(x) % g(x) == 0))
        hints = {d: n.hint for d, n in trace.dims.items()}
        assert all(g.holds(hints) for g in trace.guards)
        for dims in [hints, *({"a": rng.randint(1, 30), "b": rng.randint(1, 60)} for _ in range(20))]:
            if all(g.holds(dims) for g in trace.guards):
                assert [evaluated(v, dims) for v, _ in values] == [f(dims) for _, f in values]
                assert [want for want, _ in claims] == [f(dims) for _, f in claims]


def test_what_needs_no_guard():
    trace = Trace({"h": 224, "w": 256, "n": 1})
    h, w, n = trace.dims.values()
    for _ in range(5):  # five convolutions of stride 2, two ways to pad
        h, w = (h + 2 - 3) // 2 + 1, (w + 6 - 7) // 2 + 1
    assert same(h, (trace.dims["h"] + 31) // 32)
    assert n * h * w * 256 // (n * w) == 256 * h and (n * h * w) % (h * w) == 0
    assert h > 0 and h * w >= h and n * 3 * h != 0 and -h < 0 and h != -1
    assert 2 * ((trace.dims["h"] + 7) // 8) <= (trace.dims["h"] + 3) // 4 + 1
    assert same((h * w - 1) // w, h - 1) and (h % 1) == 0
    assert broadcast_shapes((n, 1, h), (5, 1)) == (n, 5, h)
    assert common_factor(h * w, [w]) is w and common_factor(12, [18, 6]) == 6
    assert not trace.guards


def test_a_size_is_no_key():
    """A cache that a size could enter would hand back what was made for another trace."""
    with pytest.raises(TypeError, match="no key"):
        {Trace({"n": 3}).dims["n"]: 1}


def test_a_decision_is_guarded():
    trace = Trace({"n": 5})
    n = trace.dims["n"]
    assert [10, 20, 30, 40, 50, 60][n] == 60
    assert trace.guards[0].holds({"n": 5}) and not trace.guards[0].holds({"n": 4})
    assert "n" in str(trace.guards[0]) and hint(n) == 5


@pytest.mark.parametrize("left, right", [((2,), (3,)), (("n", 2), ("n", 3))])
def test_shapes_that_do_not_broadcast(left, right):
    trace = Trace({"n": 4})
    shapes = [tuple(trace.dims.get(d, d) for d in s) for s in (left, right)]
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast_shapes(*shapes)


def test_broadcasting_guards_what_it_assumes():
    trace = Trace({"a": 4, "b": 4})
    assert broadcast_shapes((trace.dims["a"],), (trace.dims["b"],)) == (trace.dims["a"],)
    assert not all(g.holds({"a": 4, "b": 1}) for g in trace.guards)
    trace = Trace({"a": 1, "b": 4})
    assert broadcast_shapes((trace.dims["a"],), (trace.dims["b"],)) == (trace.dims["b"],)
    assert not all(g.holds({"a": 2, "b": 2}) for g in trace.guards)


def test_arrays_of_sizes_know_their_type():
    trace = Trace({"n": 4})
    array = known_array([trace.dims["n"], 3], np.int32)
    assert isinstance(array, SizeArray) and array.type == np.int32 and array.shape == (2,)
    assert not isinstance(known_array([2, 3], np.int64), SizeArray)
    assert np.asarray(array, np.int64).tolist() == [4, 3] and len(trace.guards) == 1


def test_views_of_arrays_of_sizes_know_their_type():
    n = Trace({"n": 4}).dims["n"]
    array = known_array([n, 3, n + 1], np.int32)
    views = [
        array[:1].reshape(()),
        array[::-1],
        array.reshape(3, 1).T,
        array.copy(),
        np.expand_dims(array, 0),
        array.ravel(),
    ]
    assert [dtype_of(v) for v in views] == [np.dtype(np.int32)] * len(views)


@pytest.mark.parametrize("seed", range(20))
def test_sizes_that_break_a_guard(seed):
    """Each differs in one dimension and breaks it; a difference of two dimensions can always be closed."""
    rng, broken = random.Random(seed), 0
    for _ in range(40):
        hints = {"a": rng.randint(1, 9), "b": rng.randint(1, 40)}
        trace = Trace(hints)
        (a, _), (b, _) = rng.choice(grown(rng, trace)), rng.choice(grown(rng, trace))
        DECISIONS[rng.choice(["<", "<=", "==", "int"])](a, b)
        for guard in trace.decisions:
            for dims in guard.broken_by(hints):
                assert not guard.holds(dims) and min(dims.values()) > 0
                assert sum(dims[d] != hints[d] for d in hints) == 1
                broken += 1
    assert broken
    trace = Trace({"a": 5, "b": 9})
    assert trace.dims["a"] != trace.dims["b"]
    assert trace.decisions[0].broken_by({"a": 5, "b": 9}) == [{"a": 9, "b": 9}, {"a": 5, "b": 5}]
