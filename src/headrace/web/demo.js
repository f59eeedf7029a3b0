// The page beside a bundle: loads it, runs it on random inputs, and shows the time and what came out.
import { InferenceSession, Tensor } from './headrace.js';

const show = (id) => document.getElementById(id);
const typed = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, uint8: Uint8Array };

function randomTensor({ name, shape, type }) {
  const kind = typed[type] ?? Float32Array, count = shape.reduce((a, b) => a * b, 1);
  const value = type === 'int64' ? () => 1n : type.startsWith('float') ? () => Math.random() * 2 - 1 : () => 1;
  return [name, new Tensor(type, kind.from({ length: count }, value), shape)];
}

function table(rows, heads) {
  const element = document.createElement('table');
  for (const row of [heads, ...rows]) {
    const line = element.insertRow();
    for (const cell of row) {
      const place = line.appendChild(document.createElement(row === heads ? 'th' : 'td'));
      place.textContent = typeof cell === 'number' ? cell.toPrecision(4) : cell;
      if (typeof cell === 'number') place.className = 'number';
    }
  }
  return element;
}

async function main() {
  const plan = await (await fetch('plan.json')).json();
  const names = { float: 'float32', double: 'float64' };
  const types = Object.fromEntries(plan.inputs.map((v) => [v.name, names[v.type] ?? v.type]));
  const started = performance.now();
  const session = await InferenceSession.create('./', { onProgress: (done, total) => { show('progress').value = done / total; } });
  show('progress').value = 1;
  show('status').textContent = `Ready in ${(performance.now() - started).toFixed(0)} ms: ${plan.kernels.length} kernels, `
    + `${(plan.weights.bytes / 1e6).toFixed(1)} MB of weights.`;
  show('run').disabled = false;
  show('run').onclick = async () => {
    show('run').disabled = true;
    const feeds = Object.fromEntries(Object.entries(plan.example).map(([name, shape]) => randomTensor({ name, shape, type: types[name] })));
    await session.run(feeds);
    const times = [];
    let outputs;
    for (let i = 0; i < 5; i++) {
      const start = performance.now();
      outputs = await session.run(feeds);
      times.push(performance.now() - start);
    }
    const middle = times.sort((a, b) => a - b)[2];
    const rows = Object.entries(outputs).map(([name, t]) => {
      const values = Array.from(t.data.slice(0, 1e5), Number);
      const mean = values.reduce((a, b) => a + b, 0) / Math.max(values.length, 1);
      return [name, t.type, t.dims.join(' × '), mean];
    });
    const big = document.createElement('div');
    big.className = 'big';
    big.textContent = `${middle.toFixed(1)} ms`;
    show('result').replaceChildren(big, table(rows, ['output', 'type', 'shape', 'mean']));
    show('run').disabled = false;
  };
}

main().catch((error) => {
  show('status').className = 'error';
  show('status').textContent = `${error.name}: ${error.message}`;
});
