"""Sequences and strings: lowered where their lengths are known, on the host where they are not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import headrace

pytestmark = pytest.mark.webgpu
rng = np.random.default_rng(4)
node = helper.make_node


def model_of(nodes: list[Any], feeds: dict[str, np.ndarray], outputs: list[Any], constants: dict[str, Any]) -> Any:
    kinds = {
        n: TensorProto.STRING if a.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(a.dtype)
        for n, a in feeds.items()
    }
    values = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in feeds.items()]
    weights = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "test", values, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def both(nodes: list[Any], feeds: Any, outputs: list[Any], constants: Any, fallback: bool) -> None:
    """The device gives what ONNX Runtime gives."""
    model = model_of(nodes, feeds, outputs, constants)
    want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu", fallback=fallback) as session:
            for got in (session.run(None, feeds), session.run(None, feeds)):
                for a, b in zip(got, want, strict=True):
                    if isinstance(b, list):
                        assert len(a) == len(b)
                        for p, q in zip(a, b, strict=True):
                            np.testing.assert_array_equal(p, q)
                    elif b.dtype.kind == "f":
                        np.testing.assert_allclose(a, b, rtol=1e-6)
                    else:
                        np.testing.assert_array_equal(a, b)


def tensor(name: str, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, None)


X = rng.standard_normal((6, 5)).astype(np.float32)
SPLITS = [
    ({"sizes": [1, 3, 2]}, {"axis": 0}),
    ({"sizes": np.array(4)}, {"axis": 1}),
    ({}, {"axis": 1}),
    ({}, {"axis": 0, "keepdims": 0}),
]


@pytest.mark.parametrize(("sizes", "attributes"), SPLITS)
def test_split_and_at(sizes: dict[str, Any], attributes: dict[str, int]) -> None:
    nodes = [
        node("SplitToSequence", ["x", *sizes], ["s"], **attributes),
        node("SequenceLength", ["s"], ["n"]),
        node("SequenceAt", ["s", "i"], ["a"]),
        node("SequenceAt", ["s", "j"], ["b"]),
        node("Exp", ["a"], ["y"]),
    ]
    constants = {**sizes, "i": np.array(1), "j": np.array(-1)}
    both(nodes, {"x": X}, [tensor("y"), tensor("b"), tensor("n", TensorProto.INT64)], constants, False)


@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (1, 0), (-1, 0), (0, 1), (-1, 1)])
def test_construct_change_and_join(axis: int, new_axis: int) -> None:
    nodes = [
        node("Neg", ["x"], ["m"]),
        node("SequenceConstruct", ["x", "m", "c"], ["s0"]),
        node("SequenceInsert", ["s0", "x", "one"], ["s1"]),
        node("SequenceInsert", ["s1", "m"], ["s2"]),
        node("SequenceErase", ["s2", "two"], ["s3"]),
        node("ConcatFromSequence", ["s3"], ["y"], axis=axis, new_axis=new_axis),
    ]
    constants = {"c": rng.standard_normal((6, 5)).astype(np.float32), "one": np.array(1), "two": np.array(-3)}
    both(nodes, {"x": X}, [tensor("y")], constants, False)


def test_a_sequence_leaves_the_model() -> None:
    """It is made on the host, and refused where nothing may run there."""
    nodes = [node("Exp", ["x"], ["e"]), node("SplitToSequence", ["e"], ["s"], name="split", axis=0)]
    outputs = [helper.make_value_info("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)))]
    model = model_of(nodes, {"x": X}, outputs, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu") as session:
            got = session.run(None, {"x": X})[0]
        np.testing.assert_allclose(np.concatenate(got), np.exp(X), rtol=1e-6)
        with (
            headrace.InferenceSession(model, device="webgpu", fallback=False) as session,
            pytest.raises(headrace.UnsupportedOpError, match=r"split \[SplitToSequence\]"),
        ):
            session.run(None, {"x": X})


def test_positions_that_the_device_computes() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("ArgMax", ["x"], ["k"], axis=0, keepdims=0),
        node("ReduceMax", ["k"], ["i"], keepdims=0),
        node("SequenceAt", ["s", "i"], ["a"]),
        node("Exp", ["a"], ["y"]),
    ]
    both(nodes, {"x": X}, [tensor("y")], {}, True)
    with pytest.raises(headrace.UnsupportedOpError):
        both(nodes, {"x": X}, [tensor("y")], {}, False)


WORDS = np.array(["one", "Two", "THREE"], object)
STRINGS = {
    "Identity": [node("Identity", ["x"], ["y"])],
    "StringNormalizer": [node("StringNormalizer", ["x"], ["y"], case_change_action="LOWER")],
    "StringConcat": [node("StringConcat", ["x", "x"], ["y"])],
    "Reshape": [node("Reshape", ["x", "shape"], ["y"])],
    "two in turn": [node("StringNormalizer", ["x"], ["z"], case_change_action="UPPER"), node("Identity", ["z"], ["y"])],
}


@pytest.mark.parametrize("name", STRINGS)
def test_strings_run_on_the_host(name: str) -> None:
    """With arithmetic beside them that stays on the device."""
    nodes = [*STRINGS[name], node("Exp", ["v"], ["e"])]
    outputs = [tensor("y", TensorProto.STRING), tensor("e")]
    model = model_of(nodes, {"x": WORDS, "v": X}, outputs, {"shape": [3, 1]})
    model.opset_import[0].version = 20
    try:
        theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:  # a machine without the locale that StringNormalizer wants
        assert name in ("StringNormalizer", "two in turn")
        return
    want = theirs.run(None, {"x": WORDS, "v": X})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with headrace.InferenceSession(model, device="webgpu") as session:
            got = session.run(None, {"x": WORDS, "v": X})
            np.testing.assert_array_equal(got[0], want[0])
            np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
        with (
            headrace.InferenceSession(model, device="webgpu", fallback=False) as session,
            pytest.raises(headrace.UnsupportedOpError, match="stays on the host"),
        ):
            session.run(None, {"x": WORDS, "v": X})


def collecting(trips: str) -> list[Any]:
    """What scripted loops with a list become: h = tanh(h + x), a list that each turn appends h to, and its stack."""
    sequence = helper.make_value_info("s_in", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)))
    body = helper.make_graph(
        [
            node("Add", ["h_in", "x"], ["sum"]),
            node("Tanh", ["sum"], ["h_out"]),
            node("SequenceInsert", ["s_in", "h_out"], ["s_out"]),
            node("Identity", ["going_in"], ["going_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("going_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h_in", TensorProto.FLOAT, None),
            sequence,
        ],
        [
            helper.make_tensor_value_info("going_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h_out", TensorProto.FLOAT, None),
            helper.make_value_info("s_out", sequence.type),
        ],
    )
    return [
        node("SequenceEmpty", [], ["empty"]),
        node("ReduceMax", ["order"], ["last"], keepdims=0),
        node("Loop", [trips, "true", "x", "empty"], ["h", "s"], name="loop", body=body),
        node("ConcatFromSequence", ["s"], ["stack"], axis=0, new_axis=1),
        node("Exp", ["stack"], ["y"]),
    ]


def test_a_loop_collects_in_a_sequence() -> None:
    """With a known trip count on the device; with one that the device computes the loop and its list are the host's."""
    constants = {"three": np.array(3), "true": np.array(True)}
    order = [node("ArgMax", ["x"], ["order"], axis=0, keepdims=0)]
    both([*order, *collecting("three")], {"x": X}, [tensor("y"), tensor("h")], constants, False)
    both([*order, *collecting("last")], {"x": X}, [tensor("y"), tensor("h")], constants, True)
    with pytest.raises(headrace.UnsupportedOpError, match=r"loop \[Loop\]"):
        both([*order, *collecting("last")], {"x": X}, [tensor("y"), tensor("h")], constants, False)
