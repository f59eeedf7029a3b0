"""Quantisation over the range of what is quantised: DynamicQuantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ..kernels.expr import Heavy, Tensor, expanded, reshaped
from ..kernels.index import variable
from ..kernels.template import Build, Launch, Template, wgsl
from ..target import Target
from .quantize import quantized
from .reduce import check_length, lanes_for
from .registry import Call, op

FLOAT, UINT8 = ir.DataType.FLOAT, ir.DataType.UINT8
STEPS = 255.0


@dataclass(frozen=True)
class QuantizationRange(Template):
    """scale[] and zero point[] of 8-bit numbers that cover x[:] and zero. One kernel computes them, and every reader
    gets the same ones; x is stored, so that the numbers quantised are those whose range was taken."""

    length: int
    name = "quantization_range"
    stored_reads = True

    def build(self, b: Build) -> Launch:
        b.read("x", 0, (variable("k", self.length, 1),), (), ("k",), any_map=True)
        size = threads(self.length, b.target)
        b.text.const(WG=f"{size}u")
        b.text.uniform(length=self.length, steps=STEPS)
        for helper in ("is_nan", "nan_max", "nan_min"):
            b.text.helpers.setdefault(helper)
        b.store("store_out", [], [(), ()], [("scale", "f32"), ("zero", "u32")])
        return Launch(wgsl(__file__, "quantization_range.wgsl"), (1, 1, 1), 2 * self.length, (size, 1, 1), 8 * size)


def threads(length: int, target: Target) -> int:
    """Of the workgroup that walks all elements."""
    return max(16, lanes_for(1, length, target)) if target.software else 256


def quantization_range(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """Scale (float) and zero point (uint8), both scalars, of x as 8-bit numbers. 1 and 0 where all of x is zero."""
    check_length(call, 1, x.size)
    flat = reshaped(x, (x.size,), call.node)
    scale, zero = Heavy(QuantizationRange(x.size), [flat], [((), FLOAT), ((), UINT8)], call.node).results
    return scale, zero


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(call: Call) -> list[Tensor]:
    """To uint8, with the scale and the zero point; an empty tensor has scale 1."""
    x = call.x(0)
    scale, zero = quantization_range(call, x)
    y = quantized(call, x, expanded(scale, x.shape, call.node), expanded(zero, x.shape, call.node), UINT8)
    return [y, scale, zero]
