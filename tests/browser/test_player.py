"""The player in Chromium: onnxruntime-web's interface, sizes, memory, errors, and the page beside a bundle."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from onnx import helper

import headrace
from headrace.web.serve import server_for

from ..models import inverse_dft_basis, model_of, normal, one_node
from .playing import ONCE, values

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def up_model(shape=("batch", 6, "time")):
    return one_node("ConvTranspose", shape, normal((6, 4, 7), 1), normal([4], 2), strides=[3], pads=[2, 1])


def on_cpu(model, feeds):
    with headrace.InferenceSession(model, device="cpu") as session:
        return session.run(None, feeds)


def test_values(play, page):
    x = normal((2, 6, 11))
    got = play(up_model(), {"x": x}, input_shapes={"x": x.shape})
    np.testing.assert_allclose(values(got["y"]), on_cpu(up_model(), {"x": x})[0], rtol=1e-5, atol=1e-5)
    assert not [e for e in page.errors if "favicon" not in e and "404" not in e]


def test_an_inverse_stft(play):
    w = inverse_dft_basis(64)
    x = normal((1, 66, 50))
    model = one_node("ConvTranspose", x.shape, w, strides=[16])
    got = values(play(model, {"x": x})["y"])
    want = on_cpu(model, {"x": x})[0]
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_several_sizes_share_weights(play, site, request):
    sizes = [{"x": (1, 6, 5)}, {"x": (2, 6, 9)}]
    body = """const s = await lib.InferenceSession.create(url); const results = [];
      for (const n of [[1, 5], [2, 9], [1, 5]]) {
        const x = new lib.Tensor('float32', Float32Array.from({length: n[0] * 6 * n[1]}, (_, i) => Math.sin(i)), [n[0], 6, n[1]]);
        results.push(plain(await s.run({x})).y);
      } await s.release(); return results;"""
    for got, (batch, length) in zip(
        play(up_model(), {}, body, input_shapes=sizes), [(1, 5), (2, 9), (1, 5)], strict=True
    ):
        x = np.sin(np.arange(batch * 6 * length)).astype(np.float32).reshape(batch, 6, length)
        np.testing.assert_allclose(values(got), on_cpu(up_model(), {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_integers_and_booleans(play):
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["rows"]),
        helper.make_node("Greater", ["rows", "zero"], ["mask"]),
        helper.make_node("Where", ["mask", "rows", "zero"], ["y"]),
        helper.make_node("Add", ["i", "one"], ["j"]),
    ]
    constants = {"table": normal((9, 4)), "zero": np.float32([0]), "one": np.int64([1])}
    model = model_of(nodes, {"i": (3,)}, ["y"], constants, dtype=7, output_dtype=1)
    model.graph.output.append(helper.make_tensor_value_info("j", 7, None))
    got = play(model, {"i": np.int64([4, 0, 8])})
    np.testing.assert_allclose(values(got["y"]), np.maximum(constants["table"][[4, 0, 8]], 0))
    assert got["j"] == {"type": "int64", "dims": [3], "data": [5, 1, 9]}


def test_outputs_that_stay_on_the_gpu_feed_the_next_run(play):
    model = model_of([helper.make_node("Mul", ["x", "k"], ["y"])], {"x": (5,)}, ["y"], {"k": np.float32([3])})
    body = """const s = await lib.InferenceSession.create(url, {preferredOutputLocation: 'gpu-buffer'});
      const first = (await s.run(inputs(feeds))).y; const second = (await s.run({x: first})).y;
      const data = Array.from(await second.getData()); const where = [first.location, second.location];
      first.dispose(); second.dispose(); await s.release(); return {data, where};"""
    x = normal((5,))
    got = play(model, {"x": x}, body)
    assert got["where"] == ["gpu-buffer", "gpu-buffer"]
    np.testing.assert_allclose(got["data"], 9 * x, rtol=1e-6)


def test_overlapping_runs_and_progress(play):
    body = """const seen = []; const s = await lib.InferenceSession.create(url, {onProgress: (a, b) => seen.push([a, b])});
      const x = inputs(feeds); const all = await Promise.all([s.run(x), s.run(x), s.run(x)]);
      const times = await s.profile(x); await s.release();
      return {same: all.every((o) => String(o.y.data) === String(all[0].y.data)), seen, kernels: times.length, flops: times[0].flops};"""
    x = normal((1, 64, 20))
    got = play(one_node("ConvTranspose", x.shape, normal((64, 8, 16), 1), strides=[8]), {"x": x}, body)
    assert got["same"] and got["kernels"] >= 1 and got["flops"] > 0
    assert got["seen"][-1][0] == got["seen"][-1][1] > 0


BAD = {
    "a model instead of a bundle": ("return await lib.InferenceSession.create('/x/model.onnx')", "BundleError", "headrace web model.onnx"),
    "no bundle": ("return await lib.InferenceSession.create('/nowhere/')", "BundleError", "404"),
    "bytes": ("return await lib.InferenceSession.create(new Uint8Array(8))", "BundleError", "URL of a folder"),
    "missing input": (ONCE.replace("inputs(feeds)", "{}"), "InputError", '"x" is missing'),
    "unknown input": (ONCE.replace("inputs(feeds)", "{...inputs(feeds), z: inputs(feeds).x}"), "InputError", '"z"'),
    "wrong type": (ONCE.replace("inputs(feeds)", "{x: new lib.Tensor('int32', [1], [1])}"), "InputError", "must be float"),
    "wrong size": (ONCE.replace("inputs(feeds)", "{x: new lib.Tensor('float32', [1], [1, 1, 1])}"), "InputError", "no plan for"),
    "data that does not fill": ("return new lib.Tensor('float32', [1, 2], [3])", "InputError", "do not fill"),
    "unknown output": (ONCE.replace("inputs(feeds)", "inputs(feeds), ['q']"), "InputError", '"q"'),
    "no feeds": (ONCE.replace("inputs(feeds)", ""), "InputError", "feeds are tensors"),
    "null feeds": (ONCE.replace("inputs(feeds)", "null"), "InputError", "feeds are tensors"),
    "a feed that is no tensor": (ONCE.replace("inputs(feeds)", "{x: [1, 2]}"), "InputError", "must be float"),
    "a feed without dims": (ONCE.replace("inputs(feeds)", "{x: {type: 'float32'}}"), "InputError", "must be integers"),
    "a feed without data": (ONCE.replace("inputs(feeds)", "{x: {type: 'float32', dims: [1, 6, 5]}}"), "InputError", "not 30"),
    "a feed with too little data": (ONCE.replace("inputs(feeds)", "{x: {...inputs(feeds).x, data: new Float32Array(29)}}"), "InputError", "29 elements, not 30"),
    "null fetches": (ONCE.replace("inputs(feeds)", "inputs(feeds), null"), "InputError", "not null; the model has: y"),
    "fetches as text": (ONCE.replace("inputs(feeds)", "inputs(feeds), 'y'"), "InputError", "not y; the model has: y"),
    "sizes that are no integers": (ONCE.replace("inputs(feeds)", "{x: {...inputs(feeds).x, dims: [1, 2.5, 12]}}"), "InputError", "must be integers"),
    "a disposed tensor": (ONCE.replace("inputs(feeds)", "(() => { const f = inputs(feeds); f.x.dispose(); return f; })()"), "InputError", "disposed"),
    "after release": ("const s = await lib.InferenceSession.create(url); await s.release(); await s.run(inputs(feeds))", "HeadraceError", "released"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors(play, name):
    body, kind, text = BAD[name]
    got = play(up_model((1, 6, 5)), {"x": normal((1, 6, 5))}, body)
    assert got.get("error") == kind and got["isHeadrace"] and text in got["message"], got


def test_the_sizes_that_there_are_come_once_each(play):
    body = ONCE.replace("inputs(feeds)", "{x: new lib.Tensor('float32', [1], [1, 1, 1])}")
    got = play(up_model(), {}, body, input_shapes=[{"x": (1, 6, 5)}, {"x": (2, 6, 9)}])
    assert got["message"].count("[1,6,5]") == got["message"].count("[2,6,9]") == 1


@pytest.mark.parametrize("location", ["cpu", "gpu-buffer"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (0, 3), ()])
def test_an_output_that_is_an_input(play, location, shape):
    """It gives back what it was fed, in memory of its own; the second run is fed what the first one gave."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["x", "y"])
    model.graph.output[0].CopyFrom(model.graph.input[0])
    body = """const s = await lib.InferenceSession.create(url, options), {x} = inputs(feeds);
      const first = await s.run({x}), second = await s.run({x: first.y}, ['x']);
      const got = await Promise.all([first.x, first.y, second.x].map(async (t) => Array.from(await t.getData())));
      const own = first.x.data !== x.data, dims = [first.x.dims, second.x.dims]; await s.release(); return {got, own, dims};"""
    x = normal(shape)
    got = play(model, {"x": x}, body, {"preferredOutputLocation": location})
    assert got.get("dims") == [list(shape)] * 2 and got["own"], got
    for data, want in zip(got["got"], (x, np.maximum(x, 0), np.maximum(x, 0)), strict=True):
        np.testing.assert_array_equal(np.array(data, np.float32), want.ravel())


