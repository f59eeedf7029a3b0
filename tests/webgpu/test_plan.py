"""Lowering, fusion and verification without a device."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from conftest import agree, model
from headrace.errors import DeviceError
from headrace.kernels.index import flatten, reshape, unflatten, variable
from headrace.plan import Plan, Spec, Walk, host_inputs, make_plan, prepare_graph, verify_plan
from headrace.target import SOFTWARE

N = helper.make_node


def plan_of(m: Any, **shapes: tuple[int, ...]) -> Plan:
    graph = prepare_graph(m)
    specs = {n: Spec(s, ir.DataType.FLOAT) for n, s in shapes.items()}
    walk = Walk(graph, SOFTWARE)
    lowered = walk.run(specs)
    assert not lowered.refused
    plan, _ = make_plan({v.name or "": walk.lookup(v.name or "") for v in m.graph.outputs}, specs, SOFTWARE)
    verify_plan(plan)
    return plan


def names(plan: Plan) -> list[str]:
    return [plan.kernels[d.kernel].name for d in plan.dispatches]


def weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_index_maps_simplify() -> None:
    i = variable("i", 2 * 49 * 256)
    assert flatten(unflatten(i, (2, 49, 256)), (2, 49, 256)).key == "i"
    c = (variable("a", 2), variable("b", 49), variable("c", 256))
    there = reshape(c, (2, 49, 256), (2, 49, 8, 32))
    assert [x.key for x in reshape(there, (2, 49, 8, 32), (2, 49, 256))] == ["a", "b", "c"]


def test_bias_residual_activation_and_transpose_join_the_product() -> None:
    nodes = [
        N("MatMul", ["x", "w"], ["p"]),
        N("Add", ["p", "b"], ["s"]),
        N("Add", ["s", "r"], ["t"]),
        N("Relu", ["t"], ["u"]),
        N("Reshape", ["u", "shape"], ["v"]),
        N("Transpose", ["v"], ["y"], perm=[1, 0, 2]),
    ]
    m = model(
        nodes, {"x": (7, 16), "r": (7, 24)}, ["y"], {"w": weight(16, 24), "b": weight(24), "shape": np.array([7, 4, 6])}
    )
    assert names(plan_of(m, x=(7, 16), r=(7, 24))) == ["matmul"]


def test_what_two_kernels_read_is_stored_once() -> None:
    nodes = [
        N("MatMul", ["x", "w"], ["p"]),
        N("Relu", ["p"], ["q"]),
        N("MatMul", ["q", "w"], ["a"]),
        N("MatMul", ["q", "v"], ["b"]),
    ]
    m = model(nodes, {"x": (8, 8)}, ["a", "b"], {"w": weight(8, 8), "v": weight(8, 8)})
    assert names(plan_of(m, x=(8, 8))) == ["matmul"] * 3


def test_a_reduction_in_between_does_not_fuse() -> None:
    nodes = [N("MatMul", ["x", "w"], ["p"]), N("Softmax", ["p"], ["s"]), N("Relu", ["s"], ["y"])]
    assert names(plan_of(model(nodes, {"x": (8, 8)}, ["y"], {"w": weight(8, 8)}), x=(8, 8))) == ["matmul", "normalize"]


def test_more_inputs_than_buffers_are_cut() -> None:
    many = [f"x{i}" for i in range(12)]
    plan = plan_of(model([N("Sum", many, ["y"])], dict.fromkeys(many, (5, 3)), ["y"]), **dict.fromkeys(many, (5, 3)))
    assert len(plan.dispatches) > 1


def test_attention_is_one_kernel_unless_its_probabilities_are_an_output() -> None:
    nodes = [
        N("MatMul", ["q", "k"], ["s"]),
        N("Mul", ["s", "c"], ["t"]),
        N("Softmax", ["t"], ["p"], axis=-1),
        N("MatMul", ["p", "v"], ["y"]),
    ]
    shapes = {"q": (2, 5, 8), "k": (2, 8, 6), "v": (2, 6, 8)}
    c = {"c": np.array(0.3, np.float32)}
    assert names(plan_of(model(nodes, shapes, ["y"], c), **shapes)) == ["attention"]
    assert "attention" not in names(plan_of(model(nodes, shapes, ["y", "p"], c), **shapes))


def test_shape_arithmetic_never_reaches_the_device() -> None:
    nodes = [
        N("Shape", ["x"], ["n"]),
        N("Gather", ["n", "zero"], ["d"]),
        N("Concat", ["d", "minus"], ["s"], axis=0),
        N("Reshape", ["x", "s"], ["y"]),
    ]
    m = model(nodes, {"x": (4, 3, 2)}, ["y"], {"zero": np.array([0]), "minus": np.array([-1])})
    assert names(plan_of(m, x=(4, 3, 2))) == ["pointwise"]


def test_inputs_that_shapes_come_from_are_host_inputs() -> None:
    m = model([N("Reshape", ["x", "s"], ["y"])], {"x": (4, 3), "s": (2,)}, ["y"])
    assert host_inputs(prepare_graph(m)) == {"s"}


def test_new_sizes_have_the_same_kernels() -> None:
    nodes = [N("MatMul", ["x", "w"], ["p"]), N("Softmax", ["p"], ["y"])]
    m = model(nodes, {"x": (9, 16)}, ["y"], {"w": weight(16, 24)})
    assert [k.wgsl for k in plan_of(m, x=(50, 16)).kernels] == [k.wgsl for k in plan_of(m, x=(61, 16)).kernels]


def test_json_and_back() -> None:
    plan = plan_of(model([N("Relu", ["x"], ["y"])], {"x": (4, 3)}, ["y"]), x=(4, 3))
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("wrong", ["groups", "double", "window", "features"])
def test_verify_refuses(wrong: str) -> None:
    plan = plan_of(model([N("Relu", ["x"], ["y"])], {"x": (4, 3)}, ["y"]), x=(4, 3))
    d = plan.dispatches[0]
    changes: dict[str, Any] = {
        "groups": {"dispatches": (replace(d, groups=(70000, 1, 1)),)},
        "double": {"dispatches": (replace(d, bindings=(d.bindings[0], d.bindings[2], d.bindings[2])),)},
        "window": {"dispatches": (replace(d, bindings=(*d.bindings[:2], replace(d.bindings[2], size=4096))),)},
        "features": {"kernels": (replace(plan.kernels[0], requires=("shader-f16",)),)},
    }
    with pytest.raises(DeviceError):
        verify_plan(replace(plan, **changes[wrong]))


def test_a_tensor_over_the_binding_limit_is_named() -> None:
    m = model([N("Relu", ["x"], ["y"])], {"x": (1 << 26,)}, ["y"])
    with pytest.raises(DeviceError, match="limit"):
        plan_of(m, x=(1 << 26,))


def test_two_processes_make_the_same_plan() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/webgpu'); import test_plan as t; "
        "nodes = [t.N('MatMul', ['x', 'w'], ['p']), t.N('Softmax', ['p'], ['y'])]; "
        "m = t.model(nodes, {'x': (9, 16)}, ['y'], {'w': t.weight(16, 24)}); "
        "print(t.plan_of(m, x=(9, 16)).to_json())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1


def test_the_helper_notices_a_wrong_answer() -> None:
    with pytest.raises(AssertionError):
        agree(np.zeros(3, np.float32), np.ones(3))


def test_riders_leave_a_kernel_that_has_too_many_buffers(run) -> None:
    """One kernel could store all three outputs, but they read and write nine buffers: the order must hold even so."""
    names = list("abcdef")
    nodes = [
        helper.make_node("Div", ["a", "b"], ["base"]),
        helper.make_node("Mul", ["base", "c"], ["p"]),
        helper.make_node("Sub", ["p", "d"], ["left"]),
        helper.make_node("Mul", ["base", "e"], ["q"]),
        helper.make_node("Sub", ["q", "f"], ["right"]),
        helper.make_node("Mul", ["left", "right"], ["both"]),
        helper.make_node("Add", ["both", "base"], ["last"]),
    ]
    rng = np.random.default_rng(0)
    feeds = {n: rng.uniform(0.5, 2, (7, 33)).astype(np.float32) for n in names}
    outputs = ["base", "left", "right", "last"]
    got = run(model(nodes, dict.fromkeys(names, (7, 33)), outputs), feeds)
    a, b, c, d, e, f = (feeds[n].astype(np.float64) for n in names)
    base = a / b
    left, right = base * c - d, base * e - f
    for g, want in zip(got, [base, left, right, left * right + base], strict=True):
        assert np.abs(g - want).max() <= 1e-5 * np.abs(want).max()
