// out[b, q * STRIDE + phase - BEGIN] = sum over j of frame q - j of signal b at k = phase + j * STRIDE, windowed. A thread
// takes up to 16 neighbouring phases of one q, so it writes whole cache lines; its neighbours read neighbouring frames.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * u32(u.GROUPS_X) + group.x) * 64u + lane;
    if (i >= u.SIZE) {
        return;
    }
    let q = i32(i % u32(u.COUNT)) + u.FIRST;
    let rest = i32(i / u32(u.COUNT));
    let b = rest % u.BATCH;
    let start = (rest / u.BATCH) * 16;
    let stop = min(start + 16, u.STRIDE);
    let low = max(q - u.FRAMES + 1, 0);
    for (var phase = start; phase < stop; phase++) {
        let o = q * u.STRIDE + phase - u.BEGIN;
        var sum = 0.0;
        let high = min(q, (u.TAPS - 1 - phase) / u.STRIDE);
        for (var j = low; (j <= high) & (phase < u.TAPS); j++) {
            let k = phase + j * u.STRIDE;
            sum += x(b, k % u.LENGTH, q - j) * window(k);
        }
        if ((o >= 0) & (o < u.OUT)) {
            store_out(b, o, sum);
        }
    }
}
