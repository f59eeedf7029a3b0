@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let s = e % u.inner;
    let o = (e / u.inner) % u.result;
    let r = e / (u.inner * u.result);
    let begin = first(o);
    var acc = 0.0;
    for (var t = 0; t < u.taps; t++) {
        acc += weight(o, t) * x(r, clamp(begin + t, 0, u.size - 1), s);
    }
    store_out(r, o, s, acc);
}
