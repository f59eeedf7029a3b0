"""Matrix products: MatMul, Gemm, and the template that other operators build on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from ..kernels.expr import Buffer, Fill, Map, Tensor, View, expanded, reshaped, transposed
from ..kernels.index import unflatten, variable
from ..kernels.size import broadcast_shapes, hint, same
from ..kernels.template import Build, Launch, Template, ceil_div, wgsl
from ..target import Target
from .fft_basis import dft_product
from .integer_product import in_parts, integer_product
from .registry import Call, Refuse, broadcast, op

SHARED_TILE, SHARED_BYTES = 64, 16 * (65 + 64) * 4


def shares(target: Target, m: int, n: int, k: int) -> bool:
    """Whether a product is for the kernel with tiles in workgroup memory: on a GPU, and large enough to fill its tiles.
    Software adapters keep workgroup memory where everything else is, so it only costs them."""
    m, n, k = hint(m), hint(n), hint(k)
    room = target.workgroup_size >= 256 and target.workgroup_bytes >= SHARED_BYTES
    return room and not target.software and min(m, n) >= SHARED_TILE // 2 and k >= 16


def tile(m: int, n: int, fixed: bool = False) -> tuple[int, int, int]:
    """Rows and columns a thread, and lanes, for the register-tiled kernel: enough threads first, then reuse.

    Where `n` is `fixed` (it comes from a weight, so no input size changes it) the lanes fit it as tightly as they can.
    """
    m, n = hint(m), hint(n)
    rows = next(t for t in (1, 2, 4, 8) if t == 8 or t >= m)
    if fixed and n > 32:
        options = [
            (-(-n // (lanes * t)) * lanes * t * (1.0 if t == 8 else 1.15), -lanes, t)
            for t in (8, 4)
            for lanes in range(8, 36, 4)
        ]
        _, lanes, columns = min(options)
        return rows, columns, -lanes
    lanes = 32 if n >= 256 else 16 if n >= 96 else 8 if n > 8 else 4
    columns = next(t for t in (1, 2, 4, 8) if t == 8 or lanes * t >= n)
    return rows, columns, lanes


def _constant(x: Tensor) -> bool:
    while isinstance(x, View):
        x = x.inputs[0]
    return isinstance(x, Buffer) and x.data is not None


@dataclass(frozen=True)
class MatMul(Template):
    """out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]. Inputs and result have the same batch axes."""

    batch: tuple[int, ...]
    m: int
    k: int
    n: int
    name = "matmul"
    costly_reads = True

    def build(self, b: Build) -> Launch:
        v = variable("b", prod(self.batch))
        at = unflatten(v, self.batch)
        m, n, k = variable("m", self.m), variable("n", self.n), variable("k", self.k, 1)
        b.read("a", 0, (*at, m, k), ("b", "m"), ("k",))
        b.read("b", 1, (*at, k, n), ("b", "n"), ("k",))
        b.text.uniform(M=self.m, N=self.n, K=self.k)
        b.store("store_out", ["b", "m", "n"], [(*at, m, n)], [("v", "f32")])
        flops = 2 * prod(self.batch) * self.m * self.n * self.k
        if shares(b.target, self.m, self.n, self.k):
            tiles = (ceil_div(self.n, SHARED_TILE), ceil_div(self.m, SHARED_TILE), prod(self.batch))
            return Launch(wgsl(__file__, "matmul_shared.wgsl"), tiles, flops, (256, 1, 1), SHARED_BYTES)
        rows, columns, lanes = tile(self.m, self.n, _constant(b.inputs[1]))
        b.text.const(TM=rows, TN=columns, LANES=lanes)
        groups = (ceil_div(self.n, lanes * columns), ceil_div(self.m, rows), prod(self.batch))
        return Launch(wgsl(__file__, "matmul.wgsl"), groups, flops, (lanes, 1, 1))


def product(call: Call, a: Tensor, b: Tensor, dtype: ir.DataType) -> Tensor:
    """numpy's matmul of two lazy tensors, vectors and broadcasting included."""
    if a.type != "f32":
        return integer_product(call, a, b, dtype)
    if len(a.shape) == 1:
        return _drop(call, product(call, reshaped(a, (1, *a.shape)), b, dtype), -2 if len(b.shape) > 1 else -1)
    if len(b.shape) == 1:
        return _drop(call, product(call, a, reshaped(b, (*b.shape, 1)), dtype), -1)
    (m, k), n = a.shape[-2:], b.shape[-1]
    if k != b.shape[-2]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not multiply")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if k == 0:
        return Fill(0, (*batch, m, n), dtype)
    if k > call.target.loops:
        return in_parts(call, a, b, lambda p, q: product(call, p, q, dtype))
    if same(prod(b.shape[:-2]), 1) and same(prod(batch), prod(a.shape[:-2])):
        rows = reshaped(a, (prod(batch) * m, k), call.node)
        flat = call.heavy(
            MatMul((), prod(batch) * m, k, n), [rows, reshaped(b, (k, n), call.node)], (prod(batch) * m, n), dtype
        )
        return reshaped(flat, (*batch, m, n), call.node)
    a, b = expanded(a, (*batch, m, k), call.node), expanded(b, (*batch, k, n), call.node)
    return call.heavy(MatMul(tuple(batch), m, k, n), [a, b], (*batch, m, n), dtype)


def _drop(call: Call, x: Tensor, axis: int) -> Tensor:
    shape = list(x.shape)
    del shape[axis]
    return reshaped(x, shape, call.node)


def floats_only(x: Tensor, name: str) -> None:
    """Raise Refuse for integers."""
    if x.type != "f32":
        raise Refuse(f"{name} has no kernel for {x.dtype.name.lower()}")


@op("MatMul", dtypes="float, int, uint")
def matmul(call: Call) -> Tensor:
    """Batched, broadcast, and with vectors on either side."""
    a, b = call.x(0), call.x(1)
    by_fft = dft_product(call, a, b) if a.type == "f32" else None
    return product(call, a, b, a.dtype) if by_fft is None else by_fft


@op("Gemm", dtypes="float, int, uint")
def gemm(call: Call) -> Tensor:
    """alpha * A' * B' + beta * C."""
    a, b = call.x(0), call.x(1)
    a = transposed(a, (1, 0), call.node) if call.attr("transA", 0) else a
    b = transposed(b, (1, 0), call.node) if call.attr("transB", 0) else b
    y = _scaled(call, product(call, a, b, a.dtype), float(call.attr("alpha", 1.0)))
    if not call.has(2) or not call.attr("beta", 1.0):
        return y
    c = _scaled(call, call.x(2), float(call.attr("beta", 1.0)))
    return Map("{0} + {1}", broadcast([y, c], call.node), y.dtype, call.node)


def _scaled(call: Call, x: Tensor, factor: float) -> Tensor:
    if factor == 1.0:
        return x
    if x.type != "f32" and factor % 1:
        raise Refuse(f"integers times {factor}")
    return Map("{0} * {1}", broadcast([x, Fill(factor, (), x.dtype)], call.node), x.dtype, call.node)
