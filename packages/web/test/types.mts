// A page as users write it: it must satisfy the types.
import {
  BundleError, DeviceLostError, HeadraceError, InferenceSession, InputError, type KernelTime, Tensor, UnsupportedError,
} from 'headrace-web';

export async function page(device: GPUDevice, buffer: GPUBuffer): Promise<number> {
  const session = await InferenceSession.create(new URL('https://example.org/model/'), {
    device, preferredOutputLocation: 'gpu-buffer', executionProviders: ['webgpu'],
    onProgress: (done: number, total: number) => { console.log(done / total); },
  });
  const feeds = { x: new Tensor('float32', new Float32Array(6), [2, 3]), i: new Tensor('int64', [1n, 2n], [2]) };
  const { y } = await session.run({ ...feeds, z: Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims: [1] }) }, ['y']);
  const times: KernelTime[] = await session.profile(feeds);
  const names: readonly string[] = [...session.inputNames, ...session.outputNames];
  const data = await y.getData();
  y.dispose();
  await session.release();
  return data.length + y.size + names.length + times.length + (times[0].ms ?? 0);
}

export function told(error: unknown): string {
  if (error instanceof UnsupportedError) return `${error.limit} ${error.tensor}`;
  if (error instanceof InputError || error instanceof BundleError || error instanceof DeviceLostError) return error.message;
  return error instanceof HeadraceError ? error.name : String(error);
}

// @ts-expect-error the shape of a tensor is a list of numbers
new Tensor('float32', [1], 'x');
// @ts-expect-error there is no such option
void InferenceSession.create('model', { progress: 3 });
