// Tensors, what their types are in memory and on the device, and the errors of the player.

export const TYPES = {
  1: 'float32', 2: 'uint8', 3: 'int8', 4: 'uint16', 5: 'int16', 6: 'int32', 7: 'int64', 9: 'bool', 10: 'float16',
  11: 'float64', 12: 'uint32', 13: 'uint64', 16: 'bfloat16',
};
export const ARRAYS = {
  float32: Float32Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, bool: Uint8Array, float16: Uint16Array, float64: Float64Array, uint32: Uint32Array,
  uint64: BigUint64Array, bfloat16: Uint16Array,
};
export const STORAGE = { f32: Float32Array, i32: Int32Array, u32: Uint32Array, f16: Uint16Array };

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

export const product = (dims) => dims.reduce((a, b) => a * b, 1);
/** A copy of `dims`; throws InputError where they are not sizes. */
export function checkedDims(dims) {
  if (dims?.length === undefined || typeof dims === 'string' || ![...dims].every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new InputError(`the sizes of a tensor must be integers from 0 on, not [${dims}]`);
  }
  return [...dims];
}
export const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** A tensor in memory (`location` "cpu", `data` a typed array) or on the GPU (`location` "gpu-buffer", `gpuBuffer`). */
export class Tensor {
  /**
   * @param {string} type as "float32", "int64"
   * @param {ArrayLike<number|bigint|boolean>} data numbers; a Uint16Array for a 16-bit float holds its bits
   * @param {readonly number[]} [dims] default one dimension
   */
  constructor(type, data, dims) {
    const kind = ARRAYS[type];
    if (!kind) throw new InputError(`no tensor type is called "${type}"`);
    this.type = type;
    this.data = data instanceof kind ? data : converted(type, data);
    this.dims = checkedDims(dims ?? [this.data.length]);
    this.location = 'cpu';
    if (product(this.dims) !== this.data.length) {
      throw new InputError(`${this.data.length} elements do not fill a tensor of [${this.dims}]`);
    }
  }

  /** A tensor that is on the GPU already. */
  static fromGpuBuffer(gpuBuffer, { dataType = 'float32', dims, dispose, storage = 'f32' }) {
    const tensor = Object.create(Tensor.prototype);
    return Object.assign(tensor, { type: dataType, dims: checkedDims(dims), gpuBuffer, location: 'gpu-buffer', storage, release: dispose });
  }

  get size() { return product(this.dims); }

  /** The values; read back from the GPU if they are there. */
  async getData() {
    if (this.location === 'cpu') return this.data;
    if (this.location === 'none') throw new InputError('this tensor was disposed');
    if (!this.download) throw new InputError('only outputs of a session are read back; copy your own gpuBuffer with its device');
    return this.download();
  }

  /** Free the GPU buffer, if there is one. */
  dispose() {
    if (this.location === 'gpu-buffer') (this.release ?? (() => this.gpuBuffer.destroy()))();
    this.location = 'none';
  }
}

/** The typed array of `type` that holds these numbers, rounded where it has fewer bits. */
function converted(type, data) {
  const convert = { float16: toHalf, bfloat16: toBfloat, int64: BigInt, uint64: BigInt }[type] ?? Number;
  if (typeof data?.length !== 'number') throw new InputError(`the elements of a tensor are a list or a typed array, not ${data}`);
  try {
    return ARRAYS[type].from(data, (v) => convert(convert === BigInt ? v : Number(v)));
  } catch (error) {
    throw new InputError(`these elements are not ${type}: ${error.message}`);
  }
}

/** What is uploaded for a tensor: integers of 64 bits are cut to 32, and refused where they do not fit. */
export function toStorage({ type, data }, { name, storage }) {
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

/** A typed array of `type` from the bytes that the device stored. */
export function fromStorage(buffer, storage, type) {
  const stored = new STORAGE[storage](buffer), kind = ARRAYS[type];
  if (type === 'float16') return storage === 'f16' ? stored : kind.from(stored, toHalf);
  if (type === 'bfloat16') return kind.from(stored, toBfloat);
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

function toBfloat(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  return Number.isNaN(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
