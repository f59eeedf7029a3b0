"""Operators: how each ONNX op becomes lazy tensors and kernels. One place an op.

How to add one:

1. *Elementwise*: a row of `ROWS` in elementwise.py, e.g. a cube root:
   `Row("Cbrt", "sign({0}) * pow(abs({0}), 0.33333334)", cost=9)`. {0}, {1} are names of the arguments, already
   broadcast;
   attributes follow as numbers (`params`). It fuses by itself. A WGSL function goes into kernels/helpers.wgsl
   (`helper=`).

2. *Movement* (no arithmetic): return a `View` (movement.py): the result's shape, and a function from its coordinates
   to the source's. Depth to space in one line: reshape, transpose, reshape with `reshaped`, `transposed`. Coordinates
   are
   `Lin`: add, multiply, `// n`, `% n`. Give `back` where the map is one to one: then producers can store through it.
   A map
   with conditions or indices from memory subclasses `Tensor` and writes WGSL in `emit` (see `Pad`, `Take`): conditions
   through `scope.test`, indices through `scope.data_index`, numbers through `scope.param`.

3. *Heavy* (its own loop): `ops/x.py` with a frozen `Template`, and `ops/x.wgsl` with the body. For a row maximum:

       @dataclass(frozen=True)
       class RowMax(Template):
           rows: int
           length: int

           def build(self, b: Build) -> Launch:
               m, k = variable("m", self.rows), variable("k", self.length, 1)
               b.read("x", 0, (m, k), row=("m",), at=("k",))          # makes x_row(m) and x_at(row, k)
               b.text.uniform(rows=self.rows, length=self.length)      # u.rows, u.length: sizes are never in the text
               b.store("store_out", ["m"], [(m,)], [("v", "f32")])     # makes store_out(m, v): epilogue and all
               return Launch(wgsl(__file__, "x.wgsl"), (ceil_div(self.rows, 64), 1, 1), self.rows * self.length)

       @op("RowMax", dtypes="float")
       def row_max(call: Call) -> Tensor:
           x = call.x(0)
           return call.heavy(RowMax(*x.shape), [x], x.shape[:1], x.dtype)

   The body is plain WGSL: it calls `x_row`, `x_at` and `store_out`, and knows nothing of what was fused into them.
   What is a role (taps, strides, tile) goes into `b.text.const`, every extent into `b.text.uniform`. `raise
   Refuse(why)`
   where a case has no kernel: it becomes a host step, or an UnsupportedOpError with that text.

Then import the module below, and run `python -m headrace.ops.document > docs/operators.md`.
"""

from . import (
    arg,
    attention,
    attention_op,
    bits,
    blocks,
    contrib,
    contrib_quantized,
    conv,
    conv_transpose,
    definitions,
    dft,
    dynamic_quantize,
    einsum,
    elementwise,
    fold,
    gather,
    integer_product,
    masks,
    matmul,
    movement,
    normalize,
    operands,
    pool,
    quantize,
    recurrent,
    reduce,
    refused,
    resize,
    sample,
    scan,
    scatter,
    sequence,
    small,
    sort,
    tfidf,
)
from .registry import OPS, Call, Op, Refuse

__all__ = [
    "OPS",
    "Call",
    "Op",
    "Refuse",
    "arg",
    "attention",
    "attention_op",
    "bits",
    "blocks",
    "contrib",
    "contrib_quantized",
    "conv",
    "conv_transpose",
    "definitions",
    "dft",
    "dynamic_quantize",
    "einsum",
    "elementwise",
    "fold",
    "gather",
    "integer_product",
    "masks",
    "matmul",
    "movement",
    "normalize",
    "operands",
    "pool",
    "quantize",
    "recurrent",
    "reduce",
    "refused",
    "resize",
    "sample",
    "scan",
    "scatter",
    "sequence",
    "small",
    "sort",
    "tfidf",
]
