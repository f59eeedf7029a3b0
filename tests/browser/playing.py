"""Exports a model, plays it in Chromium and hands back what came out."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import headrace

RUN = """async ({url, feeds, options, body}) => {
  const lib = await import('/headrace.js');
  const types = {float32: Float32Array, int64: BigInt64Array};
  const tensor = (f) => new lib.Tensor(f.type, types[f.type].from(f.data, f.type === 'int64' ? BigInt : Number), f.dims);
  const inputs = (list) => Object.fromEntries(Object.entries(list).map(([k, f]) => [k, tensor(f)]));
  const plain = (outputs) => Object.fromEntries(Object.entries(outputs).map(([k, t]) =>
    [k, {type: t.type, dims: t.dims, data: Array.from(t.data, Number)}]));
  try {
    return await (new Function('lib', 'url', 'feeds', 'options', 'inputs', 'plain', `return (async () => {${body}})()`))(
      lib, url, feeds, options, inputs, plain);
  } catch (e) { return {error: e.name, message: e.message, isHeadrace: e instanceof lib.HeadraceError}; }
}"""
ONCE = "const s = await lib.InferenceSession.create(url, options); const o = await s.run(inputs(feeds)); await s.release(); return plain(o);"


def feed(array):
    return {"type": str(array.dtype), "data": array.ravel().tolist(), "dims": list(array.shape)}


@pytest.fixture
def play(page, site, request):
    root, base = site
    name = request.node.name.replace("[", "-").replace("]", "")

    def call(model, feeds, body=ONCE, options=None, **export):
        folder = root / name
        shutil.rmtree(folder, ignore_errors=True)
        headrace.export_web(model, folder, **export)
        packed = {k: feed(v) for k, v in feeds.items()}
        return page.evaluate(RUN, {"url": f"{base}/{name}/", "feeds": packed, "options": options or {}, "body": body})

    return call


def values(output):
    return np.array(output["data"], np.float32).reshape(output["dims"])
