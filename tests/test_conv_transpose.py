"""ConvTranspose of every kind: the polyphase form, forced and as chosen, against the float64 oracle."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace.model import load
from headrace.rules import Target, optimize_model
from headrace.rules.conv_transpose import polyphase

from . import oracle
from .models import normal, one_node


def run_forced(model: onnx.ModelProto, x: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The polyphase form whatever it costs, run by ONNX Runtime; and the op types of the rewritten graph."""
    import onnxruntime as ort

    rewritten = optimize_model(load(model), Target.EXPORT, (polyphase,), margin=0.0)
    proto = onnx.ModelProto.FromString(rewritten_bytes(rewritten))
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0], [n.op_type for n in proto.graph.node]


def rewritten_bytes(model: headrace.model.Model) -> bytes:
    import onnx_ir as ir

    return ir.to_proto(model.ir).SerializeToString()


def check(x_shape, w_shape, strides, *, group=1, dilations=None, seed=0, bias=False, opset=20, **attributes):
    spatial = len(x_shape) - 2
    dilations = dilations or [1] * spatial
    x, w = normal(x_shape, seed), normal(w_shape, seed + 1)
    b = normal([w_shape[1] * group], seed + 2) if bias else None
    model = one_node(
        "ConvTranspose", x_shape, w, b, strides=strides, dilations=dilations, group=group, opset=opset, **attributes
    )
    size, begin = oracle.conv_transpose_size(
        x_shape[2:],
        w_shape[2:],
        strides=strides,
        dilations=dilations,
        output_padding=attributes.get("output_padding", [0] * spatial),
        auto_pad=attributes.get("auto_pad", "NOTSET"),
        pads=attributes.get("pads"),
        output_shape=attributes.get("output_shape"),
    )
    want = oracle.conv_transpose(x, w, b, strides=strides, dilations=dilations, group=group, begin=begin, output=size)
    got, ops = run_forced(model, x)
    accumulated = x_shape[1] // group * int(np.prod(w_shape[2:]))
    oracle.assert_close(got, want, accumulated)
    with headrace.InferenceSession(model, device="cpu") as session:
        oracle.assert_close(session.run(None, {"x": x})[0], want, accumulated)
    return ops


