// Sessions on a WebGPU device in node (Dawn). HEADRACE_BUNDLES names the folder that bundles.py wrote.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { create, globals } from 'webgpu';

import { BundleError, DeviceLostError, InferenceSession, InputError, Tensor, UnsupportedError } from 'headrace-web';

const folder = process.env.HEADRACE_BUNDLES;
let server, base, gpu, device;

before(async () => {
  assert.ok(folder, 'set HEADRACE_BUNDLES to the folder that bundles.py wrote');
  server = createServer((request, response) => {
    try {
      response.end(readFileSync(`${folder}${new URL(request.url, 'http://x').pathname}`));
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
  base = `http://127.0.0.1:${server.address().port}`;
  Object.assign(globalThis, globals);
  gpu = create([]);
  Object.defineProperty(globalThis, 'navigator', { value: { gpu }, configurable: true });
  const adapter = await gpu.requestAdapter();
  assert.ok(adapter, 'no WebGPU adapter: Dawn needs a Vulkan, Metal or DX12 driver');
  device = await adapter.requestDevice();
});

after(() => { device?.destroy(); server?.close(); });

const cases = () => JSON.parse(readFileSync(`${folder}/cases.json`, 'utf8'));
const tensor = ({ x, shape }) => new Tensor('float32', Float32Array.from(x), shape);

function close(got, want) {
  assert.deepEqual(got.dims, want.dims);
  const worst = want.y.reduce((a, v, i) => Math.max(a, Math.abs(v - got.data[i])), 0);
  assert.ok(worst < 1e-5, `off by ${worst}`);
}

test('one bundle gives the right values at every size', async () => {
  const seen = [], session = await InferenceSession.create(`${base}/network`, { device, onProgress: (...p) => seen.push(p) });
  assert.deepEqual([session.inputNames, session.outputNames], [['x'], ['y']]);
  for (const c of [...cases(), ...cases()]) close((await session.run({ x: tensor(c) })).y, c);
  for (const [done, total] of seen) assert.ok(done <= total);
  await session.release();
  await session.release();
  await assert.rejects(session.run({ x: tensor(cases()[0]) }), /released/);
});

test('runs that overlap do not disturb each other', async () => {
  const session = await InferenceSession.create(`${base}/network/`, { device }), all = cases();
  const results = await Promise.all(all.map((c) => session.run({ x: tensor(c) })));
  results.forEach(({ y }, i) => close(y, all[i]));
  await session.release();
});

test('outputs that stay on the device feed the next run', async () => {
  const session = await InferenceSession.create(`${base}/network`, { device, preferredOutputLocation: 'gpu-buffer' });
  const [c] = cases(), { y } = await session.run({ x: tensor(c) });
  assert.equal(y.location, 'gpu-buffer');
  close({ dims: y.dims, data: await y.getData() }, c);
  y.dispose();
  assert.equal(y.location, 'none');
  await session.release();
});

test('wrong feeds are told, and the session runs on', async () => {
  const session = await InferenceSession.create(`${base}/network`, { device }), [c] = cases();
  const wrong = [
    {}, { x: tensor(c), z: tensor(c) }, { x: new Tensor('int32', new Int32Array(960), [1, 3, 16, 20]) },
    { x: new Tensor('float32', new Float32Array(960), [3, 16, 20]) }, { x: new Tensor('float32', new Float32Array(0), [1, 3, 0, 20]) },
    { x: new Tensor('float32', new Float32Array(640), [1, 2, 16, 20]) },
  ];
  for (const feeds of wrong) {
    await assert.rejects(session.run(feeds), InputError);
    await assert.rejects(session.profile(feeds), InputError);
  }
  await assert.rejects(session.run({ x: tensor(c) }, ['nothing']), InputError);
  close((await session.run({ x: tensor(c) }, ['y'])).y, c);
  await session.release();
});

test('a profile names every kernel and the nodes it came from', async () => {
  const session = await InferenceSession.create(`${base}/network`, { device }), [c] = cases();
  const times = await session.profile({ x: tensor(c) });
  assert.ok(times.length > 0 && times.every((t) => t.kernel && t.nodes.length && t.bytes > 0));
  assert.ok(times.some((t) => t.nodes.some((n) => n.includes('Conv'))));
  close((await session.run({ x: tensor(c) })).y, c);
  await session.release();
});

test('a bundle that is not there, and a machine without WebGPU', async () => {
  await assert.rejects(InferenceSession.create(`${base}/nothing`, { device }), BundleError);
  const { navigator } = globalThis;
  for (const without of [{}, { gpu: { requestAdapter: async () => null } }]) {
    Object.defineProperty(globalThis, 'navigator', { value: without, configurable: true });
    await assert.rejects(InferenceSession.create(`${base}/network`), UnsupportedError);
  }
  Object.defineProperty(globalThis, 'navigator', { value: navigator, configurable: true });
});

test('a lost device is said, and a new session works', async () => {
  const session = await InferenceSession.create(`${base}/network`), [c] = cases();
  close((await session.run({ x: tensor(c) })).y, c);
  const own = await (await gpu.requestAdapter()).requestDevice();
  const other = await InferenceSession.create(`${base}/network`, { device: own });
  own.destroy();
  await own.lost;
  await assert.rejects(other.run({ x: tensor(c) }), DeviceLostError);
  close((await session.run({ x: tensor(c) })).y, c);
  await session.release();
});
