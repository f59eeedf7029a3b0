// C[m, n] = sum over k of a(m, k) * b(k, n). A thread holds TM rows and TN columns in registers; the lanes of a
// workgroup stand side by side along n, so a's loads are the same for all of them and b's are consecutive.
@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let b = i32(group.z);
    let m = i32(group.y) * TM;
    let n = i32(group.x) * (LANES * TN) + i32(lane);
    let last_m = u.M - 1;
    let last_n = u.N - 1;
    let a0 = a_row(b, m);
    let a1 = a_row(b, min(m + 1, last_m));
    let a2 = a_row(b, min(m + 2, last_m));
    let a3 = a_row(b, min(m + 3, last_m));
    let a4 = a_row(b, min(m + 4, last_m));
    let a5 = a_row(b, min(m + 5, last_m));
    let a6 = a_row(b, min(m + 6, last_m));
    let a7 = a_row(b, min(m + 7, last_m));
    let b0 = b_row(b, min(n, last_n));
    let b1 = b_row(b, min(n + 1 * LANES, last_n));
    let b2 = b_row(b, min(n + 2 * LANES, last_n));
    let b3 = b_row(b, min(n + 3 * LANES, last_n));
    let b4 = b_row(b, min(n + 4 * LANES, last_n));
    let b5 = b_row(b, min(n + 5 * LANES, last_n));
    let b6 = b_row(b, min(n + 6 * LANES, last_n));
    let b7 = b_row(b, min(n + 7 * LANES, last_n));
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
    for (var k = 0; k < u.K; k++) {
        var p = vec4<f32>(b_at(b0, k), 0.0, 0.0, 0.0);
        if (TN > 1) {
            p.y = b_at(b1, k);
        }
        if (TN > 2) {
            p.z = b_at(b2, k);
            p.w = b_at(b3, k);
        }
        var q = vec4<f32>();
        if (TN > 4) {
            q = vec4<f32>(b_at(b4, k), b_at(b5, k), b_at(b6, k), b_at(b7, k));
        }
        let x0 = a_at(a0, k);
        s0 += x0 * p;
        if (TN > 4) {
            t0 += x0 * q;
        }
        if (TM > 1) {
            let x1 = a_at(a1, k);
            s1 += x1 * p;
            if (TN > 4) {
                t1 += x1 * q;
            }
        }
        if (TM > 2) {
            let x2 = a_at(a2, k);
            s2 += x2 * p;
            if (TN > 4) {
                t2 += x2 * q;
            }
            let x3 = a_at(a3, k);
            s3 += x3 * p;
            if (TN > 4) {
                t3 += x3 * q;
            }
        }
        if (TM > 4) {
            let x4 = a_at(a4, k);
            s4 += x4 * p;
            if (TN > 4) {
                t4 += x4 * q;
            }
            let x5 = a_at(a5, k);
            s5 += x5 * p;
            if (TN > 4) {
                t5 += x5 * q;
            }
            let x6 = a_at(a6, k);
            s6 += x6 * p;
            if (TN > 4) {
                t6 += x6 * q;
            }
            let x7 = a_at(a7, k);
            s7 += x7 * p;
            if (TN > 4) {
                t7 += x7 * q;
            }
        }
    }
    store_row(b, m + 0, n, 0 < TM, s0, t0);
    store_row(b, m + 1, n, 1 < TM, s1, t1);
    store_row(b, m + 2, n, 2 < TM, s2, t2);
    store_row(b, m + 3, n, 3 < TM, s3, t3);
    store_row(b, m + 4, n, 4 < TM, s4, t4);
    store_row(b, m + 5, n, 5 < TM, s5, t5);
    store_row(b, m + 6, n, 6 < TM, s6, t6);
    store_row(b, m + 7, n, 7 < TM, s7, t7);
}

fn store_row(b: i32, m: i32, n: i32, wanted: bool, s: vec4<f32>, t: vec4<f32>) {
    if (!wanted || m >= u.M) {
        return;
    }
    if (0 < TN && n + 0 * LANES < u.N) {
        store_out(b, m, n + 0 * LANES, s.x);
    }
    if (1 < TN && n + 1 * LANES < u.N) {
        store_out(b, m, n + 1 * LANES, s.y);
    }
    if (2 < TN && n + 2 * LANES < u.N) {
        store_out(b, m, n + 2 * LANES, s.z);
    }
    if (3 < TN && n + 3 * LANES < u.N) {
        store_out(b, m, n + 3 * LANES, s.w);
    }
    if (4 < TN && n + 4 * LANES < u.N) {
        store_out(b, m, n + 4 * LANES, t.x);
    }
    if (5 < TN && n + 5 * LANES < u.N) {
        store_out(b, m, n + 5 * LANES, t.y);
    }
    if (6 < TN && n + 6 * LANES < u.N) {
        store_out(b, m, n + 6 * LANES, t.z);
    }
    if (7 < TN && n + 7 * LANES < u.N) {
        store_out(b, m, n + 7 * LANES, t.w);
    }
}
