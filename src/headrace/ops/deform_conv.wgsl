fn pixel(n: i32, c: i32, y: i32, x: i32) -> f32 {
    let inside = y >= 0 && y < u.IN_Y && x >= 0 && x < u.IN_X;
    return select(0.0, x_in(n, c, clamp(y, 0, u.IN_Y - 1), clamp(x, 0, u.IN_X - 1)), inside);
}

fn between(n: i32, c: i32, py: f32, px: f32) -> f32 {
    let y = clamp(py, -2.0, f32(u.IN_Y) + 1.0);
    let x = clamp(px, -2.0, f32(u.IN_X) + 1.0);
    let y0 = i32(floor(y));
    let x0 = i32(floor(x));
    let fy = y - f32(y0);
    let fx = x - f32(x0);
    let upper = pixel(n, c, y0, x0) * (1.0 - fx) + pixel(n, c, y0, x0 + 1) * fx;
    let lower = pixel(n, c, y0 + 1, x0) * (1.0 - fx) + pixel(n, c, y0 + 1, x0 + 1) * fx;
    return upper * (1.0 - fy) + lower * fy;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let o = e % u.OUT;
    let m = (e / u.OUT) % u.rows;
    let n = e / (u.OUT * u.rows);
    let first = (m / u.rows_group) * u.channels;
    let y0 = f32((o / u.OUT_X) * SY - PY);
    let x0 = f32((o % u.OUT_X) * SX - PX);
    var acc = 0.0;
    for (var c = 0; c < u.channels; c++) {
        let g = (first + c) / u.channels_offset;
        for (var t = 0; t < KY * KX; t++) {
            let y = y0 + f32((t / KX) * DY) + offset(n, g, t, 0, o);
            let x = x0 + f32((t % KX) * DX) + offset(n, g, t, 1, o);
            acc += weight(m, c, t) * mask(n, g, t, o) * between(n, first + c, y, x);
        }
    }
    store_out(n, m, o, acc);
}
