// The player: replays a plan that `headrace web` wrote, on WebGPU. It knows no ONNX. The interface is onnxruntime-web's.

const UNIFORMS = -1;
const KINDS = { uniform: 'uniform', read: 'read-only-storage', write: 'storage' };
const TYPES = {
  1: 'float32', 2: 'uint8', 3: 'int8', 4: 'uint16', 5: 'int16', 6: 'int32', 7: 'int64', 9: 'bool', 10: 'float16',
  11: 'float64', 12: 'uint32', 13: 'uint64', 16: 'bfloat16',
};
const ARRAYS = {
  float32: Float32Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, bool: Uint8Array, float16: Uint16Array, float64: Float64Array, uint32: Uint32Array,
  uint64: BigUint64Array, bfloat16: Uint16Array,
};
const STORAGE = { f32: Float32Array, i32: Int32Array, u32: Uint32Array, f16: Uint16Array };

/** Base of the errors that this player throws; `name` tells them apart. */
export class HeadraceError extends Error {
  constructor(message) { super(message); this.name = new.target.name; }
}
/** The browser or machine has no WebGPU, or too little of it: `limit` and `tensor` say of what and for what. */
export class UnsupportedError extends HeadraceError {
  constructor(message, limit, tensor) { super(message); this.limit = limit; this.tensor = tensor; }
}
/** The bundle cannot be fetched or read. */
export class BundleError extends HeadraceError {}
/** A feed has the wrong name, type or size. */
export class InputError extends HeadraceError {}
/** The GPU device is gone; create the session again. */
export class DeviceLostError extends HeadraceError {}

const product = (dims) => dims.reduce((a, b) => a * b, 1);
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** A tensor in memory (`location` "cpu", `data` a typed array) or on the GPU (`location` "gpu-buffer", `gpuBuffer`). */
export class Tensor {
  /**
   * @param {string} type as "float32", "int64"
   * @param {ArrayLike<number|bigint|boolean>} data
   * @param {readonly number[]} [dims] default one dimension
   */
  constructor(type, data, dims) {
    const kind = ARRAYS[type];
    if (!kind) throw new InputError(`no tensor type is called "${type}"`);
    this.type = type;
    this.data = data instanceof kind ? data : kind.from(data);
    this.dims = dims ? [...dims] : [this.data.length];
    this.location = 'cpu';
    if (product(this.dims) !== this.data.length) {
      throw new InputError(`${this.data.length} elements do not fill a tensor of [${this.dims}]`);
    }
  }

  /** A tensor that is on the GPU already. */
  static fromGpuBuffer(gpuBuffer, { dataType = 'float32', dims, dispose, storage = 'f32' }) {
    const tensor = Object.create(Tensor.prototype);
    return Object.assign(tensor, { type: dataType, dims: [...dims], gpuBuffer, location: 'gpu-buffer', storage, release: dispose });
  }

  get size() { return product(this.dims); }

  /** The values; read back from the GPU if they are there. */
  async getData() { return this.location === 'cpu' ? this.data : this.download(); }

  /** Free the GPU buffer, if there is one. */
  dispose() {
    if (this.location === 'gpu-buffer') (this.release ?? (() => this.gpuBuffer.destroy()))();
    this.location = 'none';
  }
}

