fn reflected(x: f32, n: i32) -> f32 {
    let low = select(-0.5, 0.0, ALIGN);
    let high = f32(n) - select(0.5, 1.0, ALIGN);
    let range = high - low;
    let beyond = select(x - high, low - x, x < low);
    if (range <= 0.0) {
        return 0.0;
    }
    if (beyond <= 0.0) {
        return x;
    }
    let turns = floor(beyond / range);
    let rest = beyond - turns * range;
    let even = i32(turns) % 2 == 0;
    return select(low + rest, high - rest, (x < low) != even);
}

// The position on an axis of size n that a grid value in -1..1 means, moved inside where the padding says so.
fn position(value: f32, n: i32) -> f32 {
    let size = f32(n);
    var x = select(((value + 1.0) * size - 1.0) / 2.0, (value + 1.0) / 2.0 * (size - 1.0), ALIGN);
    if (MODE == 0) {
        x = round(x);
    }
    if (PADDING == 1) {
        x = clamp(x, 0.0, size - 1.0);
    }
    if (PADDING == 2) {
        x = reflected(x, n);
    }
    return clamp(x, -1073741824.0, 1073741824.0);
}

fn weight_of(fraction: f32, t: i32) -> f32 {
    if (MODE == 0) {
        return 1.0;
    }
    if (MODE == 1) {
        return select(1.0 - fraction, fraction, t == 1);
    }
    let d = abs(f32(t - 1) - fraction);
    let near = (1.25 * d - 2.25) * d * d + 1.0;
    let far = ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0;
    return select(far, near, d <= 1.0);
}

fn index_of(i: i32, n: i32) -> i32 {
    if (PADDING == 2) {
        return clamp(i32(reflected(f32(i), n)), 0, n - 1);
    }
    return clamp(i, 0, n - 1);
}

fn counts(i: i32, n: i32) -> f32 {
    return select(0.0, 1.0, PADDING != 0 || (i >= 0 && i < n));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let p = e % u.positions;
    let c = (e / u.positions) % u.channels;
    let n = e / (u.positions * u.channels);
    let x = position(grid(n, p, 0), u.size_x);
    var y = 0.0;
    var z = 0.0;
    if (RANK > 1) {
        y = position(grid(n, p, 1), u.size_y);
    }
    if (RANK > 2) {
        z = position(grid(n, p, 2), u.size_z);
    }
    let back = TAPS / 2 - select(1, 0, TAPS == 1);
    let x0 = i32(floor(x));
    let y0 = i32(floor(y));
    let z0 = i32(floor(z));
    var acc = 0.0;
    for (var tz = 0; tz < select(1, TAPS, RANK > 2); tz++) {
        let iz = select(0, z0 + tz - back, RANK > 2);
        let wz = select(1.0, weight_of(z - f32(z0), tz) * counts(iz, u.size_z), RANK > 2);
        for (var ty = 0; ty < select(1, TAPS, RANK > 1); ty++) {
            let iy = select(0, y0 + ty - back, RANK > 1);
            let wy = wz * select(1.0, weight_of(y - f32(y0), ty) * counts(iy, u.size_y), RANK > 1);
            for (var tx = 0; tx < TAPS; tx++) {
                let ix = x0 + tx - back;
                let w = wy * weight_of(x - f32(x0), tx) * counts(ix, u.size_x);
                acc += w * x_in(n, c, index_of(iz, u.size_z), index_of(iy, u.size_y), index_of(ix, u.size_x));
            }
        }
    }
    store_out(n, c, p, acc);
}
