// What the demo page does with a model, by what it takes and what one run on random numbers gave.
import { imageInput, randomInput, spectrumInput } from './demo-inputs.js';
import { boxesOutput, soundOutput, tableOutput } from './demo-outputs.js';

const COARSEST = 8;  // pixels of the image to one of a map of text, in each direction

/**
 * A title, a kind of input and a kind of output.
 * @param {{name: string, type: string}[]} inputs
 * @param {Record<string, number[]>} example the shape of each input in the run
 * @param {Tensor[]} outputs what the run gave
 */
export function kindOf(inputs, example, outputs) {
  const [{ name, type } = {}] = inputs, [output] = outputs;
  if (inputs.length === 1 && outputs.length && type === 'float32' && output.type === 'float32') {
    if (isTextMap(example[name], output)) return { title: 'Text detection', input: imageInput, output: boxesOutput };
    if (isInverseStft(example[name], output)) return { title: 'Inverse STFT', input: spectrumInput, output: soundOutput };
  }
  return { title: 'A model', input: randomInput, output: tableOutput };
}

/** Images [n, 3, height, width] to maps [n, 1, height, width] of probabilities, which may be somewhat coarser. */
function isTextMap(image, { dims, data }) {
  return image.length === 4 && image[1] === 3 && dims.length === 4 && dims[0] === image[0] && dims[1] === 1
    && [2, 3].every((axis) => dims[axis] > 1 && dims[axis] <= image[axis] && dims[axis] * COARSEST >= image[axis])
    && data.every((v) => v >= 0 && v <= 1);
}

/** Spectra [n, real then imaginary bins, frames] to one signal each, with frames that overlap or touch. */
function isInverseStft(spectrum, { dims, size }) {
  const [batch, rows, frames] = spectrum, samples = dims.at(-1), n = rows - 2;
  return spectrum.length === 3 && rows >= 34 && rows % 2 === 0 && frames > 8
    && dims.length >= 2 && dims.length <= 3 && dims[0] === batch && size === batch * samples
    && samples * 16 >= frames * n && samples <= frames * n;
}
