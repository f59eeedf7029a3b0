"""The demo page as `headrace web --serve` serves it: what it makes of a detector, of an inverse STFT, of any model."""

from __future__ import annotations

import json
import threading
from urllib.request import urlopen

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.bench.cases import inverse_stft_weight
from headrace.errors import HeadraceError
from headrace.web import export_web
from headrace.web.serve import server_for
from tests.models import model_of

pytestmark = pytest.mark.browser


@pytest.fixture
def demo(browser, tmp_path):
    """A function that exports a model, serves it, runs the page once and gives the page and its complaints."""
    ends = []

    def open_demo(model, query="", others=None):
        export_web(model.SerializeToString(), tmp_path / "site")
        server = server_for(tmp_path / "site", 0, others or {})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page, complaints = browser.new_page(), []
        ends.extend([page.close, server.shutdown, server.server_close])
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.goto(f"http://127.0.0.1:{server.server_port}/{query}")
        page.wait_for_selector("#run:not([disabled]), #status.error")
        page.click("#run")
        page.wait_for_selector("body[data-done], #status.error")
        assert page.locator("#status.error").count() == 0, page.inner_text("#status")
        return page, complaints

    yield open_demo
    for end in ends:
        end()


def brightness_detector():
    """A map [1, 1, h, w] that is near 1 where the image is dark, by a transposed convolution over an averaged image."""
    pool = np.full((1, 3, 2, 2), 1 / 12, np.float32)
    spread = np.ones((1, 1, 2, 2), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "pool"], ["mean"], name="average", strides=[2, 2]),
        helper.make_node("ConvTranspose", ["mean", "spread"], ["wide"], name="spread", strides=[2, 2]),
        helper.make_node("Mul", ["wide", "steep"], ["s"], name="steep"),
        helper.make_node("Sigmoid", ["s"], ["y"], name="sigmoid"),
    ]
    constants = {"pool": pool, "spread": spread, "steep": np.float32(-20)}
    model = model_of(nodes, {"x": [1, 3, "h", "w"]}, ["y"], constants)
    for dim, size in zip(("", "", "h", "w"), (1, 1, None, None), strict=True):
        added = model.graph.output[0].type.tensor_type.shape.dim.add()
        if size is None:
            added.dim_param = dim
        else:
            added.dim_value = size
    return model


def test_text_detection_draws_boxes(demo):
    page, complaints = demo(brightness_detector())
    assert page.inner_text("h1") == "Text detection on WebGPU"
    boxes = json.loads(page.locator("[data-boxes]").get_attribute("data-boxes"))
    assert boxes and all(b["left"] < b["right"] and b["top"] < b["bottom"] and b["score"] > 0.5 for b in boxes)
    head = max(boxes, key=lambda b: b["right"] - b["left"])  # the dark band at the top of the sample image
    assert head["top"] == 0 and head["right"] - head["left"] > 300 and 40 <= head["bottom"] <= 70
    red = page.evaluate(
        """() => { const c = document.querySelector('#result canvas'), d = c.getContext('2d').getImageData(0, 0, c.width,
        c.height).data; let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] > 200 && d[i + 1] < 80; return n; }"""
    )
    assert red > 200 and not complaints


def test_text_detection_runs_again_at_another_size(demo):
    page, complaints = demo(brightness_detector())
    before = page.locator("#result canvas").evaluate("c => c.width")
    page.locator("select").first.select_option("640")
    page.wait_for_selector('body[data-done="2"]')
    assert page.locator("#result canvas").evaluate("c => c.width") == 2 * before and not complaints


