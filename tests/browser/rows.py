"""Node cases of the ONNX project as bundles, to be played in a page."""

from __future__ import annotations

import base64
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from headrace.feeds import node_arg
from headrace.model import load
from headrace.plan import Spec, host_inputs, prepare_graph
from headrace.target import DEFAULT
from headrace.web.bundle import bundled, lower_fully

JS = """async (rows) => {
  const { InferenceSession, Tensor } = await import('/headrace.js');
  const adapter = await navigator.gpu.requestAdapter();
  const device = globalThis.shared ??= await adapter.requestDevice();
  const bytes = (s) => Uint8Array.from(atob(s), (c) => c.charCodeAt(0)).buffer;
  const kinds = { float32: Float32Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
    int32: Int32Array, int64: BigInt64Array, bool: Uint8Array, float16: Uint16Array, float64: Float64Array,
    uint32: Uint32Array, uint64: BigUint64Array };
  const results = [];
  for (const row of rows) {
    device.pushErrorScope('validation');
    let result;
    try {
      const session = await InferenceSession.create(row.url, { device, cache: false });
      const feeds = {};
      for (const [name, f] of Object.entries(row.feeds)) feeds[name] = new Tensor(f.type, new kinds[f.type](bytes(f.data)), f.dims);
      const outputs = await session.run(feeds);
      result = { outputs: session.outputNames.map((n) => {
        const u = new Uint8Array(outputs[n].data.buffer, outputs[n].data.byteOffset, outputs[n].data.byteLength);
        let s = '';
        for (let i = 0; i < u.length; i += 32768) s += String.fromCharCode(...u.subarray(i, i + 32768));
        return { type: outputs[n].type, dims: outputs[n].dims, data: btoa(s) };
      }) };
      await session.release();
    } catch (error) { result = { error: `${error.name}: ${error.message}` }; }
    const scope = await device.popErrorScope();
    if (scope) result = { error: scope.message };
    results.push(result);
  }
  return results;
}"""
NAMES = {"float": "float32", "double": "float64"}


def write(case: Any, folder: Path, url: str) -> dict[str, Any] | None:
    """The bundle of a case in `folder`, and what the page needs to play it; None where no kernel is in its plan."""
    model = load(case.model.SerializeToString())
    inputs, _ = case.data_sets[0]
    arrays = {v.name: np.asarray(a) for v, a in zip(case.model.graph.input, inputs, strict=False) if v.name}
    graph = prepare_graph(model)
    needed = host_inputs(graph)
    specs: dict[str, Any] = {}
    for value in model.graph.inputs:
        array = arrays[str(value.name)]
        specs[str(value.name)] = array if value.name in needed else Spec(array.shape, value.dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        plan = lower_fully(graph, specs, DEFAULT, {})
    if not plan.dispatches:
        return None
    bundle, weights = bundled(model, [plan])
    bundle["inputs"] = [v for v in bundle["inputs"] if v["name"] not in needed]
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(bundle))
    whole = b"".join(np.ascontiguousarray(w).tobytes() + bytes(-w.nbytes % 4) for w in weights.values())
    (folder / "weights-0.bin").write_bytes(whole)
    args = {str(v.name): node_arg(v) for v in model.graph.inputs if v.name not in needed}
    return {"url": url, "feeds": {n: _feed(arrays[n], a.type) for n, a in args.items()}}


def _feed(array: np.ndarray, kind: str) -> dict[str, Any]:
    name = kind.removeprefix("tensor(").removesuffix(")")
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"type": NAMES.get(name, name), "data": data, "dims": list(array.shape)}


def arrays_of(result: dict[str, Any]) -> list[np.ndarray]:
    return [
        np.frombuffer(base64.b64decode(o["data"]), np.dtype(o["type"])).reshape(o["dims"]) for o in result["outputs"]
    ]
