// The player: replays a plan that `headrace web` wrote, on WebGPU. It knows no ONNX. The interface is onnxruntime-web's.
import { chunks, fetchBundle, isSoftware, openDevice } from './bundle.js';
import { planFor } from './sizes.js';
import {
  ARRAYS, BundleError, bytesOf, checkedDims, DeviceLostError, fromStorage, HeadraceError, InputError, product, STORAGE, Tensor, toStorage,
  TYPES, UnsupportedError,
} from './tensor.js';

export { BundleError, DeviceLostError, HeadraceError, InputError, Tensor, UnsupportedError };

const UNIFORMS = -1;
const KINDS = { uniform: 'uniform', read: 'read-only-storage', write: 'storage' };
const MOST_PREPARED = 8;  // sizes whose buffers and bind groups are kept

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
    const bundle = await fetchBundle(base);
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
    for (const p of this.#prepared.values()) p.own.forEach((b) => b.destroy());
    if (this.#own) this.#device.destroy();
  }

  /**
   * Run once. Calls that overlap run one after the other.
   * @param {Record<string, Tensor>} feeds
   * @param {string[]|Record<string, unknown>} [fetches] names of the wanted outputs; default all
   * @returns {Promise<Record<string, Tensor>>}
   */
  async run(feeds, fetches) {
    return this.#inTurn(() => this.#run(feeds, fetches));
  }

  /**
   * Time the kernels of one run with timestamp queries, where the device has them.
   * @returns {Promise<{kernel: string, nodes: string[], ms: number|null, flops: number, bytes: number}[]>}
   */
  async profile(feeds) {
    const times = [];
    await this.#inTurn(() => this.#run(feeds, undefined, times));
    return times;
  }

  /** Do `work` after what was asked for before, whether that succeeded or not. */
  #inTurn(work) {
    const result = this.#queue.then(work);
    this.#queue = result.catch(() => {});
    return result;
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
    const { places, bytes, shard, hash } = this.#bundle.weights;
    const total = Object.values(places).length ? bytes : 0;
    const buffers = Object.entries(places).map(([key, [at, size]]) => {
      const buffer = this.#buffer(Math.ceil(size / 4) * 4);
      this.#constants.set(key, buffer);
      return { at, end: at + buffer.size, buffer };
    });
    let done = 0;
    for (let i = 0; i * shard < total; i++) {
      let at = i * shard;
      for await (const chunk of chunks(new URL(`weights-${i}.bin?${hash}`, base), cache)) {
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
    const names = this.#wanted(fetches);
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
    for (const n of names) outputs[n] ??= await this.#passed(feeds[n]);
    return Object.fromEntries(names.map((n) => [n, outputs[n]]));
  }

  #wanted(fetches) {
    if (fetches === undefined) return this.outputNames;
    if (fetches === null || typeof fetches !== 'object') {
      throw new InputError(`fetches are the names of outputs in a list, not ${fetches}; the model has: ${this.outputNames.join(', ')}`);
    }
    const names = Array.isArray(fetches) ? fetches : Object.keys(fetches);
    for (const n of names) if (!this.outputNames.includes(n)) throw new InputError(`no output is called "${n}"`);
    return names;
  }

  /** An input that is an output too: a copy of it in memory, since the plan has nothing to compute. */
  async #passed({ type, dims, data, location, gpuBuffer, storage }) {
    if (location !== 'gpu-buffer') return new Tensor(type, data.slice(), dims);
    const size = Math.ceil(product(dims) * STORAGE[storage].BYTES_PER_ELEMENT / 4) * 4;
    return new Tensor(type, (await this.#download(gpuBuffer, { size, storage }, type)).subarray(0, product(dims)), dims);
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
    return steps.map(({ number: n }, i) => {
      const ms = stamps ? Number(stamps[2 * i + 1] - stamps[2 * i]) / 1e6 : null;
      const { name } = this.#bundle.kernels[plan.kernel[n]];
      return { kernel: name, nodes: plan.nodes[n], ms, flops: plan.flops[n], bytes: plan.bytes[n] };
    });
  }

  /** The plan for the sizes of `feeds`, made ready. */
  #choose(feeds) {
    if (feeds === null || typeof feeds !== 'object') throw new InputError(`feeds are tensors by input name, not ${feeds}`);
    for (const { name, type } of this.#bundle.inputs) {
      const tensor = feeds[name];
      if (tensor === undefined || tensor === null) throw new InputError(`input "${name}" is missing; the model takes: ${this.inputNames.join(', ')}`);
      if (tensor.type !== type.replace(/^float$/, 'float32').replace(/^double$/, 'float64')) {
        throw new InputError(`input "${name}" must be ${type}, not ${tensor.type ?? tensor}`);
      }
      if (tensor.location === 'none') throw new InputError(`input "${name}" is a tensor that was disposed`);
      const size = product(checkedDims(tensor.dims)), given = tensor.data?.length;
      if (tensor.location !== 'gpu-buffer' && given !== size) throw new InputError(`input "${name}" has ${given} elements, not ${size}`);
    }
    for (const name of Object.keys(feeds)) if (!this.inputNames.includes(name)) throw new InputError(`no input is called "${name}"`);
    const { key, plan } = planFor(this.#bundle, feeds, this.#software);
    const prepared = this.#prepared.get(key) ?? this.#prepare(plan());
    this.#prepared.delete(key);
    this.#prepared.set(key, prepared);  // the last used is the last to go
    if (this.#prepared.size > MOST_PREPARED) this.#forget(this.#prepared.keys().next().value);
    return prepared;
  }

  /** Free what was made for one size. Work that was submitted before still ends. */
  #forget(key) {
    this.#prepared.get(key).own.forEach((b) => b.destroy());
    this.#prepared.delete(key);
  }

  #prepare(plan) {
    this.#fits(plan);
    const { uniforms } = plan;
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
    const steps = plan.kernel.flatMap((kernel, i) => {
      if (plan.groups[i].includes(0)) return [];
      const entries = plan.bindings[i].map(([slot, offset, length], binding) => (
        { binding, resource: { buffer: slot === UNIFORMS ? uniform : buffers[slot], offset, size: length } }));
      const { pipeline, layout } = this.#pipelines[kernel];
      return [{ number: i, pipeline, groups: plan.groups[i], group: this.#device.createBindGroup({ layout, entries }) }];
    });
    return { plan, buffers, staging, steps, own: [...own, staging] };
  }

  /** Refuse what the device would: it knows nothing of the tensors. */
  #fits({ slots, bindings, groups, staging_bytes: staging, kernel, nodes }) {
    const { maxBufferSize, maxStorageBufferBindingSize, maxComputeWorkgroupsPerDimension } = this.#device.limits;
    const refuse = (what, size, limit, tensor) => {
      throw new UnsupportedError(`${what} needs ${size}, the device allows ${this.#device.limits[limit]} (${limit})`, limit, tensor);
    };
    for (const s of slots) if (s.size > maxBufferSize) refuse(`tensor ${s.tensor}`, `${s.size} bytes`, 'maxBufferSize', s.tensor);
    if (staging > maxBufferSize) refuse('the outputs', `${staging} bytes`, 'maxBufferSize');
    kernel.forEach((_, i) => {
      for (const [slot, , size] of bindings[i]) {
        const tensor = slots[slot]?.tensor;
        if (size > maxStorageBufferBindingSize) refuse(`tensor ${tensor}`, `${size} bytes`, 'maxStorageBufferBindingSize', tensor);
      }
      const most = Math.max(...groups[i]), node = nodes[i].join(', ');
      if (most > maxComputeWorkgroupsPerDimension) refuse(`node ${node}`, `${most} workgroups`, 'maxComputeWorkgroupsPerDimension', node);
    });
  }

  /** A buffer that all sizes share; where it has to grow, what was bound to the old one is made again when it is needed. */
  #scratchBuffer(rank, size) {
    const old = this.#scratch[rank];
    if (!old || old.size < size) {
      for (const [key, p] of this.#prepared) if (old && p.buffers.includes(old)) this.#forget(key);
      old?.destroy();
      this.#scratch[rank] = this.#buffer(size);
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
      tensor.download = () => this.#download(kept, r, TYPES[r.dtype]);
      return [r.name, tensor];
    }));
  }

  async #download(buffer, { size, storage }, type) {
    const staging = this.#device.createBuffer({ size: Math.max(size, 4), usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = this.#device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
    this.#device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const data = fromStorage(staging.getMappedRange().slice(0, size), storage, type);
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

export default { InferenceSession, Tensor };
