"""Writes the bundles of the tests and what they must give: python bundles.py FOLDER."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from headrace.web import export_web

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def network() -> bytes:
    """Convolutions up and down, attention-like products: every input size is a dimension."""
    weights = {"w1": normal(8, 3, 3, 3), "w2": normal(8, 4, 2, 2), "w3": normal(6, 4, 1, 1), "bias": normal(6)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("ConvTranspose", ["b", "w2"], ["c"], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w3", "bias"], ["d"]),
        helper.make_node("Softmax", ["d"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 6, None, None])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main() -> None:
    folder = Path(sys.argv[1])
    model = network()
    export_web(model, folder / "network")
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    cases = []
    for shape in ((1, 3, 16, 20), (2, 3, 33, 18), (1, 3, 64, 48)):
        x = normal(*shape)
        (y,) = session.run(None, {"x": x})
        cases.append({"shape": shape, "x": x.ravel().tolist(), "dims": y.shape, "y": y.ravel().tolist()})
    (folder / "cases.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main()
