// out[b, q * STRIDE + phase - BEGIN] = sum over j of frame q - j of signal b at k = phase + j * STRIDE, windowed. A thread
// takes 4 neighbouring q, which share the window, and up to 16 neighbouring phases, so that it writes whole cache lines;
// its neighbours read neighbouring frames.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * u32(u.GROUPS_X) + group.x) * 64u + lane;
    if (i >= u.SIZE) {
        return;
    }
    let q = i32(i % u32(u.QUARTERS)) * 4 + u.FIRST;
    let rest = i32(i / u32(u.QUARTERS));
    let b = rest % u.BATCH;
    let start = (rest / u.BATCH) * 16;
    let stop = min(start + 16, min(u.STRIDE, u.TAPS));
    let low = max(q - u.FRAMES + 1, 0);
    let high = min(q + 3, (u.TAPS - 1) / u.STRIDE);
    let last = u.FRAMES - 1;
    for (var phase = start; phase < stop; phase++) {
        var sum = vec4<f32>();
        for (var j = low; j <= high; j++) {
            let f = q - j;
            let k = min(phase + j * u.STRIDE, u.TAPS - 1);
            var at = k;
            if (WRAPS) {
                at = k % u.LENGTH;
            }
            let x0 = select(0.0, x_at(x_row(b, at), clamp(f, 0, last)), (f >= 0) & (f <= last));
            let x1 = select(0.0, x_at(x_row(b, at), clamp(f + 1, 0, last)), (f >= -1) & (f < last));
            let x2 = select(0.0, x_at(x_row(b, at), clamp(f + 2, 0, last)), (f >= -2) & (f < last - 1));
            let x3 = select(0.0, x_at(x_row(b, at), clamp(f + 3, 0, last)), (f >= -3) & (f < last - 2));
            let there = phase + j * u.STRIDE < u.TAPS;
            sum += select(0.0, window(k), there) * vec4<f32>(x0, x1, x2, x3);
        }
        let o = q * u.STRIDE + phase - u.BEGIN;
        store(b, o, sum.x);
        store(b, o + u.STRIDE, sum.y);
        store(b, o + 2 * u.STRIDE, sum.z);
        store(b, o + 3 * u.STRIDE, sum.w);
    }
    for (var phase = max(start, u.TAPS); phase < min(start + 16, u.STRIDE); phase++) {
        for (var n = 0; n < 4; n++) {
            store(b, (q + n) * u.STRIDE + phase - u.BEGIN, 0.0);
        }
    }
}

fn store(b: i32, o: i32, v: f32) {
    if ((o >= 0) & (o < u.OUT)) {
        store_out(b, o, v);
    }
}
