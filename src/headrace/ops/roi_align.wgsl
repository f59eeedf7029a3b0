// The four weighted pixels around a point: (0,0), (0,1), (1,0), (1,1). A point outside the image has none.
fn around(n: i32, c: i32, py: f32, px: f32) -> vec4<f32> {
    let inside = py >= -1.0 && py <= f32(u.height) && px >= -1.0 && px <= f32(u.width);
    let y = clamp(py, 0.0, f32(u.height - 1));
    let x = clamp(px, 0.0, f32(u.width - 1));
    let y0 = i32(y);
    let x0 = i32(x);
    let y1 = min(y0 + 1, u.height - 1);
    let x1 = min(x0 + 1, u.width - 1);
    let fy = y - f32(y0);
    let fx = x - f32(x0);
    let w = vec4<f32>((1.0 - fy) * (1.0 - fx), (1.0 - fy) * fx, fy * (1.0 - fx), fy * fx);
    let v = vec4<f32>(x_in(n, c, y0, x0), x_in(n, c, y0, x1), x_in(n, c, y1, x0), x_in(n, c, y1, x1));
    return select(vec4<f32>(0.0), w * v, inside);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let bx = e % u.bins_x;
    let by = (e / u.bins_x) % u.bins_y;
    let c = (e / (u.bins_x * u.bins_y)) % u.channels;
    let r = e / (u.bins_x * u.bins_y * u.channels);
    let n = clamp(batch_of(r), 0, u.batch - 1);
    let shift = select(0.0, 0.5, HALF_PIXEL);
    let x0 = box(r, 0) * u.scale - shift;
    let y0 = box(r, 1) * u.scale - shift;
    let least = select(1.0, -1e30, HALF_PIXEL);
    let bin_x = max(box(r, 2) * u.scale - shift - x0, least) / f32(u.bins_x);
    let bin_y = max(box(r, 3) * u.scale - shift - y0, least) / f32(u.bins_y);
    let count_x = select(i32(ceil(bin_x)), RATIO, RATIO > 0);
    let count_y = select(i32(ceil(bin_y)), RATIO, RATIO > 0);
    var sum = 0.0;
    var best = -3.4e38;
    for (var sy = 0; sy < count_y; sy++) {
        let py = y0 + (f32(by) + (f32(sy) + 0.5) / f32(count_y)) * bin_y;
        for (var sx = 0; sx < count_x; sx++) {
            let px = x0 + (f32(bx) + (f32(sx) + 0.5) / f32(count_x)) * bin_x;
            let v = around(n, c, py, px);
            sum += v.x + v.y + v.z + v.w;
            best = max(best, max(max(v.x, v.y), max(v.z, v.w)));
        }
    }
    let count = max(count_x * count_y, 1);
    let none = count_x < 1 || count_y < 1;
    store_out(r, c, by, bx, select(sum / f32(count), select(best, 0.0, none), LARGEST));
}
