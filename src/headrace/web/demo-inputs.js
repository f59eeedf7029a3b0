// Inputs for the demo page: random numbers, an image, or a spectrum that sounds.
import { Tensor } from './headrace.js';

const product = (dims) => dims.reduce((a, b) => a * b, 1);

function add(controls, label, element) {
  const wrap = document.createElement('label');
  wrap.append(`${label} `, element);
  controls.append(wrap);
  return element;
}

/** Random numbers for floats, ones for the rest. */
export function randomInput(inputs, { example }) {
  const tensor = ({ name, type }) => {
    const value = type.includes('float') ? () => Math.random() * 2 - 1 : () => 1;
    return [name, new Tensor(type, Array.from({ length: product(example[name]) }, value), example[name])];
  };
  return { feeds: async () => Object.fromEntries(inputs.map(tensor)) };
}

const SCALES = { '−1 to 1': [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]], '0 to 1': [[0, 0, 0], [1, 1, 1]],
  ImageNet: [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]] };

/** An image: one with some text that is drawn here, or the user's. A model of fixed size gets it stretched, one of a fixed
 * batch several times. */
export function imageInput([{ name, dims }], _bundle, _trial, controls) {
  const file = Object.assign(document.createElement('input'), { type: 'file', accept: 'image/*' });
  const scale = document.createElement('select');
  for (const text of Object.keys(SCALES)) scale.add(new Option(text));
  const size = document.createElement('select');
  for (const text of ['320', '640', '960']) size.add(new Option(`${text} pixels`, text));
  add(controls, 'image', file);
  if (typeof dims[2] !== 'number') add(controls, 'longer side', size);
  add(controls, 'values', scale);
  const batch = typeof dims[0] === 'number' ? dims[0] : 1;
  let image = sampleImage();
  const canvas = document.createElement('canvas');
  const draw = () => {
    const largest = Number(size.value), ratio = Math.min(largest / Math.max(image.width, image.height), 1);
    const fit = (n) => Math.max(32, Math.round(n * ratio / 32) * 32);
    canvas.width = typeof dims[3] === 'number' ? dims[3] : fit(image.width);
    canvas.height = typeof dims[2] === 'number' ? dims[2] : fit(image.height);
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return context.getImageData(0, 0, canvas.width, canvas.height);
  };
  const feeds = async () => {
    const { data, width, height } = draw(), [mean, deviation] = SCALES[scale.value], plane = width * height;
    const values = new Float32Array(batch * 3 * plane);
    for (let i = 0; i < plane; i++) {
      for (let c = 0; c < 3; c++) values[c * plane + i] = (data[4 * i + c] / 255 - mean[c]) / deviation[c];
    }
    for (let b = 1; b < batch; b++) values.copyWithin(b * 3 * plane, 0, 3 * plane);
    return { [name]: new Tensor('float32', values, [batch, 3, height, width]) };
  };
  const onChange = (run) => {
    file.onchange = async () => {
      if (file.files.length) image = await createImageBitmap(file.files[0]);
      await run();
    };
    scale.onchange = size.onchange = run;
  };
  return { feeds, onChange, canvas };
}

/** Something to read, in several sizes, two colours and at an angle. */
function sampleImage() {
  const canvas = Object.assign(document.createElement('canvas'), { width: 960, height: 640 });
  const c = canvas.getContext('2d');
  c.fillStyle = '#f3efe6';
  c.fillRect(0, 0, 960, 640);
  c.fillStyle = '#27506b';
  c.fillRect(0, 0, 960, 130);
  const write = (text, font, colour, x, y, angle = 0) => {
    c.save();
    c.translate(x, y);
    c.rotate(angle);
    c.font = font;
    c.fillStyle = colour;
    c.fillText(text, 0, 0);
    c.restore();
  };
  write('Headrace', '700 84px sans-serif', '#ffffff', 48, 92);
  write('a channel that leads water to a wheel', '40px serif', '#222222', 60, 220);
  write('OPEN  9:00 – 17:00', '600 54px monospace', '#8c2f1b', 60, 330);
  write('Mill Lane 12', '44px sans-serif', '#222222', 60, 430);
  write('at an angle', 'italic 48px serif', '#1d6b3f', 600, 560, -0.2);
  write('small print is harder to find', '22px sans-serif', '#444444', 60, 560);
  return canvas;
}

const CHORD = [261.63, 329.63, 392.0, 523.25];  // C major, Hz

/** A spectrum [batch, real then imaginary bins, frames] of a chord, one note after the other and then all of them. */
export function spectrumInput([{ name }], { example }, [first]) {
  const [batch, rows, frames] = example[name], n = rows - 2;
  const samples = first.dims.at(-1), hop = Math.max(1, Math.round((samples - n) / (frames - 1)));
  const rate = n >= 1024 ? 22050 : 16000;
  const values = new Float32Array(batch * rows * frames);
  for (let t = 0; t < frames; t++) {
    const part = Math.floor(t / frames * (CHORD.length + 1));
    const notes = part < CHORD.length ? [CHORD[part]] : CHORD;
    for (const hz of notes) {
      const bin = Math.round(hz * n / rate), phase = 2 * Math.PI * bin * hop * t / n, size = n / 8 / notes.length;
      for (let b = 0; b < batch; b++) {
        values[(b * rows + bin) * frames + t] += size * Math.cos(phase);
        values[(b * rows + n / 2 + 1 + bin) * frames + t] += size * Math.sin(phase);
      }
    }
  }
  const feeds = { [name]: new Tensor('float32', values, [batch, rows, frames]) };
  return { feeds: async () => feeds, rate, hop };
}
