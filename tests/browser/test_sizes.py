"""One bundle for all sizes: its expressions in JavaScript, its conditions, its memory and its errors."""

from __future__ import annotations

import gzip
import random

import numpy as np
import pytest
from onnx import helper

import headrace
from headrace.kernels.size import Trace, evaluated, largest
from headrace.web.sizes import SizeTable

from .. import detr
from ..general_models import CASES
from ..models import model_of, normal, one_node
from .playing import feed, values

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EACH = """const s = await lib.InferenceSession.create(url); const results = [];
  for (const f of options.each) {
    try { results.push(plain(await s.run(inputs(f)))); } catch (e) { results.push({error: e.name, message: e.message}); }
  } await s.release(); return results;"""


def each(play, model, many, **export):
    """Outputs for each of many feeds, from one session."""
    packed = [{k: feed(v) for k, v in feeds.items()} for feeds in many]
    got = play(model, {}, EACH, {"each": packed}, **export)
    assert isinstance(got, list), got
    return got


def on_cpu(model, feeds):
    with headrace.InferenceSession(model, device="cpu") as session:
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def test_detr_at_two_sizes(play):
    feeds = [detr.feeds(224, 224), detr.feeds(192, 256, 1), detr.feeds(100, 65, 2)]
    for got, given in zip(each(play, detr.detr(), feeds), feeds, strict=True):
        for name, want in on_cpu(detr.detr(), given).items():
            assert got[name]["dims"] == list(want.shape), got
            assert np.abs(values(got[name]) - want).max() <= 2e-4 * np.abs(want).max()


MODELS = [
    "conv chain",
    "attention",
    "positions",
    "windows",
    "anchors",
    "inverse STFT",
    "resize linear half_pixel",
    "movement",
]


@pytest.mark.parametrize("name", MODELS)
def test_every_size_in_one_session(play, name):
    model, _, sizes = CASES[name]
    shapes = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    feeds = [{n: normal([dims.get(d, d) for d in shape]) for n, shape in shapes.items()} for dims in sizes]
    for got, given in zip(each(play, model, feeds), feeds, strict=True):
        want = on_cpu(model, given)["y"]
        assert "y" in got, got
        np.testing.assert_allclose(values(got["y"]), want, rtol=0, atol=3e-5 * np.abs(want).max())