def test_the_inverse_stft_sounds_as_it_should(demo):
    n, hop, frames = 256, 64, 300
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="istft", strides=[hop])
    page, complaints = demo(model_of([node], {"x": [2, n + 2, frames]}, ["y"], {"w": inverse_stft_weight(n)}))
    assert page.inner_text("h1") == "Inverse STFT on WebGPU"
    data = bytes(
        page.evaluate(
            "async () => [...new Uint8Array(await (await fetch(document.querySelector('a').href)).arrayBuffer())]"
        )
    )
    assert data[:4] == b"RIFF" and data[8:16] == b"WAVEfmt "
    rate = int.from_bytes(data[24:28], "little")
    sound = np.frombuffer(data[44:], "<i2").astype(np.float64)
    assert len(sound) == (frames - 1) * hop + n
    for part, note in enumerate((261.63, 329.63, 392.0, 523.25)):
        length = len(sound) // 5
        piece = sound[part * length + 2 * n : (part + 1) * length - 2 * n]
        loudest = np.argmax(np.abs(np.fft.rfft(piece * np.hanning(len(piece))))) * rate / len(piece)
        assert abs(loudest - round(note * n / rate) * rate / n) < rate / len(piece) * 1.5
    page.get_by_role("button", name="Play").click()
    assert not complaints


def test_any_other_model_gets_random_inputs_and_a_table(demo):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    weight = np.random.default_rng(0).standard_normal((8, 3), dtype=np.float32)
    page, complaints = demo(model_of(nodes, {"x": [4, 8]}, ["y"], {"w": weight}))
    assert page.inner_text("h1") == "A model on WebGPU" and "4 × 3" in page.inner_text("#result")
    assert page.inner_text("#time").endswith(" ms") and not complaints


def test_the_other_runtime_is_timed_on_the_same_inputs(demo, tmp_path):
    """A stand-in for onnxruntime-web with its interface: what the page asks of it is what that runtime offers."""
    (tmp_path / "ort.webgpu.min.mjs").write_text(
        """export const env = { wasm: {} }; export class Tensor { constructor(type, data, dims) {
        Object.assign(this, { type, data, dims }); } }
        export const InferenceSession = { create: async (url, { executionProviders: [provider] }) => {
          const model = await fetch(url); if (!model.ok) throw new Error('no model');
          if (provider === 'wasm') throw new Error('no wasm here');
          return { run: async (feeds) => { if (!(feeds.x instanceof Tensor)) throw new Error('no tensor'); return {}; },
            release: async () => {} }; } };"""
    )
    (tmp_path / "model.onnx").write_bytes(b"a model")
    others = {"/beside": tmp_path, "/model.onnx": tmp_path / "model.onnx"}
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="rectifier")]
    page, complaints = demo(model_of(nodes, {"x": [4, 8]}, ["y"]), "?beside", others)
    times = page.inner_text("#times")
    assert "onnxruntime-web, WebGPU" in times and "cannot run it: no wasm here" in times and not complaints


