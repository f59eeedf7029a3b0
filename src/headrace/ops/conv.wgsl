// Convolution as an implicit matrix product: rows are output channels of a group, columns are output positions of the
// whole batch, the sum runs over taps and then channels. A thread holds TM channels and TN positions in registers; the
// lanes of a workgroup stand on neighbouring positions, so weight loads are the same for all of them.
struct Spot { n: i32, z: i32, y: i32, x: i32 }

fn spot(p: i32) -> Spot {
    let q = u32(p);
    let o = q % u32(u.OUT);
    let r = o % u32(u.OUT_YX);
    return Spot(i32(q / u32(u.OUT)), i32(o / u32(u.OUT_YX)) * SZ - PZ, i32(r / u32(u.OUT_X)) * SY - PY, i32(r % u32(u.OUT_X)) * SX - PX);
}

fn inside(s: Spot, z: i32, y: i32, x: i32) -> bool {
    // Without short circuits: eight of them here would make SwiftShader copy the loops below for each combination.
    return !PADDED | ((u32(s.z + z) < u32(u.IN_Z)) & (u32(s.y + y) < u32(u.IN_Y)) & (u32(s.x + x) < u32(u.IN_X)));
}

fn row(g: i32, s: Spot, z: i32, y: i32, x: i32) -> Row_x {
    return x_row(g, s.n, clamp(s.z + z, 0, u.IN_Z - 1), clamp(s.y + y, 0, u.IN_Y - 1), clamp(s.x + x, 0, u.IN_X - 1));
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let g = i32(group.z);
    let m = i32(group.y) * TM;
    let n = i32(group.x) * (LANES * TN) + i32(lane);
    let last = u.N - 1;
    let o0 = spot(min(n, last));
    let o1 = spot(min(n + 1 * LANES, last));
    let o2 = spot(min(n + 2 * LANES, last));
    let o3 = spot(min(n + 3 * LANES, last));
    let o4 = spot(min(n + 4 * LANES, last));
    let o5 = spot(min(n + 5 * LANES, last));
    let o6 = spot(min(n + 6 * LANES, last));
    let o7 = spot(min(n + 7 * LANES, last));
    var s0 = vec4<f32>();
    var t0 = vec4<f32>();
    var s1 = vec4<f32>();
    var t1 = vec4<f32>();
    var s2 = vec4<f32>();
    var t2 = vec4<f32>();
    var s3 = vec4<f32>();
    var t3 = vec4<f32>();
    var s4 = vec4<f32>();
    var t4 = vec4<f32>();
    var s5 = vec4<f32>();
    var t5 = vec4<f32>();
    var s6 = vec4<f32>();
    var t6 = vec4<f32>();
    var s7 = vec4<f32>();
    var t7 = vec4<f32>();
    for (var tap = 0; tap < u.TAPS; tap++) {
        let z = (tap / (KY * KX)) * DZ;
        let y = ((tap / KX) % KY) * DY;
        let x = (tap % KX) * DX;
        let i0 = inside(o0, z, y, x);
        let x0 = row(g, o0, z, y, x);
        let i1 = inside(o1, z, y, x);
        let x1 = row(g, o1, z, y, x);
        let i2 = inside(o2, z, y, x);
        let x2 = row(g, o2, z, y, x);
        let i3 = inside(o3, z, y, x);
        let x3 = row(g, o3, z, y, x);
        let i4 = inside(o4, z, y, x);
        let x4 = row(g, o4, z, y, x);
        let i5 = inside(o5, z, y, x);
        let x5 = row(g, o5, z, y, x);
        let i6 = inside(o6, z, y, x);
        let x6 = row(g, o6, z, y, x);
        let i7 = inside(o7, z, y, x);
        let x7 = row(g, o7, z, y, x);
        let w0 = w_row(g, m, tap);
        let w1 = w_row(g, min(m + 1, u.M - 1), tap);
        let w2 = w_row(g, min(m + 2, u.M - 1), tap);
        let w3 = w_row(g, min(m + 3, u.M - 1), tap);
        let w4 = w_row(g, min(m + 4, u.M - 1), tap);
        let w5 = w_row(g, min(m + 5, u.M - 1), tap);
        let w6 = w_row(g, min(m + 6, u.M - 1), tap);
        let w7 = w_row(g, min(m + 7, u.M - 1), tap);
        for (var c = 0; c < u.CIN; c++) {
            var p = vec4<f32>(select(0.0, x_at(x0, c), i0), 0.0, 0.0, 0.0);
            if (TN > 1) {
                p.y = select(0.0, x_at(x1, c), i1);
            }
            if (TN > 2) {
                p.z = select(0.0, x_at(x2, c), i2);
                p.w = select(0.0, x_at(x3, c), i3);
            }
            var q = vec4<f32>();
            if (TN > 4) {
                q.x = select(0.0, x_at(x4, c), i4);
                q.y = select(0.0, x_at(x5, c), i5);
                q.z = select(0.0, x_at(x6, c), i6);
                q.w = select(0.0, x_at(x7, c), i7);
            }
            let v0 = w_at(w0, c);
            s0 += v0 * p;
            if (TN > 4) {
                t0 += v0 * q;
            }
            if (TM > 1) {
                let v1 = w_at(w1, c);
                s1 += v1 * p;
                if (TN > 4) {
                    t1 += v1 * q;
                }
            }
            if (TM > 2) {
                let v2 = w_at(w2, c);
                s2 += v2 * p;
                if (TN > 4) {
                    t2 += v2 * q;
                }
                let v3 = w_at(w3, c);
                s3 += v3 * p;
                if (TN > 4) {
                    t3 += v3 * q;
                }
            }
            if (TM > 4) {
                let v4 = w_at(w4, c);
                s4 += v4 * p;
                if (TN > 4) {
                    t4 += v4 * q;
                }
                let v5 = w_at(w5, c);
                s5 += v5 * p;
                if (TN > 4) {
                    t5 += v5 * q;
                }
                let v6 = w_at(w6, c);
                s6 += v6 * p;
                if (TN > 4) {
                    t6 += v6 * q;
                }
                let v7 = w_at(w7, c);
                s7 += v7 * p;
                if (TN > 4) {
                    t7 += v7 * q;
                }
            }
        }
    }
    store_row(g, m + 0, n, 0 < TM, s0, t0);
    store_row(g, m + 1, n, 1 < TM, s1, t1);
    store_row(g, m + 2, n, 2 < TM, s2, t2);
    store_row(g, m + 3, n, 3 < TM, s3, t3);
    store_row(g, m + 4, n, 4 < TM, s4, t4);
    store_row(g, m + 5, n, 5 < TM, s5, t5);
    store_row(g, m + 6, n, 6 < TM, s6, t6);
    store_row(g, m + 7, n, 7 < TM, s7, t7);
}

fn store_row(g: i32, m: i32, n: i32, wanted: bool, s: vec4<f32>, t: vec4<f32>) {
    if (!wanted || m >= u.M) {
        return;
    }
    if (0 < TN && n + 0 * LANES < u.N) {
        store_out(g, m, n + 0 * LANES, s.x);
    }
    if (1 < TN && n + 1 * LANES < u.N) {
        store_out(g, m, n + 1 * LANES, s.y);
    }
    if (2 < TN && n + 2 * LANES < u.N) {
        store_out(g, m, n + 2 * LANES, s.z);
    }
    if (3 < TN && n + 3 * LANES < u.N) {
        store_out(g, m, n + 3 * LANES, s.w);
    }
    if (4 < TN && n + 4 * LANES < u.N) {
        store_out(g, m, n + 4 * LANES, t.x);
    }
    if (5 < TN && n + 5 * LANES < u.N) {
        store_out(g, m, n + 5 * LANES, t.y);
    }
    if (6 < TN && n + 6 * LANES < u.N) {
        store_out(g, m, n + 6 * LANES, t.z);
    }
    if (7 < TN && n + 7 * LANES < u.N) {
        store_out(g, m, n + 7 * LANES, t.w);
    }
}
