/** The player of bundles that `headrace web` writes; the interface is onnxruntime-web's. */
export type TypedArray =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

export class HeadraceError extends Error {}
export class UnsupportedError extends HeadraceError { readonly limit?: string; readonly tensor?: string; }
export class BundleError extends HeadraceError {}
export class InputError extends HeadraceError {}
export class DeviceLostError extends HeadraceError {}

export class Tensor {
  constructor(type: string, data: ArrayLike<number | bigint | boolean>, dims?: readonly number[]);
  static fromGpuBuffer(
    buffer: GPUBuffer,
    options: { dataType?: string; dims: readonly number[]; dispose?: () => void; storage?: string },
  ): Tensor;
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: TypedArray;
  readonly location: 'cpu' | 'gpu-buffer' | 'none';
  readonly gpuBuffer: GPUBuffer;
  readonly size: number;
  getData(): Promise<TypedArray>;
  dispose(): void;
}

export interface KernelTime {
  readonly kernel: string;
  readonly nodes: readonly string[];
  /** Milliseconds on the device; null where it has no timestamp queries. */
  readonly ms: number | null;
  readonly flops: number;
  readonly bytes: number;
}

export class InferenceSession {
  static create(
    url: string | URL,
    options?: {
      onProgress?: (done: number, total: number) => void;
      device?: GPUDevice;
      preferredOutputLocation?: 'cpu' | 'gpu-buffer';
      cache?: boolean;
      executionProviders?: unknown;
    },
  ): Promise<InferenceSession>;
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(feeds: Record<string, Tensor>, fetches?: readonly string[] | Record<string, unknown>): Promise<Record<string, Tensor>>;
  profile(feeds: Record<string, Tensor>): Promise<KernelTime[]>;
  release(): Promise<void>;
}
