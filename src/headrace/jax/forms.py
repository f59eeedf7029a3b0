"""The ways to compute a Problem whose strides are all one. Each is a function of named arrays; `cost` chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .geometry import Axis, Problem
from .lax_originals import LAX_CONV
from .named import Named, unmerge


@dataclass(frozen=True, slots=True)
class Numerics:
    """How to multiply and in what to add: `precision` as in jax.lax, `accumulate` the dtype of sums."""

    precision: Any
    accumulate: Any

    def dot(self, lhs: jax.Array, rhs: jax.Array, contract: tuple[list[int], list[int]], batch: int) -> jax.Array:
        """dot_general whose first `batch` axes are batch axes."""
        numbers = (contract, (list(range(batch)),) * 2)
        return lax.dot_general(lhs, rhs, numbers, precision=self.precision, preferred_element_type=self.accumulate)

    def wide(self, x: jax.Array) -> jax.Array:
        """The array in the dtype of sums."""
        return lax.convert_element_type(x, self.accumulate)


@dataclass(frozen=True, slots=True)
class Unit:
    """A Problem with unit strides and its operands; `order` is the order of result axes that costs no transpose."""

    problem: Problem
    lhs: Named
    rhs: Named
    order: tuple[str, ...]
    numerics: Numerics

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Spatial axes."""
        return self.problem.axes

    @property
    def spatial(self) -> tuple[str, ...]:
        """Names of the spatial axes."""
        return tuple(f"s{i}" for i in range(len(self.axes)))

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths of the axes that are not spatial."""
        return dict(self.problem.sizes)

    def role(self, letter: str) -> tuple[str, ...]:
        """Names with this role: those of the result in its order, summed ones in the order of lhs."""
        dims = self.lhs.dims if letter == "c" else self.order
        return tuple(d for d in dims if d[0] == letter)

    @property
    def features_last(self) -> bool:
        """Whether the result wants its features after its spatial axes."""
        last = [d for d in self.order if d[0] in "so" and self.size_out(d) > 1]
        return bool(last) and last[-1][0] == "o" and not (len(last) > 1 and last[-1][1] == "r" and last[-2][0] == "s")

    @property
    def rhs_first(self) -> bool:
        """Whether rhs gives the rows of a matrix product: so that the largest of the three arrays is not transposed."""
        sizes = {"lhs": self.lhs.array.size, "rhs": self.rhs.array.size}
        sizes["out"] = prod(self.size_out(d) for d in self.order)
        largest = max(sizes, key=lambda which: sizes[which])
        if largest == "out":
            return not self.features_last
        operand = self.rhs if largest == "rhs" else self.lhs
        slow = next((d for d in operand.dims if d[0] != "g" and operand.size(d) > 1), "c")
        return (slow[0] == "c") == (largest == "lhs")

    def size_out(self, name: str) -> int:
        """Length of an axis of the result."""
        return self.axes[int(name[1:])].out if name[0] == "s" else self.sizes[name]

    def taps(self, which: str) -> Iterator[tuple[int, ...]]:
        """Positions of the rhs or of the result."""
        return product(*(range(getattr(a, which)) for a in self.axes))

    def lhs_at(self, tap: tuple[int, ...]) -> Named:
        """The elements of lhs that this tap of rhs meets, one for each position of the result."""
        x = self.lhs
        for name, k, a in zip(self.spatial, tap, self.axes, strict=True):
            x = x.window(name, k - a.padding, a.out)
        return x

    def tap(self, array: Named, tap: tuple[int, ...]) -> Named:
        """`array` at one position of its spatial axes, which are dropped."""
        for name, k in zip(self.spatial, tap, strict=True):
            array = array.take(name, k)
        return array


def conv(unit: Unit) -> Named:
    """An ordinary grouped convolution without strides or dilation."""
    g, n, o, c = (unit.role(letter) for letter in "gnoc")
    s = [(name,) for name in unit.spatial]
    letters = "DHWXYZABEFGJKLMPQRSTUV"[: len(s)]
    if unit.features_last:
        numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
        lhs, rhs = unit.lhs.arrange(n, *s, g + c), unit.rhs.arrange(*s, c, g + o)
        groups: list[tuple[str, ...]] = [n, *s, g + o]
    else:
        numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
        lhs, rhs = unit.lhs.arrange(n, g + c, *s), unit.rhs.arrange(g + o, c, *s)
        groups = [n, g + o, *s]
    out = LAX_CONV(
        lhs,
        rhs,
        (1,) * len(s),
        [a.padding_pair for a in unit.axes],
        dimension_numbers=numbers,
        feature_group_count=unit.problem.size("g"),
        precision=unit.numerics.precision,
        preferred_element_type=unit.numerics.accumulate,
    )
    return unmerge(out, groups, out_sizes(unit))


def out_sizes(unit: Unit) -> dict[str, int]:
    """Lengths of all axes of the result."""
    return unit.sizes | {name: a.out for name, a in zip(unit.spatial, unit.axes, strict=True)}


def multiply(unit: Unit, lhs: Named, rhs: Named, sizes: dict[str, int], rhs_first: bool) -> Named:
    """One matrix product a group: sums the axes that both arrays have, except g."""
    g = unit.role("g")
    summed = tuple(d for d in lhs.dims if d in rhs.dims and d not in g)
    free_l = tuple(d for d in lhs.dims if d not in rhs.dims)
    free_r = tuple(d for d in rhs.dims if d not in lhs.dims)
    lead = [(d,) for d in g if sizes[d] > 1]
    spare = [d for d in g if sizes[d] == 1]
    batch = len(lead)
    rows, columns = (rhs, lhs) if rhs_first else (lhs, rhs)
    free_rows, free_columns = (free_r, free_l) if rhs_first else (free_l, free_r)
    a = rows.arrange(*lead, spare + list(free_rows), summed)
    b = columns.arrange(*lead, spare + list(summed), free_columns)
    out = unit.numerics.dot(a, b, ([batch + 1], [batch]), batch)
    return unmerge(out, [*lead, spare + list(free_rows), free_columns], sizes)


def overlap(unit: Unit) -> Named:
    """One matrix product with every tap, whose results are shifted and added (overlap-add)."""
    names = tuple(f"k{i}" for i in range(len(unit.axes)))
    rename = dict(zip(unit.spatial, names, strict=True))
    taps = Named(unit.rhs.array, tuple(rename.get(d, d) for d in unit.rhs.dims))
    o = unit.role("o")
    taps = taps.transpose([*unit.role("g"), *names, *o, *unit.role("c")])
    lhs = unit.lhs.transpose([*unit.role("g"), *unit.role("n"), *unit.spatial, *unit.role("c")])
    sizes = unit.sizes
    sizes |= {name: a.lhs for name, a in zip(unit.spatial, unit.axes, strict=True)}
    sizes |= {name: a.rhs for name, a in zip(names, unit.axes, strict=True)}
    columns = multiply(unit, lhs, taps, sizes, unit.rhs_first)
    total = None
    for tap in unit.taps("rhs"):
        part = columns
        for name, inner, k, a in zip(unit.spatial, names, tap, unit.axes, strict=True):
            part = part.take(inner, k).window(name, k - a.padding, a.out)
        total = part if total is None else Named(total.array + part.array, total.dims)
    assert total is not None
    return total


def patches(unit: Unit) -> Named:
    """The windows of lhs side by side, then one matrix product (im2col)."""
    names = tuple(f"c_k{i}" for i in range(len(unit.axes)))
    rename = dict(zip(unit.spatial, names, strict=True))
    taps = Named(unit.rhs.array, tuple(rename.get(d, d) for d in unit.rhs.dims))
    stacked = Named.stack([unit.lhs_at(tap) for tap in unit.taps("rhs")], "c_k")
    sizes = out_sizes(unit) | {name: a.rhs for name, a in zip(names, unit.axes, strict=True)}
    shape = (*(a.rhs for a in unit.axes), *stacked.array.shape[1:])
    lhs = Named(lax.reshape(stacked.array, shape), (*names, *stacked.dims[1:]))
    lhs = lhs.transpose([*unit.role("g"), *unit.role("n"), *unit.spatial, *names, *unit.role("c")])
    taps = taps.transpose([*unit.role("g"), *unit.role("o"), *names, *unit.role("c")])
    return multiply(unit, lhs, taps, sizes, unit.rhs_first)


def taps(unit: Unit) -> Named:
    """One matrix product a tap, added; the smaller of lhs and the product is shifted."""
    move_result = unit.problem.size("o") < unit.problem.size("c")
    sizes = out_sizes(unit)
    if move_result:
        sizes |= {name: a.lhs for name, a in zip(unit.spatial, unit.axes, strict=True)}
    total = None
    for tap in unit.taps("rhs"):
        lhs = unit.lhs if move_result else unit.lhs_at(tap)
        lhs = lhs.transpose([*unit.role("g"), *unit.role("n"), *unit.spatial, *unit.role("c")])
        rhs = unit.tap(unit.rhs, tap).transpose([*unit.role("g"), *unit.role("o"), *unit.role("c")])
        part = multiply(unit, lhs, rhs, sizes, unit.rhs_first)
        if move_result:
            for name, k, a in zip(unit.spatial, tap, unit.axes, strict=True):
                part = part.window(name, k - a.padding, a.out)
        total = part if total is None else Named(total.array + part.array, total.dims)
    assert total is not None
    return total


def _shifted(unit: Unit, tap: tuple[int, ...], move_rhs: bool) -> tuple[Named, Named]:
    """lhs and rhs aligned for one position of the result: one of them is shifted."""
    lhs, rhs = unit.lhs, unit.rhs
    for name, o, a in zip(unit.spatial, tap, unit.axes, strict=True):
        if move_rhs:
            rhs = rhs.window(name, a.padding - o, a.lhs)
        else:
            lhs = lhs.window(name, o - a.padding, a.rhs)
    return lhs, rhs


def _moves_rhs(unit: Unit) -> bool:
    """Whether rhs is the smaller array to shift."""
    return unit.problem.size("o") < unit.problem.size("n")


def inner(unit: Unit) -> Named:
    """Few positions in the result (a weight gradient): one matrix product for each, over channels and space."""
    move_rhs = _moves_rhs(unit)
    parts = []
    for tap in unit.taps("out"):
        lhs, rhs = _shifted(unit, tap, move_rhs)
        lhs = lhs.transpose([*unit.role("g"), *unit.role("n"), *unit.role("c"), *unit.spatial])
        rhs = rhs.transpose([*unit.role("g"), *unit.role("o"), *unit.role("c"), *unit.spatial])
        parts.append(multiply(unit, lhs, rhs, unit.sizes, True))
    return _stack_taps(unit, parts)


def inner_stacked(unit: Unit) -> Named:
    """As `inner`, but the shifted copies side by side and one matrix product for all."""
    move_rhs = _moves_rhs(unit)
    pairs = [_shifted(unit, tap, move_rhs) for tap in unit.taps("out")]
    moved = Named.stack([pair[move_rhs] for pair in pairs], "k")
    other = pairs[0][not move_rhs]
    lhs, rhs = (other, moved) if move_rhs else (moved, other)
    k = ("k",)
    lhs = lhs.transpose([*unit.role("g"), *k * (not move_rhs), *unit.role("n"), *unit.role("c"), *unit.spatial])
    rhs = rhs.transpose([*unit.role("g"), *k * move_rhs, *unit.role("o"), *unit.role("c"), *unit.spatial])
    out = multiply(unit, lhs, rhs, unit.sizes | {"k": prod(a.out for a in unit.axes)}, True)
    dims = ["k", *(d for d in out.dims if d != "k")]
    return _unstack_taps(unit, out.transpose(dims))


def _stack_taps(unit: Unit, parts: list[Named]) -> Named:
    return _unstack_taps(unit, Named.stack(parts, "k"))


def _unstack_taps(unit: Unit, x: Named) -> Named:
    shape = (*(a.out for a in unit.axes), *x.array.shape[1:])
    return Named(lax.reshape(x.array, shape), (*unit.spatial, *x.dims[1:]))


def _broadcast(x: Named, dims: tuple[str, ...], sizes: dict[str, int]) -> jax.Array:
    """The array with every axis of `dims`, length one where it has none."""
    x = x.transpose([d for d in dims if d in x.dims])
    return lax.reshape(x.array, tuple(sizes[d] if d in x.dims else 1 for d in dims))


def elementwise(unit: Unit) -> Named:
    """Multiply and add, one term a tap and summed channel: depthwise and few channels."""
    sizes, c = out_sizes(unit), unit.role("c")
    wide = unit.numerics.wide
    total = None
    for tap in unit.taps("rhs"):
        lhs, rhs = unit.lhs_at(tap), unit.tap(unit.rhs, tap)
        for channel in product(*(range(sizes[d]) for d in c)):
            x, w = lhs, rhs
            for name, index in zip(c, channel, strict=True):
                x, w = x.take(name, index), w.take(name, index)
            term = wide(_broadcast(x, unit.order, sizes)) * wide(_broadcast(w, unit.order, sizes))
            total = term if total is None else total + term
    assert total is not None
    return Named(jnp.broadcast_to(total, [sizes[d] for d in unit.order]), unit.order)


def elementwise_inner(unit: Unit) -> Named:
    """Multiply and reduce, once for each position of the result: the weight gradient of a depthwise convolution."""
    wide, parts = unit.numerics.wide, []
    summed = (*unit.role("c"), *unit.spatial)
    # The order of lhs, so that nothing is transposed before it is reduced.
    dims = (*unit.role("o"), *unit.lhs.dims)
    move_rhs = _moves_rhs(unit)
    for tap in unit.taps("out"):
        lhs, rhs = _shifted(unit, tap, move_rhs)
        sizes = unit.sizes | {name: lhs.size(name) for name in unit.spatial}
        terms = wide(_broadcast(lhs, dims, sizes)) * wide(_broadcast(rhs, dims, sizes))
        out = jnp.sum(terms, axis=tuple(dims.index(d) for d in summed))
        parts.append(Named(out, tuple(d for d in dims if d not in summed)))
    return _stack_taps(unit, parts)


FORMS: dict[str, Callable[[Unit], Named]] = {
    "conv": conv,
    "overlap": overlap,
    "patches": patches,
    "taps": taps,
    "inner": inner,
    "inner_stacked": inner_stacked,
    "elementwise": elementwise,
    "elementwise_inner": elementwise_inner,
}
