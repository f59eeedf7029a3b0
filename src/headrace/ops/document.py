"""Prints docs/operators.md from the registry: `python -m headrace.ops.document > docs/operators.md`."""

from __future__ import annotations

from . import OPS

HEAD = """# Operators on WebGPU

Generated from the registry by `python -m headrace.ops.document`.

An operator that is not here, or a case that its lowering refuses, runs on the host between device segments, or is
refused with `fallback=False`.

- **Floats**: float64 and bfloat16 are computed in float32; float16 is stored as such where the adapter has shader-f16.
  NaN and infinities go through as ONNX defines: comparisons with NaN are false; arithmetic, Max, Min, Clip and Relu
  keep it; ArgMax finds it. Subnormal numbers may count as zero.
- **Integers** of 64 bits have 32 on the device. Values fed and constants that need more are an error. int64 results
  wrap at 32 bits. Arithmetic on uint64 runs on the host; comparisons, Div, Mod and movement of uint64 stay on the
  device. A division by zero gives some number, and a shift by the width or more leaves nothing, as in WGSL.
- **Indices and k**: known ones outside their axis are an error, as in ONNX Runtime. Indices that the device computes,
  or that are fed, are clamped to the axis when read, and writes outside it are dropped.
- **Sequences** are lowered where their lengths and positions are known; strings, and sequences that enter or leave the
  model, stay on the host.
- **ConvTranspose** with auto_pad SAME and a kernel under its stride has ONNX Runtime's size, without the padding that
  ONNX's reference adds.

| operator | domain | opset | dtypes | inputs known on the host | notes |
|---|---|---|---|---|---|
"""


def text() -> str:
    """The page."""
    rows = []
    for (domain, name), o in sorted(OPS.items()):
        known = ", ".join(map(str, o.known))
        rows.append(f"| {name} | {domain or 'ai.onnx'} | {o.since}+ | {o.dtypes} | {known} | {o.note} |\n")
    control = "| If, Loop, Scan | ai.onnx | 7+ | all | trip count | inlined; of an If by a value both branches |\n"
    return HEAD + "".join(rows) + control


if __name__ == "__main__":
    print(text(), end="")
