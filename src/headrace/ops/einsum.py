"""Einsum: diagonals, sums and matrix products of two operands at a time, from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..kernels.expr import Map, Tensor, View, expanded, reshaped, transposed
from ..kernels.size import broadcast_shapes
from .matmul import product
from .reduce import SUM, reduced
from .registry import Call, Refuse, op

Labels = list[str]


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Labels of each operand and of the result. Axes under an ellipsis are labelled by their distance from its end."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise Refuse(f"{len(terms)} terms for {len(ranks)} inputs")
    widths = [r - len(t.replace("...", "")) if "..." in t else 0 for t, r in zip(terms, ranks, strict=True)]
    operands = [_labels(t, w) for t, w in zip(terms, widths, strict=True)]
    if arrow:
        return operands, _labels(right, max(widths, default=0))
    letters = sorted(x for x in set(left) - set(",.") if left.count(x) == 1)
    return operands, [*_labels("...", max(widths, default=0)), *letters]


def _labels(term: str, width: int) -> Labels:
    before, dots, after = term.partition("...")
    middle = [f".{i}" for i in range(width - 1, -1, -1)] if dots else []
    return [*before, *middle, *after]


def _diagonal(x: Tensor, labels: Labels, node: str) -> tuple[Tensor, Labels]:
    """One axis for each label: repeated ones walk together."""
    once = list(dict.fromkeys(labels))
    if len(once) == len(labels):
        return x, labels
    place = [once.index(v) for v in labels]
    shape = [x.shape[labels.index(v)] for v in once]
    return View("diagonal", x, shape, lambda c: tuple(c[p] for p in place), node), once


def _sum_out(call: Call, x: Tensor, labels: Labels, keep: set[str]) -> tuple[Tensor, Labels]:
    axes = [i for i, v in enumerate(labels) if v not in keep]
    return (reduced(call, x, axes, SUM, False), [v for v in labels if v in keep]) if axes else (x, labels)


def _arranged(x: Tensor, labels: Labels, groups: Sequence[Labels], sizes: dict[str, int], node: str) -> Tensor:
    """x with the axes of each group joined into one; labels that it does not have are broadcast."""
    wanted = [v for g in groups for v in g]
    order = [labels.index(v) for v in wanted if v in labels]
    moved = transposed(x, order, node)
    shape = [x.shape[labels.index(v)] if v in labels else 1 for v in wanted]
    wide = expanded(reshaped(moved, shape, node), [sizes[v] for v in wanted], node)
    return reshaped(wide, [prod(sizes[v] for v in g) for g in groups], node)


def _contract(
    call: Call, a: Tensor, left: Labels, b: Tensor, right: Labels, keep: set[str], sizes: dict[str, int]
) -> tuple[Tensor, Labels]:
    """The product of two operands, summed over what neither the result nor a later operand has."""
    shared = [v for v in left if v in right]
    summed = [v for v in shared if v not in keep]
    batch = [v for v in shared if v in keep]
    rows, columns = [v for v in left if v not in shared], [v for v in right if v not in shared]
    labels = [*batch, *rows, *columns]
    shape = [sizes[v] for v in labels]
    if not summed:
        parts = [_arranged(t, v, [[w] for w in labels], sizes, call.node) for t, v in ((a, left), (b, right))]
        return Map("{0} * {1}", parts, a.dtype, call.node), labels
    x = _arranged(a, left, [batch, rows, summed], sizes, call.node)
    y = _arranged(b, right, [batch, summed, columns], sizes, call.node)
    return reshaped(product(call, x, y, a.dtype), shape, call.node), labels


@op("Einsum", since=12, dtypes="float, int, uint")
def einsum(call: Call) -> Tensor:
    """Any equation, with ellipses."""
    inputs = [call.x(i) for i in range(len(call.inputs))]
    operands, result = parse(call.attr("equation"), [len(x.shape) for x in inputs])
    sizes: dict[str, int] = {}
    for x, labels in zip(inputs, operands, strict=True):
        for n, v in zip(x.shape, labels, strict=True):
            sizes[v] = broadcast_shapes((sizes.get(v, 1),), (n,))[0]
    terms = [_diagonal(x, v, call.node) for x, v in zip(inputs, operands, strict=True)]
    total, labels = terms[0]
    for i, (x, right) in enumerate(terms[1:], 1):
        keep = set(result).union(*(v for _, v in terms[i + 1 :]))
        total, labels = _sum_out(call, total, labels, keep | set(right))
        x, right = _sum_out(call, x, right, keep | set(labels))
        total, labels = _contract(call, total, labels, x, right, keep, sizes)
    total, labels = _sum_out(call, total, labels, set(result))
    return transposed(total, [labels.index(v) for v in result], call.node)
