// onnxruntime-web on the same inputs, where the page is asked for it (?beside): beside/ holds its files, model.onnx the
// model, as `headrace web --serve --beside FOLDER` serves them.

/** A peer for each of its ways to run the model; none where it is not asked for. */
export async function peers() {
  if (!new URLSearchParams(location.search).has('beside')) return [];
  const ort = await import('./beside/ort.webgpu.min.mjs');
  ort.env.wasm.wasmPaths = new URL('beside/', location.href).href;
  return ['webgpu', 'wasm'].map((provider) => ({
    name: `onnxruntime-web, ${provider === 'webgpu' ? 'WebGPU' : 'wasm'}`,
    time: (feeds, timed) => time(ort, provider, feeds, timed),
  }));
}

async function time(ort, provider, feeds, timed) {
  try {
    const session = await ort.InferenceSession.create('model.onnx', { executionProviders: [provider] });
    const given = Object.fromEntries(Object.entries(feeds).map(([n, t]) => [n, new ort.Tensor(t.type, t.data, t.dims)]));
    const { ms } = await timed(() => session.run(given));
    await session.release();
    return { ms };
  } catch (error) {
    return { note: `cannot run it: ${error.message.slice(0, 80)}` };
  }
}