def test_the_session_runs_on_after_a_failure_of_either_kind(play):
    body = """const s = await lib.InferenceSession.create(url), failed = [];
      for (const way of ['profile', 'run', 'profile']) { try { await s[way]({}); } catch (e) { failed.push(e.name); } }
      const both = await Promise.allSettled([s.profile({}), s.run(inputs(feeds)), s.profile(inputs(feeds))]);
      await s.release(); return {failed, both: both.map((b) => b.status), y: plain(both[1].value).y};"""
    x = normal((1, 6, 5))
    got = play(up_model((1, 6, 5)), {"x": x}, body)
    assert got["failed"] == ["InputError"] * 3 and got["both"] == ["rejected", "fulfilled", "fulfilled"]
    np.testing.assert_allclose(values(got["y"]), on_cpu(up_model(), {"x": x})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cache", [True, False])
def test_new_weights_in_the_same_folder(play, site, page, cache):
    """Of the same size, from a server that says neither ETag nor a time: neither cache gives the old ones. The next load
    takes them from the Cache API, in which the old ones are not any more."""
    from .chromium import Handler

    x, seen = normal((1, 64, 20)), []
    body = """const s = await lib.InferenceSession.create(url, options); const o = await s.run(inputs(feeds)); await s.release();
      const kept = await (await caches.open('headrace')).keys(); return {o: plain(o), kept: kept.map((r) => r.url)};"""
    page.on("request", lambda r: seen.append(r.method) if "weights-" in r.url else None)
    original = Handler.send_header
    Handler.send_header = lambda self, name, value: name == "Last-Modified" or original(self, name, value)
    try:
        for seed in (1, 2, 2, 1):
            model = one_node("ConvTranspose", x.shape, normal((64, 8, 16), seed), strides=[8])
            got = play(model, {"x": x}, body, {"cache": cache})
            want = on_cpu(model, {"x": x})[0]
            np.testing.assert_allclose(values(got["o"]["y"]), want, rtol=1e-4, atol=1e-4)
    finally:
        Handler.send_header = original
    mine = [url for url in got["kept"] if "new_weights" in url and f"-{cache}/" in url]
    assert len(mine) == cache and seen == ["GET"] * (3 if cache else 4), (mine, seen)


def test_a_lost_device(play):
    body = """const adapter = await navigator.gpu.requestAdapter(); const device = await adapter.requestDevice();
      const s = await lib.InferenceSession.create(url, {device}); await s.run(inputs(feeds)); device.destroy(); await device.lost;
      let name = ''; try { await s.run(inputs(feeds)); } catch (e) { name = e.name; }
      const again = await lib.InferenceSession.create(url); const o = await again.run(inputs(feeds)); await again.release();
      return {name, size: o.y.size};"""
    got = play(up_model((1, 6, 5)), {"x": normal((1, 6, 5))}, body)
    assert got == {"name": "DeviceLostError", "size": 4 * 16}


def test_in_a_worker_under_a_strict_policy(browser, tmp_path):
    """No eval, no inline script, no other origin; the session lives in a worker."""
    x = normal((1, 6, 5))
    headrace.export_web(up_model(), tmp_path, input_shapes={"x": x.shape})
    (tmp_path / "worker.js").write_text(
        "import { InferenceSession, Tensor } from './headrace.js';\n"
        "onmessage = async ({ data }) => {\n"
        "  try {\n"
        "    const s = await InferenceSession.create(new URL('./', import.meta.url));\n"
        "    const o = await s.run({ x: new Tensor('float32', data, [1, 6, 5]) });\n"
        "    postMessage(Array.from(o.y.data));\n"
        "  } catch (e) { postMessage(String(e)); }\n"
        "};\n"
    )
    (tmp_path / "page.html").write_text("<!doctype html><title>worker</title><script type=module src=page.js></script>")
    (tmp_path / "page.js").write_text(
        "const w = new Worker('worker.js', { type: 'module' }); window.ask = (d) => new Promise((r) => {\n"
        "  w.onmessage = (e) => r(e.data); w.postMessage(d); });\n"
    )
    server = server_for(tmp_path)
    policy = "default-src 'self'; script-src 'self'; worker-src 'self'; connect-src 'self'"
    handler = server.RequestHandlerClass.func
    original = handler.end_headers
    try:
        handler.end_headers = lambda self: (self.send_header("Content-Security-Policy", policy), original(self))[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/page.html")
        page.wait_for_function("window.ask !== undefined")
        got = page.evaluate("(d) => ask(Float32Array.from(d))", x.ravel().tolist())
        page.close()
    finally:
        handler.end_headers = original
        server.shutdown()
        server.server_close()
    want = on_cpu(up_model(), {"x": x})[0]
    np.testing.assert_allclose(np.array(got, np.float32), want.ravel(), rtol=1e-5, atol=1e-5)


def test_the_page_beside_a_bundle(page, tmp_path):
    """`headrace web --serve`, and a click on the button."""
    path = tmp_path / "up.onnx"
    onnx.save(up_model(), path)
    command = [sys.executable, "-m", "headrace", "web", path, "-o", tmp_path / "site", "--shape", "x=1,6,50", "--serve"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        try:
            url = next(line.split()[0] for line in process.stdout if line.startswith("http"))
            page.goto(url)
            page.wait_for_function("!document.getElementById('run').disabled")
            page.click("#run")
            page.wait_for_selector("#time:not(:empty)")
            assert page.inner_text("#time").endswith(" ms")
            assert "1 × 4 × 151" in page.inner_text("#result")
            page.screenshot(path=tmp_path / "page.png")
        finally:
            process.kill()


def test_weights_are_only_in_their_files(tmp_path):
    headrace.export_web(one_node("ConvTranspose", (1, 64, 20), normal((64, 8, 16), 1), strides=[8]), tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (tmp_path / "plan.json").stat().st_size < 30_000
    assert sum(f.stat().st_size for f in tmp_path.glob("weights*.bin")) == plan["weights"]["bytes"] >= 64 * 8 * 16 * 4


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(headrace.InputError, match="cannot have the shape"):
        headrace.export_web(up_model(), tmp_path, input_shapes={"x": (1, 7, 5)})
    with pytest.raises(headrace.HeadraceError, match="'x' decide shapes"):
        headrace.export_web(
            model_of([helper.make_node("NonZero", ["x"], ["y"])], {"x": (4,)}, ["y"], output_dtype=7), tmp_path
        )
