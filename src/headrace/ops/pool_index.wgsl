@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (i >= u.rows) {
        return;
    }
    let o = i % u.OUT;
    let channel = i / u.OUT;
    let z0 = o / u.OUT_YX * SZ - PZ;
    let y0 = (o % u.OUT_YX) / u.OUT_X * SY - PY;
    let x0 = (o % u.OUT_X) * SX - PX;
    var best = 0.0;
    var at = -1;
    for (var tz = 0; tz < KZ; tz++) {
        for (var ty = 0; ty < KY; ty++) {
            for (var tx = 0; tx < KX; tx++) {
                let z = z0 + tz * DZ;
                let y = y0 + ty * DY;
                let x = x0 + tx * DX;
                if (z >= 0 && z < u.IN_Z && y >= 0 && y < u.IN_Y && x >= 0 && x < u.IN_X) {
                    let v = x_in(channel, z, y, x);
                    if (at < 0 || v > best || (is_nan(v) && !is_nan(best))) {
                        best = v;
                        at = select((z * u.IN_Y + y) * u.IN_X + x, (x * u.IN_Y + y) * u.IN_Z + z, COLUMN_MAJOR);
                    }
                }
            }
        }
    }
    store_out(i, max(at, 0) + channel * u.IN_Z * u.IN_Y * u.IN_X);
}
