fn first_window(at: i32, taps: i32, stride: i32) -> i32 {
    return max(at - taps + stride, 0) / stride;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let q = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (q >= u.total) {
        return;
    }
    let x0 = q % u.IN_X + PX;
    let y0 = (q / u.IN_X) % u.IN_Y + PY;
    let z0 = (q / (u.IN_X * u.IN_Y)) % u.IN_Z + PZ;
    let c = q / (u.IN_X * u.IN_Y * u.IN_Z);
    var value = 0.0;
    for (var oz = first_window(z0, KZ, SZ); oz <= min(z0 / SZ, u.OUT_Z - 1); oz++) {
        for (var oy = first_window(y0, KY, SY); oy <= min(y0 / SY, u.OUT_Y - 1); oy++) {
            for (var ox = first_window(x0, KX, SX); ox <= min(x0 / SX, u.OUT_X - 1); ox++) {
                let o = (oz * u.OUT_Y + oy) * u.OUT_X + ox;
                if (index(c, o) == q) {
                    value = x(c, o);
                }
            }
        }
    }
    store_out(q, value);
}
