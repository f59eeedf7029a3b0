// The page of a profile: figures, cliffs, timeline, roofline, tables. `profile` is the record.

const SVG = 'http://www.w3.org/2000/svg';
const WORK = new Set(['kernel', 'operator', 'step', 'host step']);
const TRACKS = ['host', 'copy', 'device'];
const byId = (id) => document.getElementById(id);
const colour = (kind) => `var(--${kind.replace(' ', '-')})`;

/** An element with attributes and children; texts are never parsed as HTML. */
function make(tag, attributes = {}, ...children) {
  const svg = ['svg', 'g', 'rect', 'line', 'path', 'circle', 'text'].includes(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function time(ms) {
  if (ms >= 1000) return `${(ms / 1000).toPrecision(3)} s`;
  return ms >= 0.1 ? `${ms >= 100 ? ms.toFixed(0) : ms.toPrecision(3)} ms` : `${(1000 * ms).toPrecision(3)} µs`;
}

function amount(value, unit) {
  const steps = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
  const [size, prefix] = steps.find(([s]) => Math.abs(value) >= s) ?? [1, ''];
  return `${Number((value / size).toPrecision(3))} ${prefix}${unit}`;
}

const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;
const tail = (name) => name.replace(/\/$/, '').split('/').slice(-6).join('/');
const someNodes = (nodes) => nodes.slice(0, 3).map(tail).join(' + ') + (nodes.length > 3 ? ` + ${nodes.length - 3} more` : '');

/** What the pointer is told about an event. */
function described(e) {
  const lines = [`${e.name} (${e.kind}): ${time(e.ms)}   10–90 %: ${time(e.p10_ms)} – ${time(e.p90_ms)}`];
  if (e.flops) lines.push(`${amount(e.flops, 'FLOP')}, ${amount(e.flops / e.ms * 1e3, 'FLOP/s')}`);
  if (e.bytes) lines.push(`${amount(e.bytes, 'B')}, ${amount(e.bytes / e.ms * 1e3, 'B/s')}`);
  if (e.share != null) lines.push(`${percent(e.share)} of the roofline, bound by ${e.bound}`);
  if (e.reason) lines.push(e.reason);
  for (const [what, names] of [['nodes', e.nodes], ['tensors', e.tensors]]) {
    if (names.length) lines.push(`${what}: ${names.slice(0, 8).join(', ')}${names.length > 8 ? ', …' : ''}`);
  }
  return lines.join('\n');
}

const tip = byId('tip');
function hint(element, text) {
  element.addEventListener('pointermove', (event) => {
    tip.hidden = false;
    tip.textContent = text();
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  });
  element.addEventListener('pointerleave', () => { tip.hidden = true; });
}

/** One event is chosen at a time; every part of the page shows it. */
const chosen = { event: null, listeners: [] };
function choose(index) {
  chosen.event = index;
  for (const listener of chosen.listeners) listener(index);
}

// ---- figures and cliffs

function figures() {
  const p = profile, predicted = p.runs === 0;
  const work = p.events.filter((e) => WORK.has(e.kind));
  const sum = (kind) => p.events.filter((e) => e.kind === kind);
  const add = (label, value, detail = '') => byId('figures').append(
    make('div', {}, make('span', { class: 'quiet' }, label), make('b', {}, value), make('span', { class: 'quiet' }, detail)));
  add(predicted ? 'a run, predicted' : 'a run', time(p.plain_ms),
    predicted ? 'nothing was run' : `${time(p.ms)} while recorded, ${p.runs} runs`);
  add('pieces of work', String(work.length), `${time(work.reduce((a, e) => a + e.ms, 0))} in all`);
  for (const kind of ['upload', 'readback', 'host step']) {
    const found = sum(kind);
    if (found.length) add(`${kind}s`, String(found.length), amount(found.reduce((a, e) => a + e.bytes, 0), 'B'));
  }
  if (p.peak_bytes) add('device memory', amount(p.peak_bytes, 'B'), 'at the peak');
  if (p.peaks.gflops) add('the device can do', amount(p.peaks.gflops * 1e9, 'FLOP/s'), amount(p.peaks.gbs * 1e9, 'B/s'));
  const cold = Object.entries(p.cold_ms).filter(([, ms]) => ms > 0);
  if (cold.length) byId('figures').append(coldStart(cold));
}

function coldStart(phases) {
  const total = phases.reduce((a, [, ms]) => a + ms, 0);
  const colours = ['record', 'step', 'upload', 'kernel', 'host-step'];
  const bar = make('div', { class: 'cold' }, ...phases.map(([name, ms], i) => {
    const part = make('span', { style: `flex: ${ms}; background: var(--${colours[i % colours.length]})` });
    hint(part, () => `${name}: ${time(ms)}`);
    return part;
  }));
  const text = phases.map(([name, ms]) => `${name} ${time(ms)}`).join(' · ');
  return make('div', {}, make('span', { class: 'quiet' }, 'cold start'), make('b', {}, time(total)), bar,
    make('span', { class: 'quiet' }, text));
}

function cliffs() {
  const list = byId('cliffs');
  const none = 'None: no readback in mid-graph, no host step, no kernel far from what the device can do.';
  if (!profile.cliffs.length) list.replaceWith(make('p', { class: 'quiet' }, none));
  for (const cliff of profile.cliffs) {
    const button = make('button', { type: 'button', onclick: () => choose(cliff.event) },
      make('span', { class: 'kind' }, `${cliff.kind}: `), cliff.text);
    list.append(make('li', {}, button));
  }
}

// ---- timeline

function timeline() {
  const height = 34, top = 22, events = profile.events;
  const last = Math.max(...events.map((e) => e.start_ms + e.span_ms), 1e-6);
  const first = Math.min(...events.map((e) => e.start_ms), 0);
  const tracks = TRACKS.filter((t) => events.some((e) => e.track === t));
  const view = { from: first, to: last };
  const svg = make('svg', { height: top + tracks.length * height + 6, role: 'img', 'aria-label': 'Timeline' });
  byId('timeline').append(svg);
  const left = 56;
  const draw = () => {
    const width = svg.clientWidth || 1000, scale = (width - left - 4) / (view.to - view.from);
    const x = (ms) => left + (ms - view.from) * scale;
    svg.replaceChildren();
    const { step, places } = ticks(view.from, view.to, Math.max(2, Math.floor(width / 110))), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (const ms of places) {
      svg.append(make('line', { class: 'axis', x1: x(ms), x2: x(ms), y1: 16, y2: top + tracks.length * height }));
      if (x(ms) < width - 60) svg.append(make('text', { x: x(ms) + 3, y: 12 }, `${ms.toFixed(digits)} ms`));
    }
    tracks.forEach((t, i) => svg.append(make('text', { x: 0, y: top + i * height + 19 }, t)));
    events.forEach((e, i) => {
      const a = Math.max(x(e.start_ms), left), b = Math.min(x(e.start_ms + e.span_ms), width - 4);
      if (b < left || a > width - 4) return;
      const rect = make('rect', {
        class: `event${chosen.event === i ? ' picked' : ''}`, x: a, y: top + tracks.indexOf(e.track) * height + 3,
        width: Math.max(b - a, 1), height: height - 8, fill: colour(e.kind), 'data-event': i, onclick: () => choose(i),
      });
      hint(rect, () => described(e));
      svg.append(rect);
    });
  };
  moves(svg, view, left, first, last, draw);
  chosen.listeners.push((i) => { if (i != null) reveal(view, events[i], first, last); draw(); });
  new ResizeObserver(draw).observe(svg);
  const kinds = [...new Set(events.map((e) => e.kind))];
  byId('legend').append(...kinds.map((k) => make('span', {}, make('i', { style: `background: ${colour(k)}` }), k)));
}

function ticks(from, to, most) {
  const rough = (to - from) / most, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= rough);
  const all = Array.from({ length: Math.floor((to - from) / step) + 2 }, (_, i) => (Math.ceil(from / step) + i) * step);
  return { step, places: all.filter((t) => t <= to) };
}

/** If an event is too narrow to be seen, zoom to it and what is around it. */
function reveal(view, e, first, last) {
  const width = Math.min(Math.max(e.span_ms * 40, (last - first) / 400), last - first);
  if (e.span_ms > (view.to - view.from) / 40 && e.start_ms >= view.from && e.start_ms + e.span_ms <= view.to) return;
  view.from = Math.max(first, e.start_ms + e.span_ms / 2 - width / 2);
  view.to = Math.min(last, view.from + width);
}

function moves(svg, view, left, first, last, draw) {
  const set = (from, to) => {
    const span = Math.min(Math.max(to - from, (last - first) / 1e5), last - first);
    view.from = Math.min(Math.max(from, first), last - span);
    view.to = view.from + span;
    draw();
  };
  svg.addEventListener('wheel', (event) => {
    event.preventDefault();
    const part = Math.max((event.offsetX - left) / (svg.clientWidth - left), 0), span = view.to - view.from;
    const next = span * (event.deltaY > 0 ? 1.25 : 0.8), at = view.from + part * span;
    set(at - part * next, at + (1 - part) * next);
  }, { passive: false });
  let from = null;
  svg.addEventListener('pointerdown', (event) => { from = { x: event.clientX, at: view.from }; });
  addEventListener('pointermove', (event) => {
    if (!from || Math.abs(event.clientX - from.x) < 3) return;
    const span = view.to - view.from, moved = (from.x - event.clientX) / (svg.clientWidth - left) * span;
    set(from.at + moved, from.at + moved + span);
  });
  addEventListener('pointerup', () => { from = null; });
  svg.addEventListener('dblclick', () => set(first, last));
}

// ---- roofline

function roofline() {
  const { gflops, gbs } = profile.peaks;
  const dots = profile.events.map((e, i) => ({ e, i })).filter(({ e }) => e.flops > 0 && e.bytes > 0 && e.ms > 0);
  if (!gflops || !gbs || !dots.length) { byId('roofline-section').remove(); return; }
  const intensity = ({ e }) => e.flops / e.bytes, rate = ({ e }) => e.flops / e.ms / 1e6, ridge = gflops / gbs;
  const decades = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const [x0, x1] = decades([...dots.map(intensity), ridge / 3, ridge * 3]);
  const [y0, y1] = decades([...dots.map(rate), gflops * 1.05]);
  const height = 340, left = 62, right = 24, bottom = 34, top = 22;
  const svg = make('svg', { height, role: 'img', 'aria-label': 'Roofline' });
  byId('roofline').append(svg);
  const draw = () => {
    const width = svg.clientWidth || 1000;
    const x = (v) => left + (Math.log10(v) - x0) / (x1 - x0) * (width - left - right);
    const y = (v) => height - bottom - (Math.log10(v) - y0) / (y1 - y0) * (height - bottom - top);
    svg.replaceChildren();
    for (let d = x0; d <= x1; d++) {
      svg.append(make('line', { class: 'axis', x1: x(10 ** d), x2: x(10 ** d), y1: top, y2: height - bottom }),
        make('text', { x: x(10 ** d), y: height - bottom + 14, 'text-anchor': 'middle' }, String(10 ** d)));
    }
    for (let d = y0; d <= y1; d++) {
      svg.append(make('line', { class: 'axis', x1: left, x2: width - right, y1: y(10 ** d), y2: y(10 ** d) }),
        make('text', { x: left - 6, y: y(10 ** d) + 4, 'text-anchor': 'end' }, amount(10 ** (d + 9), '')));
    }
    svg.append(make('text', { x: width - right, y: height - 4, 'text-anchor': 'end' }, 'operations per byte'),
      make('text', { x: 4, y: 10 }, 'FLOP/s'));
    const least = Math.max(10 ** x0, 10 ** y0 / gbs), corners = [[least, least * gbs], [ridge, gflops], [10 ** x1, gflops]];
    svg.append(make('path', { class: 'roof', d: `M${corners.map(([i, rate]) => `${x(i)} ${y(rate)}`).join(' L')}` }));
    const longest = Math.max(...dots.map(({ e }) => e.ms));
    for (const dot of dots) {
      const circle = make('circle', {
        class: `dot${chosen.event === dot.i ? ' picked' : ''}`, cx: x(intensity(dot)), cy: y(rate(dot)),
        r: 3 + 11 * Math.sqrt(dot.e.ms / longest), fill: colour(dot.e.kind), onclick: () => choose(dot.i),
      });
      hint(circle, () => described(dot.e));
      svg.append(circle);
    }
  };
  chosen.listeners.push(draw);
  new ResizeObserver(draw).observe(svg);
}

// ---- tables

/** A table that sorts by the column whose head is clicked. Columns are [head, value of an event, text of it, class]. */
function table(id, rows, columns, sorted) {
  const element = byId(id), head = make('tr'), body = make('tbody');
  let order = { column: sorted, down: true };
  const fill = () => {
    const value = columns[order.column][1], sign = order.down ? -1 : 1;
    const before = (a, b) => (typeof a === 'string' ? a.localeCompare(b) : (a ?? -1) - (b ?? -1));
    const ordered = [...rows].sort((a, b) => sign * before(value(a.e), value(b.e)) || a.i - b.i);
    body.replaceChildren(...ordered.map(({ e, i }) => {
      const cells = columns.map(([, of, text, kind]) => make('td', { class: kind }, text ? text(e) : String(of(e))));
      const row = make('tr', { class: chosen.event === i ? 'chosen' : '', 'data-event': i, onclick: () => choose(i) }, ...cells);
      hint(row, () => described(e));
      return row;
    }));
    [...head.children].forEach((cell, c) => {
      cell.setAttribute('aria-sort', c !== order.column ? 'none' : order.down ? 'descending' : 'ascending');
    });
  };
  columns.forEach(([name, , , kind], c) => head.append(make('th', { class: kind }, make('button', {
    type: 'button', onclick: () => { order = { column: c, down: c === order.column ? !order.down : !kind }; fill(); },
  }, name))));
  element.append(make('thead', {}, head), body);
  fill();
  chosen.listeners.push((chosenIndex) => {
    for (const row of body.children) row.classList.toggle('chosen', row.dataset.event === String(chosenIndex));
    const row = body.querySelector('.chosen');
    if (row) element.parentElement.scrollTop = row.offsetTop - element.parentElement.clientHeight / 2;
  });
}

function tables() {
  const rows = profile.events.map((e, i) => ({ e, i }));
  const work = rows.filter(({ e }) => WORK.has(e.kind)), total = work.reduce((a, { e }) => a + e.ms, 0) || 1;
  const longest = Math.max(...work.map(({ e }) => e.ms), 1e-9);
  const share = (e) => make('span', {}, percent(e.ms / total),
    make('span', { class: 'bar', style: `width: ${60 * e.ms / longest}px; background: ${colour(e.kind)}` }));
  table('work', work, [
    ['kernel', (e) => e.name, (e) => e.name + (['kernel', 'operator'].includes(e.kind) ? '' : ` (${e.kind})`), 'text'],
    ['does the work of', (e) => e.nodes.join(), (e) => someNodes(e.nodes), 'text names'],
    ['ms', (e) => e.ms, (e) => e.ms.toFixed(3)], ['share', (e) => e.ms, share],
    ['MFLOP', (e) => e.flops, (e) => (e.flops ? (e.flops / 1e6).toFixed(2) : '–')],
    ['MB', (e) => e.bytes, (e) => (e.bytes / 1e6).toFixed(3)],
    ['GFLOP/s', (e) => e.flops / e.ms, (e) => (e.flops ? (e.flops / e.ms / 1e6).toPrecision(3) : '–')],
    ['GB/s', (e) => e.bytes / e.ms, (e) => (e.bytes / e.ms / 1e6).toPrecision(3)],
    ['of the roofline', (e) => e.share, (e) => (e.share == null ? '–' : percent(e.share))],
  ], 2);
  const copies = rows.filter(({ e }) => !WORK.has(e.kind));
  if (!copies.length) { byId('copies-section').remove(); return; }
  table('copies', copies, [
    ['what', (e) => e.kind, (e) => e.kind + (e.before_host ? ' in mid-graph' : ''), 'text'],
    ['tensors', (e) => e.tensors.join(), (e) => someNodes(e.tensors), 'text names'],
    ['at, ms', (e) => e.start_ms, (e) => e.start_ms.toFixed(3)],
    ['ms', (e) => e.ms, (e) => e.ms.toFixed(3)], ['bytes', (e) => e.bytes, (e) => e.bytes.toLocaleString('en')],
  ], 3);
}

function notes() {
  if (!profile.notes.length) byId('notes-section').remove();
  for (const n of profile.notes) {
    byId('notes').append(make('li', {}, make('b', {}, n.refused ? 'refused: ' : ''), `${n.node || 'model'}: ${n.text}`));
  }
}

function theme() {
  const button = byId('theme'), root = document.documentElement;
  const set = (name) => { root.dataset.theme = name; button.textContent = name === 'dark' ? 'light' : 'dark'; };
  const dark = matchMedia('(prefers-color-scheme: dark)');
  set(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => set(dark.matches ? 'dark' : 'light'));
  button.addEventListener('click', () => set(root.dataset.theme === 'dark' ? 'light' : 'dark'));
}

theme();
document.title = `${profile.model} · headrace profile`;
byId('model').textContent = profile.model;
const shapes = Object.entries(profile.inputs).map(([n, s]) => `${n} [${s.join(', ')}]`).join(', ');
const adapter = profile.adapter + (profile.software ? ' (software)' : '');
const predicted = profile.runs === 0 ? ' · predicted by roofline, at best: nothing was run' : '';
byId('where').textContent = `${profile.device}: ${adapter} · ${shapes}${predicted}`;
byId('footer').textContent = `headrace ${profile.headrace} · ${profile.date} · ${Object.values(profile.machine).join(' · ')}`;
figures(); cliffs(); timeline(); roofline(); tables(); notes(); graphs();