CASES = {  # id from the list of cases that broke other systems -> arguments
    "C4 depthwise": dict(
        x_shape=(1, 12, 50), w_shape=(12, 1, 3), strides=[2], group=12, pads=[1, 1], output_padding=[1]
    ),
    **{
        f"C5 {i} in, {o} out": dict(x_shape=(2, 2 * i, 9), w_shape=(2 * i, o, 5), strides=[2], group=2)
        for i in (1, 3, 5, 6, 7, 8)
        for o in (1, 2, 4, 5)
    },
    **{
        f"C7 {pad}": dict(
            x_shape=(1, 2, 3, 3), w_shape=(2, 3, 3, 3), strides=[2, 2], auto_pad=pad, output_padding=[1, 1]
        )
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID")
    },
    "C7 output_shape": dict(x_shape=(1, 2, 3, 3), w_shape=(2, 3, 3, 3), strides=[3, 2], output_shape=[10, 8]),
    "C7 output_shape upper": dict(
        x_shape=(1, 2, 3, 3), w_shape=(2, 3, 4, 4), strides=[2, 2], output_shape=[7, 5], auto_pad="SAME_UPPER"
    ),
    "C7 asymmetric": dict(x_shape=(1, 2, 5, 4), w_shape=(2, 3, 3, 4), strides=[2, 3], pads=[0, 2, 1, 1], bias=True),
    "C8 dilated": dict(x_shape=(1, 3, 6, 5), w_shape=(3, 2, 3, 2), strides=[2, 3], dilations=[3, 2], bias=True),
    "C8 kernel under stride": dict(x_shape=(1, 3, 6, 5), w_shape=(3, 2, 2, 1), strides=[4, 3], bias=True),
    "C8 kernel is stride": dict(x_shape=(1, 3, 6, 5), w_shape=(3, 2, 2, 2), strides=[2, 2]),
    "C8 no multiple": dict(x_shape=(1, 3, 6, 5), w_shape=(3, 2, 5, 7), strides=[2, 3], pads=[1, 2, 1, 2]),
    "C9 one channel": dict(x_shape=(1, 1, 9, 8), w_shape=(1, 1, 8, 8), strides=[8, 8]),
    "C9 generator": dict(x_shape=(2, 8, 6, 6), w_shape=(8, 4, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
    "C10 3-D": dict(x_shape=(1, 6, 3, 4, 3), w_shape=(6, 5, 2, 2, 2), strides=[2, 2, 2]),
    "C10 3-D odd": dict(
        x_shape=(1, 4, 3, 2, 3), w_shape=(4, 2, 3, 3, 3), strides=[2, 2, 2], pads=[1] * 6, output_padding=[1, 1, 1]
    ),
    "stride 1": dict(x_shape=(1, 3, 7), w_shape=(3, 2, 3), strides=[1], pads=[1, 1]),
    "pads beyond a stride": dict(x_shape=(1, 3, 9), w_shape=(3, 2, 8), strides=[2], pads=[5, 3]),
    "padding added past the kernel": dict(
        x_shape=(1, 3, 5), w_shape=(3, 2, 2), strides=[4], output_padding=[3], bias=True
    ),
    "opset 9": dict(x_shape=(1, 3, 5), w_shape=(3, 2, 4), strides=[2], pads=[1, 1], opset=9),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    ops = check(**CASES[name])
    assert "ConvTranspose" not in ops


@pytest.mark.parametrize("length", [2047, 2048, 2049])
def test_float16_lengths(length):
    """C6: coordinates in float16 go wrong past 2048."""
    x, w = normal((1, 2, length), dtype=np.float16), normal((2, 1, 4), 1, np.float16)
    model = one_node("ConvTranspose", x.shape, w, strides=[2])
    want = oracle.conv_transpose(x, w, strides=[2], output=[(length - 1) * 2 + 4])
    with headrace.InferenceSession(model, device="cpu") as session:
        oracle.assert_close(session.run(None, {"x": x})[0], want, 4)


@st.composite
def geometries(draw):
    spatial = draw(st.integers(1, 3))
    group = draw(st.sampled_from([1, 1, 2, 3]))
    small = [4, 3, 2][spatial - 1]
    lists = lambda low, high: draw(st.lists(st.integers(low, high), min_size=spatial, max_size=spatial))  # noqa: E731
    strides, kernel, dilations = lists(1, small + 1), lists(1, small + 2), lists(1, 3)
    x = (draw(st.integers(1, 2)), group * draw(st.integers(1, 3)), *lists(1, small + 1))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    output_padding = [draw(st.integers(0, s - 1)) for s in strides]  # ONNX Runtime takes no more
    limits = [min((n - 1) * s + e - 1, e + s) for n, s, e in zip(x[2:], strides, spans, strict=True)]
    begin = [draw(st.integers(0, limit // 2)) for limit in limits]
    end = [draw(st.integers(0, limit - limit // 2)) for limit in limits]
    w = (x[1], draw(st.integers(1, 3)), *kernel)
    return dict(x_shape=x, w_shape=w, strides=strides, group=group, dilations=dilations, pads=[*begin, *end],
                output_padding=output_padding, bias=draw(st.booleans()), seed=draw(st.integers(0, 99)))  # fmt: skip


@given(geometries())
@settings(max_examples=60, deadline=None)
def test_any_geometry(arguments):
    check(**arguments)


@given(geometries())
@settings(max_examples=25, deadline=None)
def test_adjoint(arguments):
    """⟨conv_transpose(x), y⟩ = ⟨x, conv(y)⟩ with the same weight, strides, dilations and pads."""
    strides, dilations, group = arguments["strides"], arguments["dilations"], arguments["group"]
    x, w = normal(arguments["x_shape"], 3), normal(arguments["w_shape"], 4)
    pads = arguments["pads"]
    model = one_node("ConvTranspose", x.shape, w, strides=strides, dilations=dilations, group=group, pads=pads)
    got, _ = run_forced(model, x)
    y = normal(got.shape, 5)
    back = oracle.conv(y, w, strides=strides, dilations=dilations, group=group, pads=pads)
    left, right = float((got.astype("f8") * y).sum()), float((x.astype("f8") * back).sum())
    assert abs(left - right) <= 1e-4 * max(np.abs(got * y).sum(), 1.0)


def test_kept_where_it_does_not_pay():
    x = normal((1, 128, 32, 32))
    model = one_node("ConvTranspose", x.shape, normal((128, 64, 2, 2), 1), strides=[2, 2])
    with headrace.InferenceSession(model, device="cpu") as session:
        assert any(n.refused and "must promise" in n.text for n in session.notes)


def test_rewritten_where_it_pays():
    model = one_node("ConvTranspose", (16, 129, 400), normal((129, 1, 256), 1), strides=[64])
    with headrace.InferenceSession(model, device="cpu") as session:
        assert [n.refused for n in session.notes] == [False]
        assert "4 taps" in session.notes[0].text


def test_one_session_for_many_lengths():
    model = one_node("ConvTranspose", (1, 64, "time"), normal((64, 1, 1024), 1), strides=[256])
    w = normal((64, 1, 1024), 1)
    with headrace.InferenceSession(model, device="cpu") as session:
        for length in (300, 301, 400):
            x = normal((1, 64, length), length)
            want = oracle.conv_transpose(x[..., :4], w, strides=[256], output=[3 * 256 + 1024])
            got = session.run(None, {"x": x})[0]
            assert got.shape == (1, 1, (length - 1) * 256 + 1024)
            oracle.assert_close(got[..., :256], want[..., :256], 64)
        assert len(session._executable._by_choice) <= 2


def test_weight_that_is_no_constant_is_kept():
    import onnx.helper as helper

    from .models import model_of

    model = model_of(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2])], {"x": (1, 2, 5), "w": (2, 3, 4)}, ["y"]
    )
    x, w = normal((1, 2, 5)), normal((2, 3, 4), 1)
    with headrace.InferenceSession(model, device="cpu") as session:
        got = session.run(None, {"x": x, "w": w})[0]
        assert any("not constant" in n.text for n in session.notes)
    oracle.assert_close(got, oracle.conv_transpose(x, w, strides=[2], output=[12]), 8)


def test_the_helper_fails_on_a_wrong_answer():
    want = normal((3, 4), dtype=np.float64)
    for wrong in (want * (1 + 1e-5), want[:2], np.where(want == want.max(), np.nan, want)):
        with pytest.raises(AssertionError):
            oracle.assert_close(wrong.astype(np.float32), want)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_a_kernel_under_the_stride_with_auto_pad_stays(auto_pad):
    """ONNX Runtime gives fewer places than size times stride: a rewrite would change the shape."""
    w = normal((800, 1, 400))
    model = one_node("ConvTranspose", (1, 800, 300), w, strides=[403], auto_pad=auto_pad)
    with headrace.InferenceSession(model, device="cpu") as session:
        assert [n.refused for n in session.notes] == [True] and "runtimes differ" in session.notes[0].text


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [2, 3, 5])
@pytest.mark.parametrize("added", [0, 1])
@pytest.mark.webgpu
def test_same_padding_of_a_small_kernel_is_onnxruntimes(auto_pad, kernel, stride, added):
    """Under the stride there is nothing to cut; ONNX's reference fills up to size * stride, ONNX Runtime does not."""
    attributes = {"strides": [stride, stride], "auto_pad": auto_pad, "output_padding": [added, added]}
    model = one_node("ConvTranspose", ["n", 2, "h", "w"], normal((2, 3, kernel, 2)), **attributes)
    x = normal((1, 2, 4, 5), 1)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = theirs.run(None, {"x": x})[0]
    for device in ("cpu", "webgpu"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with headrace.InferenceSession(model, device=device) as session:
                oracle.assert_close(session.run(None, {"x": x})[0], want.astype(np.float64), 8)
