// One workgroup walks one sequence. A barrier stands before the state is read and before it is written again.
var<workgroup> state: array<f32, HIDDEN>;
var<workgroup> cells: array<f32, CELLS>;
var<workgroup> next: array<f32, HIDDEN>;
var<workgroup> rounded: array<f32, ROUNDED>;
var<workgroup> low: array<f32, LANES>;
var<workgroup> high: array<f32, LANES>;

fn held(x: f32) -> f32 {
    return select(x, clamp_nan(x, -u.clip, u.clip), CLIPPED);
}

// The state as the weights see it: itself, or rounded to 256 steps over its range.
fn seen(k: i32) -> f32 {
    if (QUANTIZED) {
        return rounded[k];
    }
    return state[k];
}

fn round_state(lane: i32) {
    low[lane % LANES] = 0.0;
    high[lane % LANES] = 0.0;
    for (var j = lane; j < HIDDEN; j += WG) {
        low[lane % LANES] = min(low[lane % LANES], state[j]);
        high[lane % LANES] = max(high[lane % LANES], state[j]);
    }
    workgroupBarrier();
    var least = 0.0;
    var most = 0.0;
    for (var i = 0; i < LANES; i++) {
        least = min(least, low[i]);
        most = max(most, high[i]);
    }
    let scale = select((most - least) / 255.0, 1.0, most == least);
    let zero = round(-least / scale);
    for (var j = lane; j < HIDDEN; j += WG) {
        rounded[j % ROUNDED] = (clamp(round(state[j] / scale) + zero, 0.0, 255.0) - zero) * scale;
    }
    workgroupBarrier();
}

fn from_state(g: i32, j: i32) -> f32 {
    let row = weight_row(g, j);
    var acc = bias(g, j);
    for (var k = 0; k < HIDDEN - 3; k += 4) {
        acc += weight_at(row, k) * seen(k) + weight_at(row, k + 1) * seen(k + 1)
            + weight_at(row, k + 2) * seen(k + 2) + weight_at(row, k + 3) * seen(k + 3);
    }
    for (var k = HIDDEN - HIDDEN % 4; k < HIDDEN; k++) {
        acc += weight_at(row, k) * seen(k);
    }
    return acc;
}

fn from_reset(j: i32) -> f32 {
    let row = weight_row(2, j);
    var acc = bias(2, j);
    for (var k = 0; k < HIDDEN - 3; k += 4) {
        acc += weight_at(row, k) * cells[k] + weight_at(row, k + 1) * cells[k + 1]
            + weight_at(row, k + 2) * cells[k + 2] + weight_at(row, k + 3) * cells[k + 3];
    }
    for (var k = HIDDEN - HIDDEN % 4; k < HIDDEN; k++) {
        acc += weight_at(row, k) * cells[k];
    }
    return acc;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let n = i32(group.x);
    let length = length_of(n);
    for (var j = i32(lane); j < HIDDEN; j += WG) {
        state[j] = first_h(n, j);
        if (KIND == 2) {
            cells[j] = first_c(n, j);
        }
    }
    for (var s = 0; s < u.steps; s++) {
        let going = s < length;
        let t = select(s, length - 1 - s, REVERSE && going);
        workgroupBarrier();
        if (QUANTIZED) {
            round_state(i32(lane));
        }
        if (KIND == 1) {
            for (var j = i32(lane); j < HIDDEN; j += WG) {
                cells[j] = act_f(held(x_in(t, n, 1, j) + from_state(1, j))) * select(state[j], 1.0, LINEAR);
            }
            workgroupBarrier();
        }
        for (var j = i32(lane); j < HIDDEN; j += WG) {
            var h = 0.0;
            var c = 0.0;
            if (KIND == 0) {
                h = act_f(held(x_in(t, n, 0, j) + from_state(0, j)));
            }
            if (KIND == 1) {
                let z = act_f(held(x_in(t, n, 0, j) + from_state(0, j)));
                var part = 0.0;
                if (LINEAR) {
                    part = cells[j] * from_state(2, j);
                } else {
                    part = from_reset(j);
                }
                h = (1.0 - z) * act_g(held(x_in(t, n, 2, j) + part)) + z * state[j];
            }
            if (KIND == 2) {
                let old = cells[j];
                let i = act_f(held(x_in(t, n, 0, j) + from_state(0, j) + peephole(0, j) * old));
                var f = 1.0 - i;
                if (!COUPLED) {
                    f = act_f(held(x_in(t, n, 2, j) + from_state(2, j) + peephole(2, j) * old));
                }
                c = select(old, f * old + i * act_g(held(x_in(t, n, 3, j) + from_state(3, j))), going);
                let o = act_f(held(x_in(t, n, 1, j) + from_state(1, j) + peephole(1, j) * c));
                h = o * act_h(c);
                cells[j] = c;
            }
            next[j] = select(state[j], h, going);
            store_out(t, s, n, j, select(0.0, h, going), next[j], c);
        }
        workgroupBarrier();
        for (var j = i32(lane); j < HIDDEN; j += WG) {
            state[j] = next[j];
        }
    }
}
