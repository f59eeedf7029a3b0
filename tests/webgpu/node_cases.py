"""The ONNX project's own node cases on the device, without host steps.

python tests/webgpu/node_cases.py [PART OF A NAME ...]   what each case says
python tests/webgpu/node_cases.py --extend               add the cases that pass to conformance.txt
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

import headrace

LIST = Path(__file__).parent / "conformance.txt"
NUMBERS = set(range(1, 14)) - {TensorProto.STRING}
HALF, FLOAT = (1e-2, 1e-2), (1e-3, 1e-5)  # relative and absolute, as ONNX's own runner has them


@cache
def cases() -> dict[str, Any]:
    """Every case by name, but those of strings, sequences, optionals, small floats and training."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return {c.name: c for c in collect_testcases(None) if _is_numeric(c.model)}


def _is_numeric(model: Any) -> bool:
    values = [*model.graph.input, *model.graph.output]
    plain = all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type in NUMBERS for v in values)
    return plain and not any("training" in o.domain for o in model.opset_import)


def allowed() -> list[str]:
    """Names that pass and must go on passing."""
    return LIST.read_text().split()


def check(case: Any) -> None:
    """Run a case on the device. Raises what goes wrong: a refusal, an error or a wrong answer."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(case.model.SerializeToString(), device="webgpu", fallback=False) as session:
            for inputs, outputs in case.data_sets:
                names = [v.name for v in case.model.graph.input if v.name]
                got = session.run(None, dict(zip(names, map(np.asarray, inputs), strict=False)))
                for g, want in zip(got, outputs, strict=True):
                    agree(np.asarray(g), np.asarray(want), case.name)
                if _floats(inputs) and _floats(outputs):
                    assert session.plan.dispatches or session.plan.readbacks, "nothing ran on the device"


def _floats(arrays: Any) -> bool:
    return any(np.asarray(a).dtype.kind == "f" and np.asarray(a).size for a in arrays)


def agree(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """Raise unless `got` has the shape, dtype and values of `want`. A quantised value may round the other way."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (got.shape, got.dtype, want.shape, want.dtype)
    if want.dtype.kind != "f":
        slack = 1 if "quant" in name or "qlinear" in name else 0
        assert np.abs(got.astype("f8") - want.astype("f8")).max(initial=0) <= slack, (got, want)
        return
    rtol, atol = HALF if want.dtype == np.float16 else FLOAT
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=rtol, atol=atol)


def verdict(case: Any) -> str:
    """ "pass", or why not, on one line."""
    try:
        check(case)
    except Exception as error:  # every kind is a verdict
        text = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(text)[:300]}"
    return "pass"


def main(arguments: list[str]) -> None:
    """Print verdicts; with --extend, add what passes to the list."""
    wanted = [a for a in arguments if not a.startswith("--")]
    chosen = {n: c for n, c in cases().items() if not wanted or any(w in n for w in wanted)}
    passed, counts = set(), Counter[str]()
    for name, case in chosen.items():
        said = verdict(case)
        counts[said.split(":")[0]] += 1
        if said == "pass":
            passed.add(name)
        else:
            print(f"{name}: {said}", flush=True)
    print(f"{len(passed)} of {len(chosen)} pass; {dict(counts)}")
    if "--extend" in arguments:
        LIST.write_text("".join(n + "\n" for n in sorted(passed | set(allowed() if LIST.exists() else []))))


if __name__ == "__main__":
    main(sys.argv[1:])
