"""Matrix products of integers, exact in 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from ..kernels.expr import Fill, Map, Tensor, expanded, reshaped
from ..kernels.index import unflatten, variable
from ..kernels.size import broadcast_shapes
from ..kernels.template import Build, Launch, Template, ceil_div, wgsl
from .movement import sliced
from .registry import Call

I32 = ir.DataType.INT32


@dataclass(frozen=True)
class IntegerProduct(Template):
    """out[b, m, n] = sum over k of a[b, m, k] * w[b, k, n], in 32-bit integers."""

    batch: tuple[int, ...]
    m: int
    k: int
    n: int
    type: str = "i32"
    name = "integer_product"
    costly_reads = True

    def build(self, b: Build) -> Launch:
        at = unflatten(variable("b", prod(self.batch)), self.batch)
        m, n, k = variable("m", self.m), variable("n", self.n), variable("k", self.k, 1)
        b.read("a", 0, (*at, m, k), ("b", "m"), ("k",), any_map=True)
        b.read("w", 1, (*at, k, n), ("b", "n"), ("k",), any_map=True)
        b.text.alias("T", self.type)
        b.text.uniform(M=self.m, N=self.n, K=self.k)
        b.store("store_out", ["b", "m", "n"], [(*at, m, n)], [("v", self.type)])
        groups = (ceil_div(self.n, 16), ceil_div(self.m, 4), prod(self.batch))
        work = 2 * prod(self.batch) * self.m * self.n * self.k
        return Launch(wgsl(__file__, "integer_product.wgsl"), groups, work, (16, 4, 1))


def in_parts(call: Call, a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A product of [..., m, k] and [..., k, n] as the sum of products of parts of k, as long as loops may be."""
    k, total = int(a.shape[-1]), None
    for start in range(0, k, call.target.loops):
        size = min(call.target.loops, k - start)
        left = sliced(a, [*[0] * (len(a.shape) - 1), start], [1] * len(a.shape), (*a.shape[:-1], size), call.node)
        shape = (*b.shape[:-2], size, b.shape[-1])
        right = sliced(b, [*[0] * (len(b.shape) - 2), start, 0], [1] * len(b.shape), shape, call.node)
        y = multiply(left, right)
        total = y if total is None else Map("{0} + {1}", [total, y], y.dtype, call.node)
    assert total is not None
    return total


def integer_product(call: Call, a: Tensor, b: Tensor, dtype: ir.DataType = I32) -> Tensor:
    """numpy's matmul of integers."""
    if len(a.shape) == 1 or len(b.shape) == 1:
        y = integer_product(
            call,
            reshaped(a, (1, *a.shape)) if len(a.shape) == 1 else a,
            reshaped(b, (*b.shape, 1)) if len(b.shape) == 1 else b,
            dtype,
        )
        rows = y.shape[-2:-1] if len(a.shape) > 1 else ()
        return reshaped(y, (*y.shape[:-2], *rows, *(y.shape[-1:] if len(b.shape) > 1 else ())), call.node)
    batch = tuple(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    (m, k), n = a.shape[-2:], b.shape[-1]
    if not k or not prod((*batch, m, n)):
        return Fill(0, (*batch, m, n), dtype)
    if k > call.target.loops:
        return in_parts(call, a, b, lambda p, q: integer_product(call, p, q, dtype))
    a, b = expanded(a, (*batch, m, k), call.node), expanded(b, (*batch, k, n), call.node)
    return call.heavy(IntegerProduct(batch, m, k, n, a.type), [a, b], (*batch, m, n), dtype)
