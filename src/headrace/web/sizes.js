// Which plan runs for given feeds. Where sizes are expressions of dimensions, they are evaluated here.
import { bytesOf, InputError } from './tensor.js';

/** The plan for the shapes of `feeds`: a key of it, and a function that makes it with plain numbers. */
export function planFor(bundle, feeds, software) {
  const suits = (plan) => (plan.software ?? software) === software;  // null: the same for every adapter
  const some = bundle.plans.some(suits);
  const pick = (fits) => bundle.plans.findIndex((plan) => (suits(plan) || !some) && fits(plan));
  if (!bundle.sizes) {
    const index = pick((plan) => plan.uploads.every((u) => String(u.shape) === String(feeds[u.name].dims)));
    if (index < 0) throw noPlan(bundle, feeds);
    const plan = bundle.plans[index];
    return { key: String(index), plan: () => ({ ...plan, uniforms: bytesOf(plan.uniforms) }) };
  }
  const dims = dimensions(bundle, feeds), values = evaluate(bundle.sizes, dims);
  const index = pick((plan) => !broken(plan, values).length);
  if (index < 0) throw notAdmitted(bundle, dims, values, suits);
  return { key: `${index}:${dims}`, plan: () => atSizes(bundle.plans[index], values) };
}

function exact(value) {
  if (!Number.isSafeInteger(value)) throw new InputError('these sizes are too large for this model');
  return value;
}

/** Entries of the table in order: dimensions, then sums of products, quotients rounded down, and the larger of two. */
export function evaluate(entries, dims) {
  const v = [...dims];
  for (const [head, ...rest] of entries) {
    let value;
    if (head === '/') value = Math.floor(v[rest[0]] / v[rest[1]]);
    else if (head === 'max') value = Math.max(v[rest[0]], v[rest[1]]);
    else value = rest.reduce((sum, [factor, ...at]) => exact(sum + exact(at.reduce((p, i) => p * v[i], factor))), head);
    v.push(value);
  }
  return v;
}

const HOLDS = { '==': (n) => n === 0, '!=': (n) => n !== 0, '>=': (n) => n >= 0 };
const broken = (plan, values) => plan.guards.filter(([entry, relation]) => !HOLDS[relation](values[entry]));

/** The size of each dimension, which must be the same wherever it stands. */
function dimensions(bundle, feeds) {
  for (const { name, dims: wanted } of bundle.inputs) {
    const given = feeds[name].dims;
    if (given.length !== wanted.length || wanted.some((n, i) => typeof n === 'number' && n !== given[i])) {
      throw new InputError(`input "${name}" must have the shape [${wanted.map((n) => n ?? '?')}], not [${given}]`);
    }
  }
  return bundle.dims.map(({ name, at }) => {
    const [[first, axis], ...others] = at, size = feeds[first].dims[axis];
    for (const [input, a] of others) {
      if (feeds[input].dims[a] !== size) {
        throw new InputError(`dimension ${name} is ${size} in input "${first}" and ${feeds[input].dims[a]} in input "${input}"`);
      }
    }
    if (size < 1) throw new InputError(`dimension ${name} of input "${first}" is ${size}; it must be at least 1`);
    return size;
  });
}

/** A plan with plain numbers. */
function atSizes(plan, values) {
  const number = (x) => (typeof x === 'object' ? values[x.e] : x), numbers = (list) => list.map(number);
  const filled = (item) => Object.fromEntries(Object.entries(item).map(([name, x]) => (
    [name, Array.isArray(x) ? numbers(x) : name === 'name' ? x : number(x)])));
  const uniforms = bytesOf(plan.uniforms), view = new DataView(uniforms.buffer);
  const { steps, types, entries } = plan.fields;
  let at = 0;
  steps.forEach((step, i) => {
    at += step;
    if (types[i] === 'f32') view.setFloat32(at, values[entries[i]], true);
    else view.setInt32(at, values[entries[i]], true);
  });
  const bindings = plan.bindings.map((list) => list.map(numbers));
  return {
    ...plan, uniforms, bindings, groups: plan.groups.map(numbers), flops: numbers(plan.flops),
    bytes: bindings.map(([, ...buffers]) => buffers.reduce((sum, [, , size]) => sum + size, 0)),
    slots: plan.slots.map(filled), uploads: plan.uploads.map(filled), readbacks: plan.readbacks.map(filled),
    staging_bytes: number(plan.staging_bytes),
  };
}

function noPlan(bundle, feeds) {
  const given = bundle.inputs.map(({ name }) => `${name} [${feeds[name].dims}]`).join(', ');
  const known = new Set(bundle.plans.map((p) => p.uploads.map((u) => `${u.name} [${u.shape}]`).join(', ')));
  return new InputError(`this bundle has no plan for ${given}; it has: ${[...known].join('; ')}`);
}

function notAdmitted(bundle, dims, values, suits) {
  const given = bundle.dims.map(({ name }, i) => `${name} = ${dims[i]}`).join(', ');
  const plans = bundle.plans.filter(suits), some = plans.length ? plans : bundle.plans;
  const [failed] = some.map((p) => broken(p, values)).sort((a, b) => a.length - b.length);
  const conditions = failed.map(([, , text]) => text).join(' and ');
  return new InputError(`this bundle has no plan for ${given}: it needs ${conditions}. Export with input_shapes for this size`);
}