/** A model ready to run. */
export class InferenceSession {
  /**
   * Load the bundle in `url` (a folder that `headrace web` wrote).
   * @param {string|URL} url
   * @param {{onProgress?: (done: number, total: number) => void, device?: GPUDevice, preferredOutputLocation?: string,
   *   cache?: boolean, executionProviders?: unknown}} [options]
   * @returns {Promise<InferenceSession>}
   */
  static async create(url, options = {}) {
    if (typeof url !== 'string' && !(url instanceof URL)) {
      throw new BundleError('create() takes the URL of a folder that `headrace web MODEL.onnx -o FOLDER` wrote');
    }
    const text = String(url);
    if (/\.(onnx|ort)($|\?)/.test(text)) {
      throw new BundleError(`${text} is a model, not a bundle; run first: headrace web ${text.split('/').pop()} -o bundle`);
    }
    const base = new URL(text.endsWith('/') ? text : `${text}/`, globalThis.location?.href);
    const bundle = await (await fetchOk(new URL('plan.json', base))).json();
    if (bundle.format !== 1) throw new BundleError(`${base} has format ${bundle.format}; this player reads format 1`);
    restore(bundle);
    const device = options.device ?? (await openDevice(bundle));
    const session = new InferenceSession(bundle, device, options);
    await Promise.all([session.#compile(), session.#load(base, options)]);
    return session;
  }

  #bundle; #device; #own; #options; #pipelines = []; #constants = new Map(); #prepared = new Map(); #scratch = [];
  #queue = Promise.resolve(); #lost = null; #released = false; #software = false;

  constructor(bundle, device, options) {
    this.#bundle = bundle; this.#device = device; this.#options = options; this.#own = !options.device;
    this.inputNames = bundle.inputs.map((v) => v.name);
    this.outputNames = bundle.outputs.map((v) => v.name);
    this.#software = isSoftware(device.adapterInfo);
    device.lost.then((info) => { this.#lost = info; });
  }

  /** Free everything; a second call does nothing. */
  async release() {
    await this.#queue.catch(() => {});
    if (this.#released) return;
    this.#released = true;
    for (const buffer of [...this.#constants.values(), ...this.#scratch]) buffer.destroy();
    for (const p of this.#prepared.values()) p.buffers.forEach((b) => b?.destroy());
    if (this.#own) this.#device.destroy();
  }

  /**
   * Run once. Calls that overlap run one after the other.
   * @param {Record<string, Tensor>} feeds
   * @param {string[]|Record<string, unknown>} [fetches] names of the wanted outputs; default all
   * @returns {Promise<Record<string, Tensor>>}
   */
  run(feeds, fetches) {
    const result = this.#queue.then(() => this.#run(feeds, fetches));
    this.#queue = result.catch(() => {});
    return result;
  }

  /**
   * Time the kernels of one run with timestamp queries, where the device has them.
   * @returns {Promise<{kernel: string, nodes: string[], ms: number|null, flops: number, bytes: number}[]>}
   */
  async profile(feeds) {
    const times = [];
    await (this.#queue = this.#queue.then(() => this.#run(feeds, undefined, times)));
    return times;
  }

  async #compile() {
    const suited = this.#bundle.plans.filter((p) => (p.software ?? this.#software) === this.#software);
    const used = new Set((suited.length ? suited : this.#bundle.plans).flatMap((p) => p.kernel));
    const compiled = this.#bundle.kernels.map(async (kernel, number) => {
      if (!used.has(number)) return null;
      const enable = kernel.requires.includes('shader-f16') ? 'enable f16;\n' : '';
      const subgroups = kernel.requires.includes('subgroups') ? 'enable subgroups;\n' : '';
      const module = this.#device.createShaderModule({ code: enable + subgroups + kernel.head + this.#bundle.tails[kernel.tail] });
      const entries = kernel.bindings.map((kind, binding) => (
        { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: KINDS[kind] } }));
      const layout = this.#device.createBindGroupLayout({ entries });
      const pipeline = await this.#device.createComputePipelineAsync({
        layout: this.#device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint: kernel.entry },
      });
      return { pipeline, layout };
    });
    this.#pipelines = await Promise.all(compiled);
  }

  async #load(base, { onProgress, cache = true }) {
    const { places, bytes, shard } = this.#bundle.weights;
    const total = Object.values(places).length ? bytes : 0;
    const buffers = Object.entries(places).map(([key, [at, size]]) => {
      const buffer = this.#buffer(Math.ceil(size / 4) * 4);
      this.#constants.set(key, buffer);
      return { at, end: at + buffer.size, buffer };
    });
    let done = 0;
    for (let i = 0; i * shard < total; i++) {
      let at = i * shard;
      for await (const chunk of chunks(new URL(`weights-${i}.bin`, base), cache)) {
        for (const b of buffers) {
          const from = Math.max(b.at, at), to = Math.min(b.end, at + chunk.length);
          if (to > from) this.#device.queue.writeBuffer(b.buffer, from - b.at, chunk, from - at, to - from);
        }
        at += chunk.length; done += chunk.length;
        onProgress?.(done, total);
      }
    }
  }

  #buffer(size, usage = GPUBufferUsage.STORAGE) {
    return this.#device.createBuffer({ size, usage: usage | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  }

  async #run(feeds, fetches, times) {
    if (this.#released) throw new HeadraceError('this session was released');
    if (this.#lost) throw new DeviceLostError(`the GPU device was lost (${this.#lost.reason}): create the session again`);
    const names = fetches === undefined ? this.outputNames : Array.isArray(fetches) ? fetches : Object.keys(fetches);
    for (const n of names) if (!this.outputNames.includes(n)) throw new InputError(`no output is called "${n}"`);
    const prepared = this.#choose(feeds);
    const { plan } = prepared;
    const encoder = this.#device.createCommandEncoder();
    for (const u of plan.uploads) this.#upload(u, feeds[u.name], prepared, encoder);
    const clock = times && this.#device.features.has('timestamp-query') ? this.#clock(prepared.steps.length) : null;
    this.#record(encoder, prepared, clock);
    const kept = this.#options.preferredOutputLocation === 'gpu-buffer' ? this.#keep(plan, prepared, encoder) : null;
    if (!kept) {
      for (const r of plan.readbacks) {
        if (r.size) encoder.copyBufferToBuffer(prepared.buffers[r.slot], r.offset, prepared.staging, r.target, r.size);
      }
    }
    clock?.resolve(encoder);
    this.#device.queue.submit([encoder.finish()]);
    const outputs = kept ?? (await this.#read(plan, prepared));
    if (times) times.push(...(await this.#times(prepared, clock)));
    for (const k of plan.known) outputs[k.name] = new Tensor(TYPES[k.dtype], new ARRAYS[TYPES[k.dtype]](bytesOf(k.data).buffer), k.shape);
    return Object.fromEntries(names.map((n) => [n, outputs[n]]));
  }

  #record(encoder, { steps }, clock) {
    const each = (pass, step) => {
      pass.setPipeline(step.pipeline); pass.setBindGroup(0, step.group); pass.dispatchWorkgroups(...step.groups);
    };
    if (!clock) {
      const pass = encoder.beginComputePass();
      for (const step of steps) each(pass, step);
      pass.end();
      return;
    }
    steps.forEach((step, i) => {
      const timestampWrites = { querySet: clock.set, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 };
      const pass = encoder.beginComputePass({ timestampWrites });
      each(pass, step);
      pass.end();
    });
  }

  #clock(count) {
    const set = this.#device.createQuerySet({ type: 'timestamp', count: Math.max(2 * count, 2) });
    const size = Math.max(16 * count, 16);
    const resolved = this.#device.createBuffer({ size, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    const staging = this.#device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    return { set, staging, resolve: (encoder) => {
      encoder.resolveQuerySet(set, 0, 2 * count, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, staging, 0, size);
    } };
  }

  async #times({ plan, steps }, clock) {
    let stamps = null;
    if (clock) {
      await clock.staging.mapAsync(GPUMapMode.READ);
      stamps = new BigUint64Array(clock.staging.getMappedRange().slice(0));
      clock.staging.destroy(); clock.set.destroy();
    }
    return steps.map((step, i) => {
      const ms = stamps ? Number(stamps[2 * i + 1] - stamps[2 * i]) / 1e6 : null;
      const { name } = this.#bundle.kernels[plan.kernel[i]];
      return { kernel: name, nodes: plan.nodes[i], ms, flops: plan.flops[i], bytes: plan.bytes[i] };
    });
  }

  /** The plan for the sizes of `feeds`, made ready. */
  #choose(feeds) {
    for (const { name, type } of this.#bundle.inputs) {
      const tensor = feeds[name];
      if (!tensor) throw new InputError(`input "${name}" is missing; the model takes: ${this.inputNames.join(', ')}`);
      if (tensor.type !== type.replace(/^float$/, 'float32').replace(/^double$/, 'float64')) {
        throw new InputError(`input "${name}" must be ${type}, not ${tensor.type}`);
      }
    }
    for (const name of Object.keys(feeds)) if (!this.inputNames.includes(name)) throw new InputError(`no input is called "${name}"`);
    const fits = (plan) => plan.uploads.every((u) => String(u.shape) === String(feeds[u.name].dims));
    const suits = (plan) => (plan.software ?? this.#software) === this.#software;  // null: the same for every adapter
    const { plans } = this.#bundle;
    const best = plans.findIndex((plan) => suits(plan) && fits(plan));
    const index = best < 0 ? plans.findIndex(fits) : best;
    if (index < 0) {
      const given = this.inputNames.map((n) => `${n} [${feeds[n].dims}]`).join(', ');
      const known = this.#bundle.plans.map((p) => p.uploads.map((u) => `${u.name} [${u.shape}]`).join(', ')).join('; ');
      throw new InputError(`this bundle has no plan for ${given}; it has: ${known}`);
    }
    if (!this.#prepared.has(index)) this.#prepared.set(index, this.#prepare(this.#bundle.plans[index]));
    return this.#prepared.get(index);
  }

  #prepare(plan) {
    const uniforms = bytesOf(plan.uniforms);
    const uniform = this.#buffer(Math.max(uniforms.length, 16), GPUBufferUsage.UNIFORM);
    this.#device.queue.writeBuffer(uniform, 0, uniforms);
    const constants = new Map(plan.constants.map((c) => [c.slot, c]));
    const order = plan.slots.map((s, i) => [s, i]).filter(([s]) => s.kind === 'scratch').sort((a, b) => b[0].size - a[0].size);
    const scratch = new Map(order.map(([s, i], rank) => [i, this.#scratchBuffer(rank, s.size)]));
    const own = [uniform];
    const buffers = plan.slots.map((s, i) => {
      if (s.kind === 'scratch') return scratch.get(i);
      if (s.kind === 'constant') return this.#constant(constants.get(i), s.size);
      own.push(this.#buffer(s.size));
      return own.at(-1);
    });
    const size = Math.max(plan.staging_bytes, 4);
    const staging = this.#device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const steps = plan.kernel.map((kernel, i) => {
      const entries = plan.bindings[i].map(([slot, offset, length], binding) => (
        { binding, resource: { buffer: slot === UNIFORMS ? uniform : buffers[slot], offset, size: length } }));
      const { pipeline, layout } = this.#pipelines[kernel];
      return { pipeline, groups: plan.groups[i], group: this.#device.createBindGroup({ layout, entries }) };
    });
    return { plan, buffers, staging, steps, own: [...own, staging] };
  }

  #scratchBuffer(rank, size) {
    if (!this.#scratch[rank] || this.#scratch[rank].size < size) {
      this.#scratch[rank] = this.#buffer(size);  // an older plan keeps the smaller one it is bound to
    }
    return this.#scratch[rank];
  }

  #constant({ key, data }, size) {
    if (!this.#constants.has(key)) {
      const buffer = this.#buffer(size);
      const bytes = bytesOf(data), padded = new Uint8Array(size);
      padded.set(bytes);
      this.#device.queue.writeBuffer(buffer, 0, padded);
      this.#constants.set(key, buffer);
    }
    return this.#constants.get(key);
  }

  #upload(upload, tensor, { buffers }, encoder) {
    if (tensor.location === 'gpu-buffer') {
      encoder.copyBufferToBuffer(tensor.gpuBuffer, 0, buffers[upload.slot], upload.offset, upload.size);
      return;
    }
    const stored = toStorage(tensor, upload);
    const whole = new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength);
    if (whole.length % 4 === 0) this.#device.queue.writeBuffer(buffers[upload.slot], upload.offset, whole);
    else {
      const padded = new Uint8Array(Math.ceil(whole.length / 4) * 4);
      padded.set(whole);
      this.#device.queue.writeBuffer(buffers[upload.slot], upload.offset, padded);
    }
  }

  #keep(plan, { buffers }, encoder) {
    return Object.fromEntries(plan.readbacks.map((r) => {
      const kept = this.#buffer(Math.max(r.size, 4));
      if (r.size) encoder.copyBufferToBuffer(buffers[r.slot], r.offset, kept, 0, r.size);
      const tensor = Tensor.fromGpuBuffer(kept, { dataType: TYPES[r.dtype], dims: r.shape, storage: r.storage });
      tensor.download = () => this.#download(kept, r);
      return [r.name, tensor];
    }));
  }

  async #download(buffer, { size, storage, dtype }) {
    const staging = this.#device.createBuffer({ size: Math.max(size, 4), usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = this.#device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
    this.#device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const data = fromStorage(staging.getMappedRange().slice(0), storage, TYPES[dtype]);
    staging.destroy();
    return data;
  }

  async #read(plan, { staging }) {
    let data = new ArrayBuffer(0);
    if (plan.readbacks.some((r) => r.size)) {
      try {
        await staging.mapAsync(GPUMapMode.READ);
      } catch (error) {
        throw new DeviceLostError(`the GPU device was lost while it ran (${error.message}): create the session again`);
      }
      data = staging.getMappedRange().slice(0);
      staging.unmap();
    }
    return Object.fromEntries(plan.readbacks.map((r) => {
      const count = product(r.shape), width = STORAGE[r.storage].BYTES_PER_ELEMENT;
      const values = fromStorage(data.slice(r.target, r.target + count * width), r.storage, TYPES[r.dtype]);
      return [r.name, new Tensor(TYPES[r.dtype], values, r.shape)];
    }));
  }
}

