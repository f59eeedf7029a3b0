// Two graphs side by side: the model as it is written, and what runs. Each node is a row; edges run in lanes beside them.

const HIGHEST = 520, ROW = 20, LANE = 9, MOST_LANES = 14;

/** Rows of the model: nodes with what they read of each other. */
function writtenRows(showFolded) {
  const shown = profile.graph.map((n, i) => ({ n, i })).filter(({ n }) => showFolded || n.events.length);
  return linked(shown.map(({ n, i }) => ({
    key: i, title: n.op_type, detail: tail(n.name), whole: n.name, fate: n.fate, events: n.events,
    reads: n.inputs, makes: n.outputs,
  })));
}

/** Rows of what runs, one for each piece of work; a tensor that is made by no work passes through. */
function runRows() {
  const work = profile.events.map((e, i) => ({ e, i })).filter(({ e }) => WORK.has(e.kind));
  const nodesOf = new Map(work.map(({ i }) => [i, []]));
  const sources = new Map();  // tensor made without work -> the tensors that it comes from
  for (const n of profile.graph) {
    for (const i of n.events) nodesOf.get(i)?.push(n);
    if (!n.events.length) for (const name of n.outputs) sources.set(name, n.inputs);
  }
  const through = (names, seen = new Set()) => names.flatMap((name) => {
    if (!sources.has(name) || seen.has(name)) return [name];
    return through(sources.get(name), seen.add(name));
  });
  return linked(work.map(({ e, i }) => {
    const nodes = nodesOf.get(i);
    return {
      key: i, title: e.name, detail: someNodes(e.nodes), whole: e.nodes.join(' '), fate: e.kind, events: [i], ms: e.ms,
      reads: through(nodes.flatMap((n) => n.inputs)), makes: nodes.flatMap((n) => n.outputs),
    };
  }));
}

/** Adds to each row the earlier rows that it reads. */
function linked(rows) {
  const maker = new Map();
  rows.forEach((row, i) => {
    row.from = [...new Set(row.reads.map((name) => maker.get(name)).filter((j) => j !== undefined && j !== i))];
    for (const name of row.makes) maker.set(name, i);
  });
  return rows;
}

/** A lane for each edge, so that edges which overlap lie beside each other. Edges to the next row need none. */
function lanes(rows) {
  const edges = rows.flatMap((row, to) => row.from.map((from) => ({ from, to }))).sort((a, b) => a.from - b.from || b.to - a.to);
  const ends = [];
  for (const edge of edges) {
    let lane = ends.findIndex((end) => end <= edge.from);
    if (lane < 0) lane = ends.length < MOST_LANES ? ends.push(0) - 1 : MOST_LANES - 1;
    ends[lane] = Math.max(ends[lane], edge.to);
    edge.lane = lane;
  }
  return { edges, width: Math.max(ends.length, 1) * LANE + 14 };
}

/** Draws rows into a box: only those that can be seen, so that long graphs scroll well. */
function graphView(box, pick) {
  let rows = [], plan = { edges: [], width: 0 }, marked = new Set();
  const inner = make('div', { class: 'rows' });
  box.append(inner);
  const y = (i) => i * ROW + ROW / 2;
  const draw = () => {
    const first = Math.max(Math.floor(box.scrollTop / ROW) - 5, 0), last = first + Math.ceil(box.clientHeight / ROW) + 10;
    const svg = make('svg', { width: plan.width, height: Math.max(rows.length * ROW, 1), style: `width: ${plan.width}px` });
    for (const { from, to, lane } of plan.edges) {
      if (to < first || from > last) continue;
      const x = plan.width - 8, side = x - 5 - lane * LANE;
      svg.append(make('path', { class: 'edge', d: `M${x} ${y(from)} H${side} V${y(to)} H${x}` }));
    }
    const texts = rows.slice(first, last).map((row, k) => {
      const i = first + k;
      const kind = row.events.length ? row.fate : 'wait';
      svg.append(make('circle', { cx: plan.width - 8, cy: y(i), r: 3.5, fill: colour(kind) }));
      const element = make('div', {
        class: `row${marked.has(row.key) ? ' chosen' : ''}`, style: `top: ${i * ROW}px; padding-left: ${plan.width + 2}px`,
        'data-key': row.key, title: row.whole, onclick: () => pick(row),
      }, make('b', {}, row.title), ' ', make('em', {}, row.detail + (row.ms ? ` · ${time(row.ms)}` : '')));
      return element;
    });
    inner.style.height = `${rows.length * ROW}px`;
    inner.replaceChildren(...texts, svg);
  };
  box.addEventListener('scroll', draw);
  new ResizeObserver(draw).observe(box);
  return {
    show: (next) => {
      rows = next; plan = lanes(rows);
      box.style.height = `${Math.min(HIGHEST, rows.length * ROW + 10)}px`;
      draw();
    },
    mark: (keys, scroll) => {
      marked = keys;
      const at = rows.findIndex((row) => keys.has(row.key));
      if (scroll && at >= 0) box.scrollTop = at * ROW - box.clientHeight / 2;
      draw();
    },
  };
}

const FATES = {
  folded: 'its value is known before a run, so nothing is left of it',
  gone: 'it needs no work of its own: a view, fused by the runtime, known once the shapes are, or not needed',
};

function graphs() {
  const nodes = profile.graph, whole = { written: [], run: runRows() };
  byId('folded-count').textContent = String(nodes.filter((n) => !n.events.length).length);
  const tell = (text) => { byId('chosen').textContent = text; };
  const written = graphView(byId('written'), (row) => {
    written.mark(new Set([row.key]), false);
    run.mark(new Set(row.events), true);
    const done = row.events.map((i) => `${profile.events[i].name} (${time(profile.events[i].ms)})`).join(', ');
    tell(`${row.title} ${row.whole}: ${row.events.length ? `done by ${done}` : FATES[row.fate]}`);
  });
  const run = graphView(byId('run'), (row) => choose(row.key));
  chosen.listeners.push((i) => {
    const event = i == null ? null : profile.events[i];
    if (!event || !WORK.has(event.kind)) return;
    run.mark(new Set([i]), true);
    written.mark(new Set(nodes.flatMap((n, k) => (n.events.includes(i) ? [k] : []))), true);
    tell(`${event.name} (${time(event.ms)}) does the work of ${event.nodes.join(', ') || 'no node of the model'}`);
  });
  const show = () => {
    const text = byId('filter').value.trim().toLowerCase();
    const fits = (row) => !text || `${row.title} ${row.whole} ${row.fate}`.toLowerCase().includes(text);
    whole.written = writtenRows(byId('folded').checked);
    written.show(text ? linked(whole.written.filter(fits)) : whole.written);
    run.show(text ? linked(whole.run.filter(fits)) : linked(whole.run));
  };
  byId('filter').addEventListener('input', show);
  byId('folded').addEventListener('change', show);
  show();
}
