"""The generated part of some kernels, as text: what changes here changes what every model runs.

python -m tests.webgpu.test_golden --update     write the files anew, to be read in the diff
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).parent))
from test_plan import plan_of
from tests.models import inverse_dft_basis, normal

from conftest import model

GOLDEN = Path(__file__).parent / "golden"
OPS = Path(__file__).parents[2] / "src" / "headrace" / "ops"
N = helper.make_node
Case = tuple[list[Any], dict[str, tuple[int, ...]], dict[str, np.ndarray]]

CASES: dict[str, Case] = {
    "add_broadcast": ([N("Add", ["x", "y"], ["z"])], {"x": (4, 5), "y": (5,)}, {}),
    "gelu": ([N("Erf", ["x"], ["a"]), N("Add", ["a", "x"], ["b"]), N("Mul", ["b", "x"], ["z"])], {"x": (7,)}, {}),
    "transpose": ([N("Transpose", ["x"], ["z"], perm=[2, 0, 1])], {"x": (2, 3, 4)}, {}),
    "concat": ([N("Concat", ["x", "y"], ["z"], axis=1)], {"x": (2, 3), "y": (2, 4)}, {}),
    "pad_slice": (
        [N("Pad", ["x", "pads"], ["a"]), N("Slice", ["a", "from", "to"], ["z"])],
        {"x": (4, 5)},
        {"pads": np.array([1, 2, 0, 1]), "from": np.array([1, 1]), "to": np.array([4, 6])},
    ),
    "gather": ([N("Gather", ["x", "i"], ["z"], axis=1)], {"x": (3, 9)}, {"i": np.array([4, 0, 7])}),
    "matmul_bias_relu": (
        [N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["c"]), N("Relu", ["c"], ["z"])],
        {"x": (50, 32)},
        {"w": normal((32, 48)), "b": normal((48,))},
    ),
    "matmul_transposed_heads": (
        [
            N("Reshape", ["x", "s"], ["a"]),
            N("Transpose", ["a"], ["b"], perm=[1, 0, 2]),
            N("Transpose", ["a"], ["c"], perm=[1, 2, 0]),
            N("MatMul", ["b", "c"], ["z"]),
        ],
        {"x": (20, 32)},
        {"s": np.array([20, 4, 8])},
    ),
    "softmax": ([N("Softmax", ["x"], ["z"])], {"x": (6, 30)}, {}),
    "softmax_axis_0": ([N("Softmax", ["x"], ["z"], axis=0)], {"x": (6, 30)}, {}),
    "reduce_mean": ([N("ReduceMean", ["x"], ["z"], keepdims=0)], {"x": (6, 30)}, {}),
    "layer_normalization": (
        [N("LayerNormalization", ["x", "g", "b"], ["z"])],
        {"x": (6, 30)},
        {"g": normal((30,)), "b": normal((30,), 1)},
    ),
    "conv_slides": ([N("Conv", ["x", "w"], ["z"], pads=[1, 1])], {"x": (2, 3, 40)}, {"w": normal((8, 3, 3))}),
    "conv_strided": (
        [N("Conv", ["x", "w"], ["z"], strides=[2, 2], pads=[1, 1, 1, 1])],
        {"x": (1, 3, 16, 16)},
        {"w": normal((8, 3, 3, 3))},
    ),
    "conv_1x1": ([N("Conv", ["x", "w"], ["z"])], {"x": (1, 6, 8, 8)}, {"w": normal((8, 6, 1, 1))}),
    "conv_depthwise": (
        [N("Conv", ["x", "w"], ["z"], group=4, strides=[2])],
        {"x": (1, 4, 30)},
        {"w": normal((4, 1, 3))},
    ),
    "conv_transpose": (
        [N("ConvTranspose", ["x", "w"], ["z"], strides=[4], pads=[1, 2])],
        {"x": (2, 3, 30)},
        {"w": normal((3, 2, 9))},
    ),
    "inverse_stft": (
        [N("ConvTranspose", ["x", "w"], ["z"], strides=[64])],
        {"x": (2, 258, 9)},
        {"w": inverse_dft_basis(256)},
    ),
    "dft": ([N("DFT", ["x"], ["z"], onesided=1, axis=1)], {"x": (3, 60, 1)}, {}),
    "max_pool": ([N("MaxPool", ["x"], ["z"], kernel_shape=[3], strides=[2])], {"x": (1, 2, 20)}, {}),
    "cumsum": ([N("CumSum", ["x", "a"], ["z"])], {"x": (3, 9)}, {"a": np.array(1)}),
}


def _without_body(text: str) -> str:
    """A kernel's text with the file that it ends with named instead of repeated."""
    for path in sorted(OPS.glob("*.wgsl")):
        body = path.read_text()
        if text.endswith(body):
            return f"{text[: -len(body)]}// and then {path.name}\n"
    return text


def written(name: str) -> Iterator[tuple[str, str]]:
    """File names and texts of a case's kernels."""
    nodes, inputs, weights = CASES[name]
    opset = 17 if name == "dft" else 18
    plan = plan_of(model(nodes, inputs, ["z"], weights, opset=opset), **inputs)
    for i, kernel in enumerate(plan.kernels):
        yield f"{name}{f'_{i + 1}' if i else ''}.wgsl", _without_body(kernel.wgsl)


@pytest.mark.parametrize("name", CASES)
def test_text_is_as_before(name: str) -> None:
    for file, text in written(name):
        path = GOLDEN / file
        assert path.exists(), f"no {file}: python -m tests.webgpu.test_golden --update"
        assert text == path.read_text(), (
            f"{file} differs: if that is meant, python -m tests.webgpu.test_golden --update"
        )


def test_every_file_is_of_a_case() -> None:
    assert {p.name for p in GOLDEN.iterdir()} == {file for name in CASES for file, _ in written(name)}


if __name__ == "__main__" and "--update" in sys.argv:
    GOLDEN.mkdir(exist_ok=True)
    wanted = {file: text for name in CASES for file, text in written(name)}
    for old in GOLDEN.iterdir():
        if old.name not in wanted:
            old.unlink()
    for file, text in wanted.items():
        (GOLDEN / file).write_text(text)