function toStorage({ type, data }, { name, storage }) {
  const kind = STORAGE[storage];
  if (data instanceof kind && type !== 'float16' && type !== 'bfloat16') return data;
  if (type === 'float16' && storage === 'f16') return data;
  if (type === 'int64' || type === 'uint64') {
    const [low, high] = storage === 'i32' ? [-2147483648n, 2147483647n] : [0n, 4294967295n];
    return kind.from(data, (v) => {
      if (v < low || v > high) throw new InputError(`input "${name}" holds ${v}, which does not fit 32 bits`);
      return Number(v);
    });
  }
  if (type === 'float16') return kind.from(data, fromHalf);
  if (type === 'bfloat16') return new Float32Array(Uint32Array.from(data, (v) => v << 16).buffer);
  return kind.from(data);
}

function fromStorage(buffer, storage, type) {
  const stored = new STORAGE[storage](buffer), kind = ARRAYS[type];
  if (type === 'float16') return storage === 'f16' ? stored : kind.from(stored, toHalf);
  if (type === 'bfloat16') return Uint16Array.from(new Uint32Array(buffer), (v) => (v + 0x7fff + ((v >>> 16) & 1)) >>> 16);
  if (type === 'int64' || type === 'uint64') return kind.from(stored, BigInt);
  return stored instanceof kind ? stored : kind.from(stored);
}

