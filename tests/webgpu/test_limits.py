"""Launches and tensors that are larger than a device allows: split, or refused with the tensor and the limit."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests.models import normal

from conftest import agree, model
from headrace.backends.webgpu import WebGpuExecutable
from headrace.errors import DeviceError
from headrace.plan.split import seconds, shifted, split
from headrace.target import Target

N = helper.make_node
pytestmark = pytest.mark.filterwarnings("ignore:WebGPU runs on a software adapter")


@pytest.fixture
def executable() -> Any:
    """A session whose device has another target while the test runs."""
    made: list[WebGpuExecutable] = []
    old: list[Target] = []

    def make(m: Any, **limits: Any) -> WebGpuExecutable:
        e = WebGpuExecutable(m, fallback=False)
        made.append(e)
        old.append(e.device.target)
        e.device.target = replace(e.device.target, **limits)
        return e

    yield make
    for e, target in zip(reversed(made), reversed(old), strict=True):
        e.device.target = target
        e.close()


def covered(parts: list[Any], groups: tuple[int, int, int]) -> None:
    seen = np.zeros(groups, int)
    for (x, y, z), (w, h, d) in parts:
        seen[x : x + w, y : y + h, z : z + d] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("groups", [(1, 1, 1), (70, 1, 1), (3, 65, 2), (5, 4, 70)])
def test_parts_cover_every_workgroup_once(groups: tuple[int, int, int]) -> None:
    target = Target(workgroups=32, gflops=1.0)
    for flops in (0, 3_000_000_000):
        parts = split(groups, flops, target)
        covered(parts, groups)
        assert all(max(size) <= 32 for _, size in parts)


def test_a_launch_of_many_seconds_is_split_by_the_peak() -> None:
    target = Target(gflops=2.0)
    assert seconds(4_000_000_000, target) == 2.0
    assert len(split((100, 1, 1), 4_000_000_000, target)) == 4
    assert len(split((2, 1, 1), 4_000_000_000, target)) == 2  # never finer than a workgroup
    assert len(split((100, 1, 1), 4_000_000_000, replace(target, gflops=100.0))) == 1


def test_a_body_counts_from_its_origin() -> None:
    body = "@compute\nfn main(@builtin(workgroup_id) group: vec3<u32>) {\n    let i = group.x;\n}\n"
    text = shifted(body, (64, 1, 1))
    assert "workgroup_id) group_of_part: vec3<u32>" in text
    assert "let group = group_of_part + vec3<u32>(u.ORIGIN_X" in text


CASES = {
    "product": ([N("MatMul", ["x", "y"], ["z"])], (9, 21, 30), (9, 30, 40), lambda x, y: x @ y),
    "sum": ([N("Add", ["x", "y"], ["z"])], (9, 21, 30), (1, 21, 30), lambda x, y: x + y),
    "running": ([N("CumSum", ["x", "axis"], ["z"])], (200, 5), (1,), lambda x, y: np.cumsum(x, 1)),
    "rows": ([N("Softmax", ["x"], ["z"])], (90, 33), (1,), lambda x, y: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
}


@pytest.mark.parametrize("name", CASES)
def test_split_launches_are_right(executable: Any, name: str) -> None:
    nodes, a, b, oracle = CASES[name]
    m = model(nodes, {"x": a, "y": b}, ["z"], {"axis": np.array(1)})
    feeds = {"x": normal(a), "y": normal(b)}
    want = oracle(*(v.astype(np.float64) for v in feeds.values()))
    for limits in ({"workgroups": 2}, {"gflops": 1e-6, "peak_seconds": 0.005}):
        e = executable(m, **limits)
        agree(e.run(None, feeds)[0], want)
        assert e.plan is not None and len(e.plan.dispatches) > 1
        assert len({d.kernel for d in e.plan.dispatches}) == 1
        if "workgroups" in limits:
            assert max(max(d.groups) for d in e.plan.dispatches) <= 2


def test_a_product_of_seventy_thousand_matrices(executable: Any) -> None:
    a, b = normal((70_000, 2, 3)), normal((70_000, 3, 2))
    e = executable(model([N("MatMul", ["x", "y"], ["z"])], {"x": a.shape, "y": b.shape}, ["z"]))
    agree(e.run(None, {"x": a, "y": b})[0], a.astype(np.float64) @ b.astype(np.float64))
    assert len(e.plan.dispatches) == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_seventy_thousand_rows(executable: Any, axis: int) -> None:
    x = normal((70_000, 3) if axis else (3, 70_000))
    e = executable(model([N("Softmax", ["x"], ["z"], axis=axis)], {"x": x.shape}, ["z"]))
    wide = np.exp(x.astype(np.float64))
    agree(e.run(None, {"x": x})[0], wide / wide.sum(axis, keepdims=True))


@pytest.mark.parametrize(("limit", "text"), [("binding_bytes", "binding limit"), ("buffer_bytes", "over the limit")])
def test_a_tensor_over_a_limit_is_named(executable: Any, limit: str, text: str) -> None:
    m = model([N("MatMul", ["x", "x"], ["big"], name="square")], {"x": (64, 64)}, ["big"])
    e = executable(m, **{limit: 4096})
    with pytest.raises(DeviceError, match=rf"(big|\bx\b).*{text}") as error:
        e.run(None, {"x": normal((64, 64))})
    assert "4096" in str(error.value) and str(prod((64, 64)) * 4) in str(error.value)
    e.device.target = replace(e.device.target, **{limit: 1 << 27})
    e.run(None, {"x": normal((64, 64))})  # the session is still good
