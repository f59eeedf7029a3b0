"""One plan for many sizes: right at every size that its guards admit, and a guard for every size where it is not."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import onnx
import pytest

import headrace
from headrace.errors import HeadraceError
from headrace.model import load
from headrace.plan import Spec, host_inputs, prepare_graph, verify_plan
from headrace.plan.general import forms_of, general_plan
from headrace.plan.whole import whole_plan
from headrace.target import DEFAULT

from .general_models import CASES
from .models import normal
from .webgpu.conftest import agree
from .webgpu.node_cases import agree as agrees
from .webgpu.node_cases import allowed, cases


def feeds_of(model, dims):
    shapes = {n: tuple(dims.get(d, d) for d in shape) for n, (shape, _) in forms_of(model).items()}
    return {n: normal(s, i) for i, (n, s) in enumerate(shapes.items())}


@pytest.mark.parametrize("software", [True, False], ids=["software", "GPU"])
@pytest.mark.parametrize("name", CASES)
def test_right_at_every_size_that_is_admitted(on_device, name, software):
    proto, hints, admitted = CASES[name]
    model = load(proto)
    target = replace(DEFAULT, software=software)
    general, whole = general_plan(prepare_graph(model), forms_of(model), hints, target, {})
    assert not whole.refused
    random = np.random.default_rng(0)
    more = [{d: int(n) for d, n in zip(hints, random.integers(1, 70, len(hints)), strict=True)} for _ in range(6)]
    for dims in [*admitted, *more]:
        if not general.admits(dims):
            assert dims in more, [str(g) for g in general.guards if not g.holds(dims)]
            continue
        plan = general.at(dims)
        verify_plan(plan, target)
        feeds = feeds_of(model, dims)
        with warnings.catch_warnings(), headrace.InferenceSession(proto, device="cpu") as session:
            warnings.simplefilter("ignore")
            try:
                want = session.run(None, feeds)
            except headrace.InputError:  # the model has no answer at these sizes
                assert dims in more
                continue
        got = on_device(plan, feeds)
        for output, array in zip(session.get_outputs(), want, strict=True):
            if array.dtype.kind == "f":
                agree(got[output.name], array)
            else:
                np.testing.assert_array_equal(got[output.name], array)


PARTS = 24  # the first is in the fast tests


def opened(case):
    """A case of ONNX's own with every dimension of its inputs dynamic, and what shapes come from made constant: the
    model, the sizes that it has there, and its inputs by name."""
    proto, (given, _) = copy.deepcopy(case.model), case.data_sets[0]
    arrays = dict(zip([v.name for v in proto.graph.input if v.name], map(np.asarray, given), strict=False))
    needed = host_inputs(prepare_graph(load(proto)))
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(arrays[n], n) for n in arrays if n in needed)
    for v in [v for v in proto.graph.input if v.name in needed or not v.name]:
        proto.graph.input.remove(v)
    sizes = {}
    for v in proto.graph.input:
        for axis, (d, n) in enumerate(zip(v.type.tensor_type.shape.dim, arrays[v.name].shape, strict=True)):
            if n:
                d.dim_param = f"{v.name}_{axis}"
                sizes[d.dim_param] = n
    for v in proto.graph.output:
        v.type.tensor_type.ClearField("shape")
    return proto, sizes, arrays


def near(sizes, rng):
    """Other sizes: each moved a little, now and then equal ones together."""
    for turn in range(24):
        moved = {n: max(1, n + int(rng.integers(-2, 4))) for n in set(sizes.values())}
        if turn % 2:
            yield {d: moved[n] for d, n in sizes.items()}
        else:
            chosen = rng.choice(list(sizes))
            yield {**sizes, chosen: moved[sizes[chosen]]}


def refilled(array, shape, rng):
    """An array of another shape with elements of the same kind."""
    if not array.ndim:
        return array
    wide = array[np.ix_(*(np.arange(n) % max(old, 1) for n, old in zip(shape, array.shape, strict=True)))]
    return (wide + rng.uniform(-0.01, 0.01, shape)).astype(array.dtype) if array.dtype.kind == "f" else wide


def other_sizes(model, graph, general, sizes, arrays):
    """Up to two admitted sizes as (plan for all, plan for that size alone, feeds)."""
    rng, found = np.random.default_rng(0), 0
    for dims in near(sizes, rng):
        if found == 2 or dims == sizes or not general.admits(dims):
            continue
        shapes = {n: tuple(dims.get(d, d) for d in shape) for n, (shape, _) in forms_of(model).items()}
        try:
            alone = whole_plan(graph, {n: Spec(shapes[n], t) for n, (_, t) in forms_of(model).items()}, DEFAULT)
        except HeadraceError:  # the node has no answer at these sizes
            continue
        if not alone.refused:
            found += 1
            yield general.at(dims), alone.plan, {n: refilled(arrays[n], s, rng) for n, s in shapes.items()}


def _close(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def _is_valid(proto, feeds):
    """Whether the CPU device has an answer: shapes that contradict each other have none, and any may come out."""
    try:
        with headrace.InferenceSession(proto.SerializeToString(), device="cpu") as session:
            session.run(None, feeds)
    except HeadraceError:
        return False
    return True


@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, PARTS))])
def test_cases_of_onnx_with_every_dimension_dynamic(on_device, part):
    """At their own sizes the answer that ONNX wants; at others what the plan for those sizes alone gives."""
    tried = elsewhere = 0
    for name in [n for n in allowed()[part::PARTS] if n in cases() and "unpool" not in n]:
        proto, sizes, arrays = opened(cases()[name])
        model = load(proto)
        graph = prepare_graph(model)
        general, whole = general_plan(graph, forms_of(model), sizes, DEFAULT, {}) if sizes else (None, None)
        if general is None or whole.refused:
            continue
        assert general.admits(sizes), name
        got = on_device(general.at(sizes), arrays)
        for output, want in zip(
            whole.plan.readbacks and model.graph.outputs, cases()[name].data_sets[0][1], strict=False
        ):
            agrees(np.asarray(got[output.name]), np.asarray(want), name)
        tried += 1
        for plan, alone, feeds in other_sizes(model, graph, general, sizes, arrays):
            verify_plan(plan, DEFAULT)
            got, want = on_device(plan, feeds), on_device(alone, feeds)
            if all(_close(got[n], array) for n, array in want.items()):
                elsewhere += 1
            else:
                assert not _is_valid(proto, feeds), (name, {n: a.shape for n, a in feeds.items()})
    assert tried > 30 and elsewhere > 30
