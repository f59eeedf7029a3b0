"""Integer expressions keep their value through every simplification, and divide nothing negative."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping

import pytest

from headrace.kernels.index import Lin, variable

Value = Callable[[Mapping[str, int]], int]


def evaluate(x: Lin, values: Mapping[str, int]) -> int:
    total = x.const
    for atom, c in x.terms:
        if atom.op == "var":
            total += c * values[atom.key]
            continue
        assert atom.lin is not None
        inner = evaluate(atom.lin, values)
        assert inner >= 0, f"{atom.key} divides {inner}, and kernels divide unsigned numbers"
        total += c * (inner // atom.n if atom.op == "/" else inner % atom.n)
    return total


def step(x: Lin, value: Value, b: Lin, draw: random.Random) -> tuple[Lin, Value]:
    kind = draw.choice("+*/%b")
    if kind == "+":
        k = draw.randint(-9, 9)
        return x + k, lambda v: value(v) + k
    if kind == "*":
        k = draw.choice((-3, -1, 2, 3, 4, 6))
        return x * k, lambda v: value(v) * k
    k = draw.choice((1, 2, 3, 4, 6))
    if kind == "/":
        return x // k, lambda v: value(v) // k
    if kind == "%":
        return x % k, lambda v: value(v) % k
    return x + b * 3, lambda v: value(v) + 3 * v["b"]


@pytest.mark.parametrize("seed", range(20))
def test_expressions_keep_their_value(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(100):
        a, b = variable("a", draw.randint(1, 9)), variable("b", draw.randint(1, 9))
        x: Lin = a
        value: Value = lambda v: v["a"]  # noqa: E731
        for _ in range(draw.randint(1, 6)):
            x, value = step(x, value, b, draw)
        for i, j in itertools.product(range(a.hi + 1), range(b.hi + 1)):
            at = {"a": i, "b": j}
            assert evaluate(x, at) == value(at), (x.key, at)
            assert x.lo <= value(at) <= x.hi