function fromHalf(h) {
  const sign = h & 0x8000 ? -1 : 1, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function toHalf(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const scaled = size / 2 ** (exponent - 10), down = Math.floor(scaled), rest = scaled - down;
  const rounded = down + (rest > 0.5 || (rest === 0.5 && down % 2) ? 1 : 0);
  return sign | (size < 2 ** -14 ? rounded : ((exponent + 14) << 10) + rounded);
}

/** A plan leaves out what it has in common with the one before it. */
function restore(bundle) {
  bundle.plans.forEach((plan, i) => { bundle.plans[i] = { ...bundle.plans[i - 1], ...plan }; });
}

/** Does the adapter run on the CPU? It then wants other kernels than a GPU does. */
function isSoftware(info) {
  const text = `${info?.architecture} ${info?.vendor} ${info?.device} ${info?.description}`.toLowerCase();
  return Boolean(info?.isFallbackAdapter) || /swiftshader|llvmpipe|lavapipe|basic render/.test(text);
}

async function openDevice(bundle) {
  if (!globalThis.navigator?.gpu) throw new UnsupportedError('this browser has no WebGPU, or the page is not served over https');
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) throw new UnsupportedError('no WebGPU adapter on this machine');
  const required = new Set(bundle.kernels.flatMap((k) => k.requires));
  for (const feature of required) {
    if (!adapter.features.has(feature)) throw new UnsupportedError(`the adapter lacks ${feature}`, feature);
  }
  const limits = adapter.limits;
  const slots = bundle.plans.flatMap((p) => p.slots);
  const largest = slots.reduce((a, s) => (s.size > a.size ? s : a), { size: 0, tensor: '' });
  if (largest.size > limits.maxBufferSize) {
    const text = `tensor ${largest.tensor} has ${largest.size} bytes, the adapter allows ${limits.maxBufferSize}`;
    throw new UnsupportedError(text, 'maxBufferSize', largest.tensor);
  }
  const optional = ['timestamp-query'].filter((f) => adapter.features.has(f));
  const requiredLimits = largest.size > 268435456 ? { maxBufferSize: largest.size } : {};
  return adapter.requestDevice({ requiredFeatures: [...required, ...optional], requiredLimits });
}

async function fetchOk(url) {
  let response;
  try {
    response = await fetch(url);
  } catch (error) {
    throw new BundleError(`cannot fetch ${url}: ${error.message}`);
  }
  if (!response.ok) throw new BundleError(`cannot fetch ${url}: ${response.status} ${response.statusText}`);
  return response;
}

/** The body of `url` in pieces whose lengths are multiples of four; from the Cache API where it has been fetched before. */
async function* chunks(url, cached) {
  const store = cached && globalThis.caches ? await caches.open('headrace').catch(() => null) : null;
  let response = await store?.match(url);
  if (response) {
    const fresh = await fetch(url, { method: 'HEAD' }).catch(() => null);
    const tag = (r) => r.headers.get('etag') ?? `${r.headers.get('last-modified')} ${r.headers.get('content-length')}`;
    if (fresh?.ok && tag(fresh) !== tag(response)) response = null;
  }
  if (!response) {
    response = await fetchOk(url);
    if (store) store.put(url, response.clone()).catch(() => {});
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

export default { InferenceSession, Tensor };