def test_the_evaluator_agrees_with_python(page):
    """Random expressions of dimensions: sums, products, quotients rounded down, the larger of two."""
    rng = random.Random(0)
    trace = Trace({"a": 7, "b": 30, "c": 2})
    pool = [*trace.dims.values(), 1, 2, 3, 7]
    for _ in range(80):
        x, y = rng.choice(pool[-12:]), rng.choice(pool)
        pool.append(
            rng.choice([x + y, x - y, x * 2 + 1, x // rng.choice([2, 3, 8]), largest(x, y), x * trace.dims["a"] // 5])
        )
    table = SizeTable(3)
    numbers = [table.number(n) for n in pool]
    for _ in range(20):
        dims = {d: rng.randint(1, 40) for d in trace.dims}
        got = page.evaluate(
            "async ([e, d]) => (await import('/sizes.js')).evaluate(e, d)", [table.entries, list(dims.values())]
        )
        assert [got[i] for i in numbers] == [evaluated(n, dims) for n in pool]


def parity_model():
    """Right only for one parity of a size: SAME pads depend on it."""
    return one_node("Conv", ("batch", 2, "h", "w"), normal((3, 2, 3, 3), 1), auto_pad="SAME_UPPER", strides=[2, 2])


def test_sizes_that_need_another_plan_get_one(play):
    feeds = [{"x": normal((1, 2, h, w))} for h, w in ((24, 32), (23, 31), (8, 8))]
    for got, given in zip(each(play, parity_model(), feeds), feeds, strict=True):
        want = on_cpu(parity_model(), given)["y"]
        np.testing.assert_allclose(values(got["y"]), want, rtol=1e-4, atol=1e-4)


def test_a_size_without_a_plan_says_why(play):
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": (1, 1, "h", "w")}, ["y"], {"w": normal((1, 1, 9, 3))})
    small, good = each(play, model, [{"x": normal((1, 1, 5, 8))}, {"x": normal((1, 1, 9, 8))}])
    assert small["error"] == "InputError"
    assert "h = 5" in small["message"] and "needs h >= 9" in small["message"] and "input_shapes" in small["message"]
    np.testing.assert_allclose(values(good["y"]), on_cpu(model, {"x": normal((1, 1, 9, 8))})["y"], rtol=1e-4, atol=1e-4)


WRONG = {
    "rank": (((2, 6), (2, 6)), "must have the shape"),
    "fixed size": (((2, 5, 3), (2, 6, 3)), "must have the shape [n,6,t]"),
    "two sizes of one dimension": (((2, 6, 3), (2, 6, 4)), 'dimension t is 3 in input "x" and 4 in input "z"'),
    "no elements": (((2, 6, 0), (2, 6, 0)), "at least 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_shapes(play, name):
    model = model_of([helper.make_node("Add", ["x", "z"], ["y"])], {"x": ("n", 6, "t"), "z": ("n", 6, "t")}, ["y"])
    (x, z), text = WRONG[name]
    got, good = each(play, model, [{"x": normal(x), "z": normal(z)}, {"x": normal((1, 6, 2)), "z": normal((1, 6, 2))}])
    assert got["error"] == "InputError" and text in got["message"], got
    assert good["y"]["dims"] == [1, 6, 2]


def test_many_sizes_keep_few_buffers(play):
    """What old sizes needed is freed, scratch is shared, and a size that comes back is right again."""
    body = """let alive = 0; const most = []; const create = GPUDevice.prototype.createBuffer, destroy = GPUBuffer.prototype.destroy;
      GPUDevice.prototype.createBuffer = function (d) { alive++; return create.call(this, d); };
      GPUBuffer.prototype.destroy = function () { alive--; return destroy.call(this); };
      const s = await lib.InferenceSession.create(url), sums = {};
      for (let round = 0; round < 2; round++) for (let t = 1; t < 24; t++) {
        const x = new lib.Tensor('float32', Float32Array.from({length: 32 * t}, (_, i) => Math.sin(i)), [1, t, 32]);
        const { y } = await s.run({x}); const sum = y.data.reduce((a, b) => a + b, 0);
        if (t in sums && sums[t] !== sum) throw new Error(`size ${t} differs`);
        sums[t] = sum; most.push(alive);
      }
      await s.release(); const left = alive;
      GPUDevice.prototype.createBuffer = create; GPUBuffer.prototype.destroy = destroy; return {most, left};"""
    model, _, _ = CASES["attention"]
    got = play(model, {}, body)
    assert "most" in got, got
    assert max(got["most"]) == got["most"][30] == got["most"][-1] and got["left"] == 0, got


def test_a_size_that_the_device_cannot_hold(play):
    model = model_of(
        [helper.make_node("Tile", ["x", "r"], ["y"])], {"x": (1, "n")}, ["y"], {"r": np.int64([1 << 20, 1])}
    )
    (got,) = each(play, model, [{"x": normal((1, 3000))}])
    assert (
        got["error"] == "UnsupportedError" and "tensor y needs" in got["message"] and "maxBufferSize" in got["message"]
    ), got


def test_the_page_beside_it_has_an_example(tmp_path):
    bundle = headrace.export_web(detr.detr(), tmp_path)
    assert bundle["example"]["pixel_values"][:2] == [1, 3] and all(n > 0 for n in bundle["example"]["pixel_values"])
    code = [f for f in tmp_path.iterdir() if f.suffix in (".js", ".json") and not f.name.startswith("demo")]
    assert sum(len(gzip.compress(f.read_bytes())) for f in code) < 60_000
