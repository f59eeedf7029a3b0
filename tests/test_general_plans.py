"""One plan for many sizes: right at every size that its guards admit, and a guard for every size where it is not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import onnx
import pytest

import headrace
from headrace.model import load
from headrace.plan import prepare_graph, verify_plan
from headrace.plan.general import forms_of, general_plan
from headrace.target import DEFAULT

from .general_models import CASES
from .models import normal
from .webgpu.conftest import agree


@pytest.fixture(scope="module")
def play():
    """Runs a plan with feeds on the device, scratch buffers full of NaN."""
    from headrace.backends.webgpu.device import open_device, release
    from headrace.backends.webgpu.player import Pool, Prepared
    from headrace.dtypes import to_storage

    device = open_device()

    def call(plan, feeds):
        pool = Pool(device)
        prepared = Prepared(plan, pool)
        for buffer in pool.scratch:
            device.handle.queue.write_buffer(buffer, 0, np.full(buffer.size, 0xFF, np.uint8))
        stored = {u.name: to_storage(feeds[u.name], u.storage) for u in plan.uploads}
        made = prepared.finish(prepared.run(stored))
        types = {r.name: onnx.helper.tensor_dtype_to_np_dtype(r.dtype) for r in plan.readbacks}
        return {n: a.astype(types[n]) for n, a in made.items()} | dict(plan.known)

    yield call
    release(device)


def feeds_of(model, dims):
    shapes = {n: tuple(dims.get(d, d) for d in shape) for n, (shape, _) in forms_of(model).items()}
    return {n: normal(s, i) for i, (n, s) in enumerate(shapes.items())}


@pytest.mark.parametrize("software", [True, False], ids=["software", "GPU"])
@pytest.mark.parametrize("name", CASES)
def test_right_at_every_size_that_is_admitted(play, name, software):
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
        got = play(plan, feeds)
        for output, array in zip(session.get_outputs(), want, strict=True):
            if array.dtype.kind == "f":
                agree(got[output.name], array)
            else:
                np.testing.assert_array_equal(got[output.name], array)
