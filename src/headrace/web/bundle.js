// What a page fetches and asks for: the plan, the weights, and a device that has the limits they need.
import { BundleError, UnsupportedError } from './tensor.js';

/** The content of `plan.json`. */
export async function fetchBundle(base) {
  const bundle = await (await fetchOk(new URL('plan.json', base), { cache: 'no-cache' })).json();
  if (bundle.format !== 2) throw new BundleError(`${base} has format ${bundle.format}; this player reads format 2`);
  bundle.plans.forEach((plan, i) => { bundle.plans[i] = { ...bundle.plans[i - 1], ...plan }; });  // each has what changed
  return bundle;
}

/** Does the adapter run on the CPU? It then wants other kernels than a GPU does. */
export function isSoftware(info) {
  const text = `${info?.architecture} ${info?.vendor} ${info?.device} ${info?.description}`.toLowerCase();
  return Boolean(info?.isFallbackAdapter) || /swiftshader|llvmpipe|lavapipe|basic render/.test(text);
}

/** A device for the plans: with the largest buffers that the adapter has, where sizes are not known beforehand. */
export async function openDevice(bundle) {
  if (!globalThis.navigator?.gpu) throw new UnsupportedError('this browser has no WebGPU, or the page is not served over https');
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) throw new UnsupportedError('no WebGPU adapter on this machine');
  const required = new Set(bundle.kernels.flatMap((k) => k.requires));
  for (const feature of required) {
    if (!adapter.features.has(feature)) throw new UnsupportedError(`the adapter lacks ${feature}`, feature);
  }
  const optional = ['timestamp-query'].filter((f) => adapter.features.has(f));
  return adapter.requestDevice({ requiredFeatures: [...required, ...optional], requiredLimits: limitsFor(bundle, adapter.limits) });
}

function limitsFor(bundle, { maxBufferSize, maxStorageBufferBindingSize }) {
  if (bundle.sizes) return { maxBufferSize, maxStorageBufferBindingSize };
  const slots = bundle.plans.flatMap((p) => p.slots);
  const largest = slots.reduce((a, s) => (s.size > a.size ? s : a), { size: 0, tensor: '' });
  if (largest.size > maxBufferSize) {
    const text = `tensor ${largest.tensor} has ${largest.size} bytes, the adapter allows ${maxBufferSize}`;
    throw new UnsupportedError(text, 'maxBufferSize', largest.tensor);
  }
  return largest.size > 268435456 ? { maxBufferSize: largest.size } : {};
}

async function fetchOk(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    throw new BundleError(`cannot fetch ${url}: ${error.message}`);
  }
  if (!response.ok) throw new BundleError(`cannot fetch ${url}: ${response.status} ${response.statusText}`);
  return response;
}

/** The body of `url` in pieces whose lengths are multiples of four; from the Cache API where it has been fetched before: its
 * query is a hash of the content, so that what is kept is what is wanted, or is under another name and goes. */
export async function* chunks(url, cached) {
  const store = cached && globalThis.caches ? await caches.open('headrace').catch(() => null) : null;
  let response = await store?.match(url);
  if (!response) {
    response = await fetchOk(url);
    if (store) keep(store, url, response.clone());
  }
  let rest = new Uint8Array(0);
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    const joined = rest.length ? new Uint8Array([...rest, ...value.subarray(0, 4 - rest.length)]) : null;
    let start = 0;
    if (joined) {
      start = joined.length - rest.length;
      if (joined.length < 4) { rest = joined; continue; }
      yield joined;
    }
    const end = start + Math.floor((value.length - start) / 4) * 4;
    if (end > start) yield value.subarray(start, end);
    rest = value.slice(end);
  }
}

async function keep(store, url, response) {
  await store.delete(url, { ignoreSearch: true }).catch(() => {});
  await store.put(url, response).catch(() => {});
}
