"""Chains that quantise what they compute: every reader of a range must have the numbers whose range was taken."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.models import model_of, normal

import headrace

pytestmark = [pytest.mark.webgpu, pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")]

SHAPE = (6, 48)
CONSTANTS = {
    "gain": normal((48,), 1),
    "bias": normal((48,), 2),
    "w": normal((48, 48), 3) / 7,
    "half": np.float32(0.5),
    "one": np.float32(1.0),
    "root": np.float32(0.70710678),
}


def gelu(x, y):
    """y = x / 2 * (1 + erf(x / sqrt 2)), as exporters write it."""
    return [
        helper.make_node("Mul", [x, "root"], [f"{y}.a"]),
        helper.make_node("Erf", [f"{y}.a"], [f"{y}.b"]),
        helper.make_node("Add", [f"{y}.b", "one"], [f"{y}.c"]),
        helper.make_node("Mul", [x, f"{y}.c"], [f"{y}.d"]),
        helper.make_node("Mul", [f"{y}.d", "half"], [y]),
    ]


def affine(x, y):
    return [helper.make_node("Mul", [x, "gain"], [f"{y}.a"]), helper.make_node("Add", [f"{y}.a", "bias"], [y])]


def norm(x, y):
    return [
        helper.make_node("Add", [x, "x"], [f"{y}.a"]),
        helper.make_node("LayerNormalization", [f"{y}.a", "gain", "bias"], [y]),
    ]


def product(x, y):
    return [
        helper.make_node("MatMul", [x, "w"], [f"{y}.a"]),
        helper.make_node("Add", [f"{y}.a", "bias"], [f"{y}.b"]),
        helper.make_node("LeakyRelu", [f"{y}.b"], [y]),
    ]


def moved(x, y):
    return [
        *affine(x, f"{y}.a"),
        helper.make_node("Transpose", [f"{y}.a"], [f"{y}.b"]),
        helper.make_node("Concat", [f"{y}.b", f"{y}.b"], [f"{y}.c"], axis=1),
        helper.make_node("Split", [f"{y}.c"], [f"{y}.d", f"{y}.e"], axis=1, num_outputs=2),
        helper.make_node("Transpose", [f"{y}.e"], [y]),
    ]


PRODUCERS = {f.__name__: f for f in (gelu, affine, norm, product, moved)}


def quantised_product(i, x, y):
    """y = x @ w through 8-bit numbers, the way a quantizer writes it."""
    return [
        helper.make_node("DynamicQuantizeLinear", [x], [f"q{i}", f"s{i}", f"z{i}"]),
        helper.make_node("MatMulInteger", [f"q{i}", f"w{i}", f"z{i}", f"wz{i}"], [f"{y}.i"]),
        helper.make_node("Cast", [f"{y}.i"], [f"{y}.f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"s{i}", f"ws{i}"], [f"{y}.s"]),
        helper.make_node("Mul", [f"{y}.f", f"{y}.s"], [y]),
    ]


def chain(seed, length=4):
    """A random chain and its constants: (producer, quantised product) `length` times, from "x" to "y"."""
    rng = np.random.default_rng(seed)
    nodes, constants, x = [], dict(CONSTANTS), "x"
    for i in range(length):
        nodes += PRODUCERS[str(rng.choice(list(PRODUCERS)))](x, f"p{i}")
        x = f"y{i}"
        nodes += quantised_product(i, f"p{i}", x)
        constants |= {
            f"w{i}": rng.integers(-128, 128, (48, 48)).astype(np.int8),
            f"wz{i}": rng.integers(-9, 9, 48).astype(np.int8) if i % 2 else np.int8(rng.integers(-9, 9)),
            f"ws{i}": np.float32(rng.uniform(0.001, 0.01)),
        }
    return nodes, constants


def run(nodes, constants, outputs, x):
    model = model_of(nodes, {"x": SHAPE}, outputs, constants)
    for v in model.graph.output:  # of many dtypes
        v.ClearField("type")
    with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
        return dict(zip(outputs, session.run(None, {"x": x}), strict=True)), session.plan


@pytest.mark.parametrize("seed", range(8))
def test_fusion_changes_no_quantised_number(seed):
    """With and without every intermediate stored."""
    nodes, constants = chain(seed)
    x = normal(SHAPE, seed)
    wanted = [n for i in range(4) for n in (f"q{i}", f"s{i}", f"z{i}")]
    fused, _ = run(nodes, constants, wanted, x)
    apart, _ = run(nodes, constants, [o for n in nodes for o in n.output], x)
    for name in wanted:
        np.testing.assert_array_equal(fused[name], apart[name], err_msg=name)
        assert fused[name].dtype == apart[name].dtype


@pytest.mark.parametrize("seed", range(8))
def test_quantised_numbers_are_those_whose_range_was_taken(seed):
    """Exactly, by the definition in ONNX, in float32."""
    nodes, constants = chain(seed)
    got, _ = run(
        nodes, constants, [n for i in range(4) for n in (f"p{i}", f"q{i}", f"s{i}", f"z{i}")], normal(SHAPE, seed)
    )
    for i in range(4):
        p, q, s, z = (got[f"{k}{i}"] for k in "pqsz")
        low, high = min(p.min(), np.float32(0)), max(p.max(), np.float32(0))
        scale = (high - low) / np.float32(255)
        assert s == scale
        assert z == np.rint(np.clip(-low / scale, 0, 255))
        np.testing.assert_array_equal(q, np.clip(np.rint(p / s) + z, 0, 255))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_what_is_quantised_is_computed_once(producer):
    """The kernel of the range and the one that quantises read it, and compute nothing of it, however cheap it is."""
    nodes = [*PRODUCERS[producer]("x", "p0"), *quantised_product(0, "p0", "y")]
    _, constants = chain(0, 1)
    _, plan = run(nodes, constants, ["y"], normal(SHAPE))
    kinds = [plan.kernels[d.kernel] for d in plan.dispatches]
    at = [k.name for k in kinds].index("quantization_range")
    assert kinds[at].bindings.count("read") == 1
    assert kinds[at + 1].name == "pointwise" and "round(" in kinds[at + 1].wgsl
    assert kinds[at + 1].bindings.count("read") == 3  # with scale and zero point
    assert "round(" not in "".join(k.wgsl for k in kinds[:at])


@pytest.mark.parametrize("axis", [0, 1, None])
def test_zero_points_of_constants_cost_no_kernel(axis):
    """Weights less their zero points are made once, on the host; the same weights with two zero points stay apart."""
    rng = np.random.default_rng(5)
    shape = () if axis is None else (48,)
    w, x = rng.integers(-128, 128, (48, 48)).astype(np.int8), rng.integers(0, 256, (5, 48)).astype(np.uint8)
    zeros = [rng.integers(-20, 20, shape).astype(np.int8) for _ in range(2)]
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "", f"z{i}"], [f"y{i}"]) for i in range(2)]
    model = model_of(
        nodes,
        {"x": x.shape},
        ["y0", "y1"],
        {"w": w, "z0": zeros[0], "z1": zeros[1]},
        dtype=TensorProto.UINT8,
        output_dtype=TensorProto.INT32,
    )
    with headrace.InferenceSession(model, device="webgpu", fallback=False) as session:
        got = session.run(None, {"x": x})
        assert [session.plan.kernels[d.kernel].name for d in session.plan.dispatches] == ["integer_product"] * 2
    for y, z in zip(got, zeros, strict=True):
        np.testing.assert_array_equal(y, x.astype(np.int64) @ (w.astype(np.int64) - z))
