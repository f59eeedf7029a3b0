"""Attention in one kernel, found as MatMul, (scale, mask, ...), Softmax, (NaN to zero), MatMul among the lazy
tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

from ..kernels.expr import Fill, Heavy, Map, Result, Tensor, View
from ..kernels.index import unflatten, variable
from ..kernels.size import same
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .matmul import MatMul
from .normalize import SOFTMAX, Normalize

LARGEST_HEAD = 128


@dataclass(frozen=True)
class Attention(Template):
    """out[b, i, :] = softmax over j of score(b, i, j, q[b, i] . k[b, :, j]) times v[b, j, :].

    Inputs are q, k (already transposed), v and the lazy score, in which `dot` stands for the product of q and k.
    """

    batch: tuple[int, ...]
    rows: int
    keys: int
    size: int
    zero_empty: bool
    dot: Result
    score_shape: tuple[int, ...]
    name = "attention"

    def bound(self) -> set[int]:
        """The score's product."""
        return {self.dot.serial}

    def build(self, b: Build) -> Launch:
        heads = prod(self.batch)
        group = 16 if b.target.software else 64
        v = variable("b", heads)
        at = unflatten(v, self.batch)
        i, j, d = variable("i", self.rows), variable("j", self.keys), variable("d", self.size, 1)
        b.read("q", 0, (*at, i, d), ("b", "i"), ("d",))
        b.read("k", 1, (*at, d, j), ("b", "j"), ("d",))
        b.read("v", 2, (*at, j, d), ("b", "j"), ("d",))
        b.text.bound_reader(
            "score_of", b.inputs[3], (*at, i, j), ("b", "i", "j"), {self.dot.serial: "dot"}, (("dot", "f32"),)
        )
        split, groups_z = spread(heads, b.target.workgroups)
        b.text.const(GROUP=group, QUADS=self.size // 4, ZERO_EMPTY=self.zero_empty)
        b.text.uniform(heads=heads, rows=self.rows, keys=self.keys, split=split, lowest=-inf)
        b.store("store_out", ["b", "i", "d"], [(*at, i, variable("d", self.size))], [("v", "f32")])
        flops = heads * self.rows * self.keys * (4 * self.size + 8)
        return Launch(
            wgsl(__file__, "attention.wgsl"), (ceil_div(self.rows, group), split, groups_z), flops, (group, 1, 1)
        )


def fuse_attention(heavies: Sequence[Heavy], uses: Mapping[int, int], loops: int) -> None:
    """Replace every second matrix product of an attention by one Attention kernel, where nothing else reads what is
    between, and where one invocation may make as many iterations as it takes (`loops`)."""
    for heavy in heavies:
        if isinstance(heavy.template, MatMul):
            _try(heavy, heavy.template, uses, loops)


def _try(heavy: Heavy, second: MatMul, uses: Mapping[int, int], loops: int) -> None:
    p, zero_empty = _probabilities(heavy.inputs[0], uses)
    soft = p.heavy if p is not None else None
    if (
        p is None
        or soft is None
        or not isinstance(soft.template, Normalize)
        or soft.template.kind != SOFTMAX
        or soft.template.log
    ):
        return
    score = _peel(soft.inputs[0])
    shape = (*second.batch, second.m, second.k)
    if not second.batch or not same((*score.shape, soft.template.length), (*shape, second.k)):
        return
    dot = _product_in(score, uses)
    if dot is None:
        return
    first = dot.heavy.template
    assert isinstance(first, MatMul)
    if not same((*first.batch, first.m, first.k, first.n), (*second.batch, second.m, second.n, second.k)):
        return
    if second.n % 4 or second.n > LARGEST_HEAD or second.k * (second.n // 2 + 1) > loops:
        return
    heavy.template = Attention(second.batch, second.m, second.k, second.n, zero_empty, dot, score.shape)
    heavy.nodes = (*dot.heavy.nodes, *soft.nodes, *heavy.nodes)
    heavy.inputs = (*dot.heavy.inputs, heavy.inputs[1], score)


def _peel(x: Tensor) -> Tensor:
    """Without the reshapes above a tensor."""
    while isinstance(x, View) and x.kind == "reshape":
        x = x.inputs[0]
    return x


def _probabilities(x: Tensor, uses: Mapping[int, int]) -> tuple[Result | None, bool]:
    """The softmax under reshapes and `where(isnan(p), 0, p)`, if nothing else reads it."""
    zero = False
    while not isinstance(x, Result):
        if isinstance(x, View) and x.kind == "reshape" and uses.get(x.serial, 0) <= (2 if zero else 1):
            x = x.inputs[0]
        elif isinstance(x, Map) and x.text == "select({2}, {1}, {0})" and uses.get(x.serial, 0) == 1 and not zero:
            c, a, b = x.inputs
            if not (
                isinstance(c, Map)
                and c.text.startswith("is_nan")
                and c.inputs[0] is b
                and isinstance(a, Fill)
                and a.value == 0
            ):
                return None, False
            zero, x = True, b
        else:
            return None, False
    return (x, zero) if uses.get(x.serial, 0) <= (2 if zero else 1) else (None, False)


def _product_in(score: Tensor, uses: Mapping[int, int]) -> Result | None:
    """The one matrix product that a score is computed from, element for element, if nothing else reads it."""
    stack, found = [score], None
    while stack:
        x = stack.pop()
        if (
            isinstance(x, Result)
            and isinstance(x.heavy.template, MatMul)
            and uses.get(x.serial, 0) == 1
            and same(x.shape, score.shape)
        ):
            if found is not None:
                return None
            found = x
        elif isinstance(x, Map) and uses.get(x.serial, 0) == 1:
            stack += x.inputs
    return found


__all__ = ["Attention", "fuse_attention"]
