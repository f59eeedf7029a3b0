"""TopK and sorting: pieces of a row are sorted by counting, then each element finds its place among all pieces."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ..kernels.expr import Fill, Heavy, Tensor, reshaped, transposed
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, ceil_div, spread, wgsl
from .arg import better
from .movement import axis_of, sliced
from .registry import Call, Refuse, op

PIECE = 1024
MOST_PIECES = 4096


@dataclass(frozen=True)
class SortPieces(Template):
    """Two results [rows, length]: each piece of PIECE elements of a row in order, and where its elements were."""

    rows: int
    length: int
    type: str
    largest: bool
    name = "sort"

    def build(self, b: Build) -> Launch:
        i, k = variable("i", self.rows), variable("k", self.length)
        b.read("x", 0, (i, k), ("i", "k"))
        groups = _declare(b, self, self.rows * self.length)
        b.store("store_out", ["i", "k"], [(i, k), (i, k)], [("v", self.type), ("at", "i32")])
        work = self.rows * self.length * min(PIECE, self.length)
        return Launch(wgsl(__file__, "sort.wgsl"), (*groups, 1), work)


@dataclass(frozen=True)
class MergePieces(Template):
    """Two results [rows, k]: the first k of a row whose pieces are sorted, and where they were."""

    rows: int
    length: int
    k: int
    type: str
    largest: bool
    name = "sort_merge"

    def build(self, b: Build) -> Launch:
        i, k = variable("i", self.rows), variable("k", self.length)
        b.read("x", 0, (i, k), ("i", "k"))
        b.read("place", 1, (i, k), ("i", "k"))
        groups = _declare(b, self, self.rows * self.length)
        b.text.uniform(wanted=self.k)
        slot = variable("k", self.k)
        b.store("store_out", ["i", "k"], [(i, slot), (i, slot)], [("v", self.type), ("at", "i32")])
        work = self.rows * self.length * ceil_div(self.length, PIECE) * 12
        return Launch(wgsl(__file__, "sort_merge.wgsl"), (*groups, 1), work)


def _declare(b: Build, t: SortPieces | MergePieces, total: int) -> tuple[int, int]:
    groups = spread(ceil_div(total, 64), b.target.workgroups)
    b.text.alias("T", t.type)
    b.text.const(PIECE=PIECE)
    b.text.uniform(total=total, length=t.length, groups_x=groups[0])
    b.text.helpers.setdefault("is_nan")
    b.text.functions.append(better(t.type, t.largest))
    return groups


def ordered(call: Call, x: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first `k` of each row of [rows, length] in order, and their places; the earlier of equals comes first."""
    rows, length = x.shape
    if ceil_div(length, PIECE) > MOST_PIECES:
        raise Refuse(f"rows of {length} elements: at most {PIECE * MOST_PIECES} are sorted")
    kinds = [((rows, length), x.dtype), ((rows, length), ir.DataType.INT64)]
    values, places = Heavy(SortPieces(rows, length, x.type, largest), [x], kinds, call.node).results
    if length > PIECE:
        kinds = [((rows, k), x.dtype), ((rows, k), ir.DataType.INT64)]
        template = MergePieces(rows, length, k, x.type, largest)
        values, places = Heavy(template, [values, places], kinds, call.node).results
        return values, places
    first = [sliced(t, [0, 0], [1, 1], (rows, k), call.node) for t in (values, places)]
    return first[0], first[1]


@op("TopK", dtypes="float, int, uint", known=(1,))
def top_k(call: Call) -> list[Tensor]:
    """Always in order, whatever `sorted` says; NaN is the largest and the smallest there is."""
    x = call.x(0)
    axis = axis_of(call.attr("axis", -1), len(x.shape))
    k = call.ints(1, "k")[0] if call.has(1) else int(call.attr("k"))
    perm = [*(a for a in range(len(x.shape)) if a != axis), axis]
    moved = transposed(x, perm, call.node)
    shape = (*moved.shape[:-1], k)
    if not k or not x.size:
        return [
            Fill(0, [k if a == axis else n for a, n in enumerate(x.shape)], d) for d in (x.dtype, ir.DataType.INT64)
        ]
    rows = reshaped(moved, (x.size // x.shape[axis], x.shape[axis]), call.node)
    found = ordered(call, rows, k, bool(call.attr("largest", 1)))
    back = [perm.index(a) for a in range(len(perm))]
    return [transposed(reshaped(t, shape, call.node), back, call.node) for t in found]
