@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (i >= u.rows) {
        return;
    }
    let q = u32(i);
    let o = q % u32(u.OUT);
    let r = o % u32(u.OUT_YX);
    let channel = i32(q / u32(u.OUT));
    let z0 = i32(o / u32(u.OUT_YX)) * SZ - PZ;
    let y0 = i32(r / u32(u.OUT_X)) * SY - PY;
    let x0 = i32(r % u32(u.OUT_X)) * SX - PX;
    var acc = u.start;
    var count = 0;
    for (var tz = 0; tz < KZ; tz++) {
        for (var ty = 0; ty < KY; ty++) {
            for (var tx = 0; tx < KX; tx++) {
                let z = z0 + tz * DZ;
                let y = y0 + ty * DY;
                let x = x0 + tx * DX;
                if (z >= 0 && z < u.IN_Z && y >= 0 && y < u.IN_Y && x >= 0 && x < u.IN_X) {
                    acc = combine(acc, x_in(channel, z, y, x));
                }
                if (z < u.IN_Z + u.AFTER_Z && y < u.IN_Y + u.AFTER_Y && x < u.IN_X + u.AFTER_X) {
                    count += select(0, 1, ALL || (z >= 0 && z < u.IN_Z && y >= 0 && y < u.IN_Y && x >= 0 && x < u.IN_X));
                }
            }
        }
    }
    store_out(i, finish(acc, f32(max(count, 1))));
}
