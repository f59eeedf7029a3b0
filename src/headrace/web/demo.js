// The page beside a bundle: it runs the model on inputs that suit it, shows what came out, and how long it took; beside
// onnxruntime-web on the same inputs, where `headrace web --serve --beside FOLDER` has given the page that runtime.
import { InferenceSession } from './headrace.js';
import { randomInput } from './demo-inputs.js';
import { kindOf } from './demo-kinds.js';
import { peers } from './demo-peers.js';

const RUNS = 5;
const show = (id) => document.getElementById(id);
const NAMES = { float: 'float32', double: 'float64' };

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** Median milliseconds of `RUNS` calls after one that is not counted, and what the last one gave. */
async function timed(run) {
  const times = [];
  let outputs = await run();
  for (let i = 0; i < RUNS; i++) {
    const start = performance.now();
    outputs = await run();
    times.push(performance.now() - start);
  }
  return { ms: median(times), outputs };
}

function bars(rows) {
  const table = document.createElement('table'), longest = Math.max(...rows.map((r) => r.ms ?? 0));
  for (const { name, ms, note, peer } of rows) {
    const line = table.insertRow(), bar = document.createElement('span');
    line.insertCell().textContent = name;
    const figure = line.insertCell();
    figure.className = 'number';
    figure.textContent = ms === undefined ? note : `${ms.toFixed(1)} ms`;
    bar.className = peer ? 'bar peer' : 'bar';
    bar.style.width = `${20 * (ms ?? 0) / longest}rem`;
    line.insertCell().append(bar);
  }
  return table;
}

async function main() {
  const bundle = await (await fetch('plan.json')).json();
  const inputs = bundle.inputs.map((v) => ({ ...v, type: NAMES[v.type] ?? v.type }));
  const started = performance.now();
  const onProgress = (done, total) => { show('progress').value = done / total; };
  const session = await InferenceSession.create('./', { onProgress });
  show('progress').value = 1;
  const ready = (performance.now() - started).toFixed(0);
  const trial = Object.values(await session.run(await randomInput(inputs, bundle).feeds()));
  const kind = kindOf(inputs, bundle.example, trial);
  show('title').textContent = `${kind.title} on WebGPU`;
  const megabytes = (bundle.weights.bytes / 1e6).toFixed(1);
  const status = `Ready in ${ready} ms: ${bundle.kernels.length} kernels, ${megabytes} MB of weights.`;
  show('status').textContent = status;
  const input = kind.input(inputs, bundle, trial, show('controls'));
  const others = await peers();
  const run = async () => {
    show('run').disabled = true;
    try {
      const feeds = await input.feeds();
      const { ms, outputs } = await timed(() => session.run(feeds));
      show('status').className = '';
      show('status').textContent = status;
      show('time').textContent = `${ms.toFixed(1)} ms`;
      show('result').replaceChildren(await kind.output(outputs, input));
      const rows = [{ name: 'headrace, WebGPU', ms }];
      for (const peer of others) {
        show('times').replaceChildren(bars([...rows, { name: peer.name, note: 'running…', peer: true }]));
        rows.push({ name: peer.name, peer: true, ...(await peer.time(feeds, timed)) });
      }
      if (others.length) show('times').replaceChildren(bars(rows));
      document.body.dataset.done = String(1 + Number(document.body.dataset.done ?? 0));
    } catch (error) {
      fail(error);
    }
    show('run').disabled = false;
  };
  show('run').onclick = run;
  show('run').disabled = false;
  input.onChange?.(run);
}

/** The error alone: figures and results of an earlier run would seem to be of this one. */
function fail(error) {
  for (const id of ['time', 'times', 'result']) show(id).replaceChildren();
  show('status').className = 'error';
  show('status').textContent = `${error.name}: ${error.message}`;
}

main().catch(fail);
