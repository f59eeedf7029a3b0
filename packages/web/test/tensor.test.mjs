// Tensors and what stands for them on the device: no GPU is needed.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { InferenceSession, InputError, Tensor } from 'headrace-web';
import { evaluate } from '../dist/sizes.js';
import { fromStorage, toStorage } from '../dist/tensor.js';

test('a tensor keeps what it is given', () => {
  const data = Float32Array.of(1, 2, 3, 4, 5, 6), tensor = new Tensor('float32', data, [2, 3]);
  assert.equal(tensor.data, data);
  assert.deepEqual([tensor.dims, tensor.size, tensor.type, tensor.location], [[2, 3], 6, 'float32', 'cpu']);
  assert.deepEqual(new Tensor('int64', [1n, -2n]).dims, [2]);
  assert.deepEqual([...new Tensor('bool', [true, false]).data], [1, 0]);
});

test('what is no tensor is refused', () => {
  assert.throws(() => new Tensor('float31', [1]), InputError);
  assert.throws(() => new Tensor('float32', [1, 2, 3], [2, 2]), /3 elements/);
});

test('numbers are converted to the type, and what cannot be is refused', () => {
  for (const values of [[1.5, -0.1, 0, Infinity, 7e4], Float64Array.of(2 ** -24, -65504, 1 + 3 * 2 ** -11), [true, false], [3n]]) {
    const half = new Tensor('float16', values), brain = new Tensor('bfloat16', values);
    const wanted = Float32Array.from(values, Number);
    assert.deepEqual(half.data, fromStorage(wanted.buffer, 'f32', 'float16'));
    assert.deepEqual(brain.data, fromStorage(wanted.buffer, 'f32', 'bfloat16'));
  }
  assert.deepEqual(new Tensor('float16', [1.5, NaN]).data, Uint16Array.of(0x3e00, 0x7e00));
  assert.deepEqual(new Tensor('bfloat16', [1.5, NaN]).data, Uint16Array.of(0x3fc0, 0x7fc0));
  assert.deepEqual(new Tensor('int64', [1, -2, true]).data, BigInt64Array.of(1n, -2n, 1n));
  assert.deepEqual(new Tensor('float32', [2n]).data, Float32Array.of(2));
  for (const values of [[1.5], [NaN], ['x']]) assert.throws(() => new Tensor('int64', values), InputError);
  for (const values of [undefined, null, 3]) assert.throws(() => new Tensor('float32', values), InputError);
});

test('sizes that are no integers are refused as such', () => {
  const data = new Float32Array(30);
  for (const dims of [[1, 3, 2.5, 4], [-5, -6], [30n], ['30'], [NaN], '30', 30, [null]]) {
    assert.throws(() => new Tensor('float32', data, dims), /must be integers/);
    assert.throws(() => Tensor.fromGpuBuffer({}, { dims }), /must be integers/);
  }
});

test('a disposed tensor has no data to give', async () => {
  const tensor = new Tensor('float32', [1]);
  tensor.dispose();
  await assert.rejects(tensor.getData(), InputError);
  await assert.rejects(Tensor.fromGpuBuffer({}, { dims: [1] }).getData(), InputError);
});

test('every float16 value goes to float32 and back', () => {
  const all = Uint16Array.from({ length: 65536 }, (_, i) => i), kept = all.filter((h) => (h & 0x7c00) !== 0x7c00 || !(h & 0x3ff));
  const stored = toStorage(new Tensor('float16', kept), { name: 'x', storage: 'f32' });
  assert.ok(stored instanceof Float32Array);
  assert.deepEqual(fromStorage(stored.buffer, 'f32', 'float16'), kept);
  const nan = toStorage(new Tensor('float16', Uint16Array.of(0x7e01)), { name: 'x', storage: 'f32' });
  assert.ok(Number.isNaN(nan[0]));
});

test('float32 is rounded to the nearest float16, ties to even', () => {
  const half = (value) => fromStorage(Float32Array.of(value).buffer, 'f32', 'float16')[0];
  assert.equal(half(1 + 2 ** -11), 0x3c00);
  assert.equal(half(1 + 3 * 2 ** -11), 0x3c02);
  assert.equal(half(65519), 0x7bff);
  assert.equal(half(65520), 0x7c00);
  assert.equal(half(-0), 0x8000);
  assert.equal(half(2 ** -25), 0);
  assert.equal(half(2 ** -24), 1);
});

test('an integer that does not fit 32 bits is refused, with its name', () => {
  const big = new Tensor('int64', [2n ** 31n]);
  assert.throws(() => toStorage(big, { name: 'tokens', storage: 'i32' }), /tokens.*2147483648/);
  assert.deepEqual([...toStorage(new Tensor('int64', [-5n]), { name: 'x', storage: 'i32' })], [-5]);
});

test('sizes are evaluated exactly: sums of products, quotients rounded down, the larger of two', () => {
  const entries = [[1, [2, 0, 1]], [0, [1, 0]], ['/', 2, 3], ['max', 1, 4], [-7, [-1, 0]]];
  assert.deepEqual(evaluate(entries, [5, 3]), [5, 3, 31, 5, 6, 6, -12]);
  assert.throws(() => evaluate([[0, [1, 0, 0, 0]]], [2 ** 20]), InputError);
});

test('a model instead of a bundle is told what to run first', async () => {
  await assert.rejects(InferenceSession.create('models/net.onnx'), /headrace web net\.onnx -o bundle/);
  await assert.rejects(InferenceSession.create(new Uint8Array(3)), /URL of a folder/);
});