def pooled(shape):
    """A model that takes the mean of each channel of an image, and the mean of these: a classifier's end, as a map."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("ReduceMean", ["p", "axes"], ["m"], keepdims=1),
        helper.make_node("Sigmoid", ["m"], ["y"]),
    ]
    return model_of(nodes, {"x": shape}, ["y"], {"axes": np.int64([1])})


def from_nodes(shape, *nodes, constants=None, output_dtype=1):
    made = [helper.make_node(op, inputs.split(), [output], **attributes) for op, inputs, output, attributes in nodes]
    return model_of(made, {"x": shape}, ["y"], constants or {}, output_dtype=output_dtype)


ONE = {"k": np.float32([0]), "axes": np.int64([1, 2])}
PLAIN_MODELS = {
    "classes of pixels": (from_nodes([1, 3, 64, 64], ("ArgMax", "x", "y", {"axis": 1}), output_dtype=7), "1 × 1 × 64 × 64"),
    "classes of images, as maps": (pooled(["n", 3, 64, 64]), "× 1 × 1 × 1"),
    "a map that is no probability": (from_nodes([1, 3, 64, 64], ("ReduceMean", "x a", "y", {}), constants={"a": np.int64([1])}), "1 × 1 × 64 × 64"),
    "integers from a sequence": (from_nodes([1, 64, 32], ("ArgMax", "x", "y", {"axis": 1}), output_dtype=7), "1 × 1 × 32"),
    "one number of a sequence": (from_nodes([1, 80, "t"], ("ReduceMean", "x axes", "y", {"keepdims": 0}), constants=ONE), "1"),
    "a sequence of vectors": (from_nodes([1, 64, 32], ("Relu", "x", "y", {})), "1 × 64 × 32"),
    "a mean of a sequence": (from_nodes([2, 64, 32], ("ReduceMean", "x a", "y", {"keepdims": 0}), constants={"a": np.int64([1])}), "2 × 32"),
    "an output of no dimension": (from_nodes([4, 3, 16, 16], ("ReduceMax", "x", "y", {"keepdims": 0})), "float32"),
    "an image of four channels": (from_nodes([1, 4, 16, 16], ("Sigmoid", "x", "y", {})), "1 × 4 × 16 × 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN_MODELS)
def test_what_only_resembles_a_detector_or_a_spectrum_is_a_model(demo, name):
    model, shape = PLAIN_MODELS[name]
    page, complaints = demo(model)
    assert page.inner_text("h1") == "A model on WebGPU" and shape in page.inner_text("#result") and not complaints


def test_a_detector_of_several_images(demo):
    nodes = [("ReduceMean", "x a", "m", {}), ("Mul", "m k", "s", {}), ("Sigmoid", "s", "y", {})]
    model = from_nodes([4, 3, 64, 64], *nodes, constants={"a": np.int64([1]), "k": np.float32(-20)})
    page, complaints = demo(model)
    assert page.inner_text("h1") == "Text detection on WebGPU" and not complaints
    assert json.loads(page.locator("[data-boxes]").get_attribute("data-boxes"))


def test_float16_is_shown_as_numbers(demo):
    """Random inputs are within 1 of 0, and so is the mean of their absolute values plus a constant."""
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Add", ["a", "k"], ["y"])]
    half = TensorProto.FLOAT16
    page, complaints = demo(
        model_of(nodes, {"x": [40, 50]}, ["y"], {"k": np.float16(-3)}, dtype=half, output_dtype=half)
    )
    kind, mean = page.locator("#result td").nth(1).inner_text(), float(page.locator("#result td").nth(3).inner_text())
    assert kind == "float16" and -2.6 < mean < -2.4 and not complaints


def test_an_error_stands_alone_and_can_be_read(demo):
    page, _ = demo(from_nodes([4, 8], ("Relu", "x", "y", {})))
    assert page.inner_text("#time") and page.inner_text("#result")
    page.evaluate(
        "() => { window.submit = GPUQueue.prototype.submit; GPUQueue.prototype.submit = () => { throw Error('gone'); }; }"
    )
    page.click("#run")
    page.wait_for_selector("#status.error")
    assert "gone" in page.inner_text("#status")
    assert [page.inner_text(f"#{part}") for part in ("time", "times", "result")] == [""] * 3
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) >= 4.5, scheme
    page.evaluate("() => { GPUQueue.prototype.submit = window.submit; }")
    page.click("#run")
    page.wait_for_selector("#time:not(:empty)")
    assert page.locator("#status.error").count() == 0 and page.inner_text("#status").startswith("Ready in")


CONTRAST = """() => {
  const part = document.body.appendChild(document.createElement('i'));
  part.style.background = 'Canvas';
  const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((a, v, i) => a + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = light(getComputedStyle(part).backgroundColor), text = light(getComputedStyle(document.getElementById('status')).color);
  return (Math.max(ground, text) + 0.05) / (Math.min(ground, text) + 0.05);
}"""


@pytest.mark.parametrize("path", ["/beside/../secret", "/beside/%2e%2e/secret", "/beside/..%2fsecret", "/../secret"])
def test_the_server_gives_nothing_from_outside_its_folders(tmp_path, path):
    (tmp_path / "secret").write_text("secret")
    for name in ("site", "other"):
        (tmp_path / name).mkdir()
    server = server_for(tmp_path / "site", 0, {"/beside": tmp_path / "other"})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(Exception, match="404"):
            urlopen(f"http://127.0.0.1:{server.server_port}{path}")
    finally:
        server.shutdown()
        server.server_close()


def test_a_folder_without_the_other_runtime_is_refused(tmp_path):
    from headrace.cli.web import _beside

    with pytest.raises(HeadraceError, match="onnxruntime-web"):
        _beside(tmp_path, tmp_path / "model.onnx")
