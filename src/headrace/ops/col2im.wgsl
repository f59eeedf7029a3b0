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
    var acc = 0.0;
    for (var tz = 0; tz < KZ; tz++) {
        for (var ty = 0; ty < KY; ty++) {
            for (var tx = 0; tx < KX; tx++) {
                let dz = z0 - tz * DZ;
                let dy = y0 - ty * DY;
                let dx = x0 - tx * DX;
                let oz = dz / SZ;
                let oy = dy / SY;
                let ox = dx / SX;
                let meets = dz >= 0 && dy >= 0 && dx >= 0 && dz % SZ == 0 && dy % SY == 0 && dx % SX == 0;
                if (meets && oz < u.OUT_Z && oy < u.OUT_Y && ox < u.OUT_X) {
                    acc += x(c, (tz * KY + ty) * KX + tx, (oz * u.OUT_Y + oy) * u.OUT_X + ox);
                }
            }
        }
    }
    store_out(q, acc);
}
