"""TfIdfVectorizer over numbers: a thread counts one n-gram in one row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..dtypes import Array
from ..kernels.expr import Tensor, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .elementwise import cast
from .masks import I32
from .registry import Call, Refuse, check_loops, op

MODES = {"TF": 0, "IDF": 1, "TFIDF": 2}


@dataclass(frozen=True)
class Tfidf(Template):
    """out[r, s] from how often n-gram s stands in x[r, :], with 0 to `skips` elements left out between its parts."""

    rows: int
    length: int
    slots: int
    pool: int
    skips: int
    mode: int
    name = "tfidf"

    def build(self, b: Build) -> Launch:
        r, i, s = variable("r", self.rows), variable("i", self.length), variable("s", self.slots)
        b.read("x", 0, (r, i), ("r", "i"))
        b.read("pool", 1, (variable("i", self.pool),), ("i",))
        b.read("gram", 2, (s, variable("k", 2)), ("s", "k"))
        b.read("weight", 3, (s,), ("s",))
        groups = spread(ceil_div(self.rows * self.slots, 64), b.target.workgroups)
        b.text.const(MODE=self.mode)
        b.text.uniform(total=self.rows * self.slots, length=self.length, slots=self.slots, groups_x=groups[0])
        b.text.uniform(skips=self.skips)
        b.store("store_out", ["r", "s"], [(r, s)], [("v", "f32")])
        work = self.rows * self.slots * self.length * (self.skips + 1)
        return Launch(wgsl(__file__, "tfidf.wgsl"), (*groups, 1), work)


def _grams(call: Call) -> Array:
    """For each result, where its n-gram begins in the pool and how long it is; 0 where there is none to count."""
    starts, pool = list(call.attr("ngram_counts")), call.attr("pool_int64s")
    indexes = list(call.attr("ngram_indexes"))
    shortest, longest = call.attr("min_gram_length"), call.attr("max_gram_length")
    table = np.zeros((max(indexes) + 1, 2), np.int32)
    at = 0
    for n, (begin, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        for place in range(begin, end, n):
            table[indexes[at]] = (place, n if shortest <= n <= longest else 0)
            at += 1
    return table


@op("TfIdfVectorizer", since=9, dtypes="int")
def tfidf(call: Call) -> Tensor:
    """Counts, weights or both, of n-grams of integers."""
    pool = call.attr("pool_int64s")
    if not pool:
        raise Refuse("strings stay on the host")
    x, grams = cast(call.x(0), I32, call.node), _grams(call)
    length = x.shape[-1] if x.shape else 1
    rows, slots = x.size // max(length, 1), len(grams)
    walks = length * (call.attr("max_skip_count") + 1) * (int(grams[:, 1].max()) + 1)
    check_loops(call, walks, f"{length} elements for n-grams")
    weights = np.array(call.attr("weights") or np.ones(slots), np.float32)
    placed = np.ones(slots, np.float32)
    placed[list(call.attr("ngram_indexes"))] = weights[: len(call.attr("ngram_indexes"))]
    template = Tfidf(rows, length, slots, len(pool), call.attr("max_skip_count"), MODES[call.attr("mode")])
    constants = [call.lift(a, call.node) for a in (np.array(pool, np.int64), grams, placed)]
    parts = [reshaped(x, (rows, length), call.node), *constants]
    y = call.heavy(template, parts, (rows, slots), ir.DataType.FLOAT)
    return reshaped(y, (*x.shape[:-1], slots), call.node)
