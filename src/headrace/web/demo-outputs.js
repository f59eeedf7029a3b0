// What the demo page shows of outputs: a table, boxes on an image, or sound.
import { toStorage } from './tensor.js';

/** Name, type, shape and mean of every output. */
export async function tableOutput(outputs) {
  const element = document.createElement('table');
  const row = (cells, tag) => {
    const line = element.insertRow();
    for (const cell of cells) line.appendChild(document.createElement(tag)).textContent = cell;
  };
  row(['output', 'type', 'shape', 'mean'], 'th');
  for (const [name, t] of Object.entries(outputs)) {
    const data = t.data.slice(0, 1e5), halves = t.type.endsWith('float16');
    const values = Array.from(halves ? toStorage({ type: t.type, data }, { name, storage: 'f32' }) : data, Number);
    const mean = values.reduce((a, b) => a + b, 0) / Math.max(values.length, 1);
    row([name, t.type, t.dims.join(' × '), mean.toPrecision(4)], 'td');
  }
  return element;
}

const LIKELY = 0.3, SURE = 0.5, LEAST = 16;  // of a pixel, of a whole box, and pixels of a box

/** Boxes around the connected likely pixels of a map [1, 1, height, width], drawn on the input image. */
export async function boxesOutput(outputs, { canvas: image }) {
  const [map] = Object.values(outputs), [height, width] = map.dims.slice(-2);
  const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
  const c = canvas.getContext('2d');
  c.drawImage(image, 0, 0);
  c.lineWidth = Math.max(2, image.width / 320);
  c.strokeStyle = '#e5352b';
  const boxes = textBoxes(map.data, width, height);
  for (const box of boxes) {
    const [x, y] = [box.left * image.width / width, box.top * image.height / height];
    c.strokeRect(x, y, (box.right - box.left + 1) * image.width / width, (box.bottom - box.top + 1) * image.height / height);
  }
  const text = document.createElement('p'), part = document.createElement('div');
  text.textContent = `${boxes.length} box${boxes.length === 1 ? '' : 'es'}`;
  part.append(canvas, text);
  part.dataset.boxes = JSON.stringify(boxes);
  return part;
}

/** Connected regions of likely pixels, as boxes that are grown a little: such models shrink the text when they learn. */
export function textBoxes(map, width, height) {
  const seen = new Uint8Array(width * height), boxes = [];
  for (let start = 0; start < seen.length; start++) {
    if (seen[start] || map[start] < LIKELY) continue;
    const box = { left: width, right: 0, top: height, bottom: 0, pixels: 0, score: 0 }, stack = [start];
    seen[start] = 1;
    while (stack.length) {
      const at = stack.pop(), x = at % width, y = (at - x) / width;
      box.left = Math.min(box.left, x); box.right = Math.max(box.right, x);
      box.top = Math.min(box.top, y); box.bottom = Math.max(box.bottom, y);
      box.pixels++; box.score += map[at];
      for (const [next, inside] of [[at - 1, x > 0], [at + 1, x < width - 1], [at - width, y > 0], [at + width, y < height - 1]]) {
        if (inside && !seen[next] && map[next] >= LIKELY) { seen[next] = 1; stack.push(next); }
      }
    }
    if (box.pixels >= LEAST && box.score / box.pixels >= SURE) boxes.push(grown(box, width, height));
  }
  return boxes;
}

function grown({ left, right, top, bottom, pixels, score }, width, height) {
  const w = right - left + 1, h = bottom - top + 1, by = Math.round(1.5 * w * h / (2 * (w + h)) / 1.6);
  return {
    left: Math.max(0, left - by), right: Math.min(width - 1, right + by), top: Math.max(0, top - by),
    bottom: Math.min(height - 1, bottom + by), score: score / pixels,
  };
}

/** The first signal of the batch: a picture of it, a button that plays it, a link that keeps it. */
export async function soundOutput(outputs, { rate, hop }) {
  const [signal] = Object.values(outputs), count = signal.dims.at(-1);
  const samples = Float32Array.from(signal.data.subarray(0, count));
  const peak = samples.reduce((a, v) => Math.max(a, Math.abs(v)), 1e-9);
  const scaled = samples.map((v) => 0.8 * v / peak);
  const part = document.createElement('div'), play = document.createElement('button'), keep = document.createElement('a');
  play.textContent = 'Play';
  play.onclick = () => playSound(scaled, rate);
  keep.textContent = 'save as WAV';
  keep.download = 'headrace.wav';
  keep.href = URL.createObjectURL(new Blob([wav(scaled, rate)], { type: 'audio/wav' }));
  const text = document.createElement('p');
  text.textContent = `${(count / rate).toFixed(1)} s of sound, ${signal.dims[0]} signal(s), hop ${hop}. `;
  text.append(play, ' ', keep);
  part.append(wave(scaled), text);
  return part;
}

function playSound(samples, rate) {
  const audio = new AudioContext(), buffer = audio.createBuffer(1, samples.length, rate), source = audio.createBufferSource();
  buffer.copyToChannel(samples, 0);
  source.buffer = buffer;
  source.connect(audio.destination);
  source.onended = () => audio.close();
  source.start();
}

function wave(samples) {
  const canvas = Object.assign(document.createElement('canvas'), { width: 900, height: 160 }), c = canvas.getContext('2d');
  c.fillStyle = '#2a7a9b';
  for (let x = 0; x < canvas.width; x++) {
    const from = Math.floor(x * samples.length / canvas.width), to = Math.max(from + 1, Math.floor((x + 1) * samples.length / canvas.width));
    const piece = samples.subarray(from, to), low = Math.min(...piece), high = Math.max(...piece);
    c.fillRect(x, 80 - 76 * high, 1, Math.max(76 * (high - low), 1));
  }
  return canvas;
}

/** 16-bit mono WAV. */
export function wav(samples, rate) {
  const bytes = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, value) => [...value].forEach((ch, i) => bytes.setUint8(at + i, ch.charCodeAt(0)));
  text(0, 'RIFF'); bytes.setUint32(4, 36 + 2 * samples.length, true); text(8, 'WAVEfmt ');
  bytes.setUint32(16, 16, true); bytes.setUint16(20, 1, true); bytes.setUint16(22, 1, true);
  bytes.setUint32(24, rate, true); bytes.setUint32(28, 2 * rate, true); bytes.setUint16(32, 2, true); bytes.setUint16(34, 16, true);
  text(36, 'data'); bytes.setUint32(40, 2 * samples.length, true);
  samples.forEach((v, i) => bytes.setInt16(44 + 2 * i, Math.round(32767 * Math.max(-1, Math.min(1, v))), true));
  return bytes.buffer;
}
