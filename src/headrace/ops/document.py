"""Prints docs/operators.md from the registry: `python -m headrace.ops.document > docs/operators.md`."""

from __future__ import annotations

from . import OPS

HEAD = """# Operators on WebGPU

Generated from the registry by `python -m headrace.ops.document`. An operator that is not here, or a case that its
lowering
refuses, runs on the host between device segments, or is refused with `fallback=False`. Integers of 64 bits are 32 on
the
device; float64 and bfloat16 are computed in float32; float16 is stored as such where the adapter has shader-f16.

| operator | domain | opset | dtypes | inputs known on the host | notes |
|---|---|---|---|---|---|
"""


def text() -> str:
    """The page."""
    rows = []
    for (domain, name), o in sorted(OPS.items()):
        known = ", ".join(map(str, o.known))
        rows.append(f"| {name} | {domain or 'ai.onnx'} | {o.since}+ | {o.dtypes} | {known} | {o.note} |\n")
    control = "| If, Loop, Scan | ai.onnx | 7+ | all | condition, trip count | inlined and unrolled |\n"
    return HEAD + "".join(rows) + control


if __name__ == "__main__":
    print(text(), end="")
