// Convolution whose last axis has stride and dilation 1. A thread holds TM channels at TN neighbouring positions, so the
// CHUNK taps of one channel share what they read: TN + CHUNK - 1 inputs and CHUNK * TM weights for CHUNK * TM * TN products.
// For adapters where a load costs much more than a product. PARTIAL: the last chunk has taps that do not exist.
@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let id = i32(group.x) * LANES + i32(lane);
    if (id >= u.COUNT) {
        return;
    }
    let g = i32(group.z);
    let m = i32(group.y) * TM;
    let q = (id % u.BLOCKS) * TN;
    let line = id / u.BLOCKS;
    let oy = line % u.OUT_Y;
    let oz = (line / u.OUT_Y) % u.OUT_Z;
    let n = line / (u.OUT_Y * u.OUT_Z);
    let room = u.M - 1 - m;
    let m1 = min(1, room);
    let m2 = min(2, room);
    let m3 = min(3, room);
    let m4 = min(4, room);
    let m5 = min(5, room);
    let m6 = min(6, room);
    let m7 = min(7, room);
    var s0a = vec4<f32>();
    var s0b = vec4<f32>();
    var s0c = vec4<f32>();
    var s0d = vec4<f32>();
    var s1a = vec4<f32>();
    var s1b = vec4<f32>();
    var s1c = vec4<f32>();
    var s1d = vec4<f32>();
    var s2a = vec4<f32>();
    var s2b = vec4<f32>();
    var s2c = vec4<f32>();
    var s2d = vec4<f32>();
    var s3a = vec4<f32>();
    var s3b = vec4<f32>();
    var s3c = vec4<f32>();
    var s3d = vec4<f32>();
    var s4a = vec4<f32>();
    var s4b = vec4<f32>();
    var s4c = vec4<f32>();
    var s4d = vec4<f32>();
    var s5a = vec4<f32>();
    var s5b = vec4<f32>();
    var s5c = vec4<f32>();
    var s5d = vec4<f32>();
    var s6a = vec4<f32>();
    var s6b = vec4<f32>();
    var s6c = vec4<f32>();
    var s6d = vec4<f32>();
    var s7a = vec4<f32>();
    var s7b = vec4<f32>();
    var s7c = vec4<f32>();
    var s7d = vec4<f32>();
    for (var turn = 0; turn < u.TURNS; turn++) {
        let plane = turn / u.CHUNKS;
        let first = (turn % u.CHUNKS) * CHUNK;
        let z = oz * SZ - PZ + (plane / KY) * DZ;
        let y = oy * SY - PY + (plane % KY) * DY;
        let x = q - PX + first;
        let inside = (u32(z) < u32(u.IN_Z)) & (u32(y) < u32(u.IN_Y));
        let cz = clamp(z, 0, u.IN_Z - 1);
        let cy = clamp(y, 0, u.IN_Y - 1);
        let i0 = inside & (u32(x + 0) < u32(u.IN_X));
        let r0 = x_row(g, n, cz, cy, clamp(x + 0, 0, u.IN_X - 1));
        let i1 = inside & (u32(x + 1) < u32(u.IN_X));
        let r1 = x_row(g, n, cz, cy, clamp(x + 1, 0, u.IN_X - 1));
        let i2 = inside & (u32(x + 2) < u32(u.IN_X));
        let r2 = x_row(g, n, cz, cy, clamp(x + 2, 0, u.IN_X - 1));
        let i3 = inside & (u32(x + 3) < u32(u.IN_X));
        let r3 = x_row(g, n, cz, cy, clamp(x + 3, 0, u.IN_X - 1));
        let i4 = inside & (u32(x + 4) < u32(u.IN_X));
        let r4 = x_row(g, n, cz, cy, clamp(x + 4, 0, u.IN_X - 1));
        let i5 = inside & (u32(x + 5) < u32(u.IN_X));
        let r5 = x_row(g, n, cz, cy, clamp(x + 5, 0, u.IN_X - 1));
        let i6 = inside & (u32(x + 6) < u32(u.IN_X));
        let r6 = x_row(g, n, cz, cy, clamp(x + 6, 0, u.IN_X - 1));
        let i7 = inside & (u32(x + 7) < u32(u.IN_X));
        let r7 = x_row(g, n, cz, cy, clamp(x + 7, 0, u.IN_X - 1));
        let i8 = inside & (u32(x + 8) < u32(u.IN_X));
        let r8 = x_row(g, n, cz, cy, clamp(x + 8, 0, u.IN_X - 1));
        let i9 = inside & (u32(x + 9) < u32(u.IN_X));
        let r9 = x_row(g, n, cz, cy, clamp(x + 9, 0, u.IN_X - 1));
        let i10 = inside & (u32(x + 10) < u32(u.IN_X));
        let r10 = x_row(g, n, cz, cy, clamp(x + 10, 0, u.IN_X - 1));
        let i11 = inside & (u32(x + 11) < u32(u.IN_X));
        let r11 = x_row(g, n, cz, cy, clamp(x + 11, 0, u.IN_X - 1));
        let i12 = inside & (u32(x + 12) < u32(u.IN_X));
        let r12 = x_row(g, n, cz, cy, clamp(x + 12, 0, u.IN_X - 1));
        let i13 = inside & (u32(x + 13) < u32(u.IN_X));
        let r13 = x_row(g, n, cz, cy, clamp(x + 13, 0, u.IN_X - 1));
        let i14 = inside & (u32(x + 14) < u32(u.IN_X));
        let r14 = x_row(g, n, cz, cy, clamp(x + 14, 0, u.IN_X - 1));
        let i15 = inside & (u32(x + 15) < u32(u.IN_X));
        let r15 = x_row(g, n, cz, cy, clamp(x + 15, 0, u.IN_X - 1));
        let i16 = inside & (u32(x + 16) < u32(u.IN_X));
        let r16 = x_row(g, n, cz, cy, clamp(x + 16, 0, u.IN_X - 1));
        let i17 = inside & (u32(x + 17) < u32(u.IN_X));
        let r17 = x_row(g, n, cz, cy, clamp(x + 17, 0, u.IN_X - 1));
        let i18 = inside & (u32(x + 18) < u32(u.IN_X));
        let r18 = x_row(g, n, cz, cy, clamp(x + 18, 0, u.IN_X - 1));
        let k0 = w_row(g, m, plane * KX + min(first + 0, KX - 1));
        let k1 = w_row(g, m, plane * KX + min(first + 1, KX - 1));
        let k2 = w_row(g, m, plane * KX + min(first + 2, KX - 1));
        let k3 = w_row(g, m, plane * KX + min(first + 3, KX - 1));
        for (var c = 0; c < u.CIN; c++) {
            let x0 = select(0.0, x_at(r0, c), i0);
            let x1 = select(0.0, x_at(r1, c), i1);
            let x2 = select(0.0, x_at(r2, c), i2);
            let x3 = select(0.0, x_at(r3, c), i3);
            let x4 = select(0.0, x_at(r4, c), i4);
            let x5 = select(0.0, x_at(r5, c), i5);
            let x6 = select(0.0, x_at(r6, c), i6);
            let x7 = select(0.0, x_at(r7, c), i7);
            let x8 = select(0.0, x_at(r8, c), i8);
            var x9 = 0.0;
            var x10 = 0.0;
            var x11 = 0.0;
            var x12 = 0.0;
            var x13 = 0.0;
            var x14 = 0.0;
            var x15 = 0.0;
            var x16 = 0.0;
            var x17 = 0.0;
            var x18 = 0.0;
            if (TN + CHUNK > 10) {
                x9 = select(0.0, x_at(r9, c), i9);
            }
            if (TN + CHUNK > 11) {
                x10 = select(0.0, x_at(r10, c), i10);
            }
            if (TN > 8) {
                x11 = select(0.0, x_at(r11, c), i11);
                x12 = select(0.0, x_at(r12, c), i12);
                x13 = select(0.0, x_at(r13, c), i13);
                x14 = select(0.0, x_at(r14, c), i14);
                x15 = select(0.0, x_at(r15, c), i15);
                x16 = select(0.0, x_at(r16, c), i16);
            }
            if (TN + CHUNK > 18) {
                x17 = select(0.0, x_at(r17, c), i17);
            }
            if (TN + CHUNK > 19) {
                x18 = select(0.0, x_at(r18, c), i18);
            }
            {
                let a = vec4<f32>(x0, x1, x2, x3);
                let b = vec4<f32>(x4, x5, x6, x7);
                let c4 = vec4<f32>(x8, x9, x10, x11);
                let d = vec4<f32>(x12, x13, x14, x15);
                let w0 = w_at(k0, c, 0);
                s0a += w0 * a;
                s0b += w0 * b;
                if (TN > 8) {
                    s0c += w0 * c4;
                    s0d += w0 * d;
                }
                let w1 = w_at(k0, c, m1);
                s1a += w1 * a;
                s1b += w1 * b;
                if (TN > 8) {
                    s1c += w1 * c4;
                    s1d += w1 * d;
                }
                let w2 = w_at(k0, c, m2);
                s2a += w2 * a;
                s2b += w2 * b;
                if (TN > 8) {
                    s2c += w2 * c4;
                    s2d += w2 * d;
                }
                let w3 = w_at(k0, c, m3);
                s3a += w3 * a;
                s3b += w3 * b;
                if (TN > 8) {
                    s3c += w3 * c4;
                    s3d += w3 * d;
                }
                if (TM > 4) {
                    let w4 = w_at(k0, c, m4);
                    s4a += w4 * a;
                    s4b += w4 * b;
                    if (TN > 8) {
                        s4c += w4 * c4;
                        s4d += w4 * d;
                    }
                    let w5 = w_at(k0, c, m5);
                    s5a += w5 * a;
                    s5b += w5 * b;
                    if (TN > 8) {
                        s5c += w5 * c4;
                        s5d += w5 * d;
                    }
                    let w6 = w_at(k0, c, m6);
                    s6a += w6 * a;
                    s6b += w6 * b;
                    if (TN > 8) {
                        s6c += w6 * c4;
                        s6d += w6 * d;
                    }
                    let w7 = w_at(k0, c, m7);
                    s7a += w7 * a;
                    s7b += w7 * b;
                    if (TN > 8) {
                        s7c += w7 * c4;
                        s7d += w7 * d;
                    }
                }
            }
            if (CHUNK > 1) {
                let a = vec4<f32>(x1, x2, x3, x4);
                let b = vec4<f32>(x5, x6, x7, x8);
                let c4 = vec4<f32>(x9, x10, x11, x12);
                let d = vec4<f32>(x13, x14, x15, x16);
                let w0 = select(0.0, w_at(k1, c, 0), !PARTIAL | (first + 1 < KX));
                s0a += w0 * a;
                s0b += w0 * b;
                if (TN > 8) {
                    s0c += w0 * c4;
                    s0d += w0 * d;
                }
                let w1 = select(0.0, w_at(k1, c, m1), !PARTIAL | (first + 1 < KX));
                s1a += w1 * a;
                s1b += w1 * b;
                if (TN > 8) {
                    s1c += w1 * c4;
                    s1d += w1 * d;
                }
                let w2 = select(0.0, w_at(k1, c, m2), !PARTIAL | (first + 1 < KX));
                s2a += w2 * a;
                s2b += w2 * b;
                if (TN > 8) {
                    s2c += w2 * c4;
                    s2d += w2 * d;
                }
                let w3 = select(0.0, w_at(k1, c, m3), !PARTIAL | (first + 1 < KX));
                s3a += w3 * a;
                s3b += w3 * b;
                if (TN > 8) {
                    s3c += w3 * c4;
                    s3d += w3 * d;
                }
                if (TM > 4) {
                    let w4 = select(0.0, w_at(k1, c, m4), !PARTIAL | (first + 1 < KX));
                    s4a += w4 * a;
                    s4b += w4 * b;
                    if (TN > 8) {
                        s4c += w4 * c4;
                        s4d += w4 * d;
                    }
                    let w5 = select(0.0, w_at(k1, c, m5), !PARTIAL | (first + 1 < KX));
                    s5a += w5 * a;
                    s5b += w5 * b;
                    if (TN > 8) {
                        s5c += w5 * c4;
                        s5d += w5 * d;
                    }
                    let w6 = select(0.0, w_at(k1, c, m6), !PARTIAL | (first + 1 < KX));
                    s6a += w6 * a;
                    s6b += w6 * b;
                    if (TN > 8) {
                        s6c += w6 * c4;
                        s6d += w6 * d;
                    }
                    let w7 = select(0.0, w_at(k1, c, m7), !PARTIAL | (first + 1 < KX));
                    s7a += w7 * a;
                    s7b += w7 * b;
                    if (TN > 8) {
                        s7c += w7 * c4;
                        s7d += w7 * d;
                    }
                }
            }
            if (CHUNK > 2) {
                let a = vec4<f32>(x2, x3, x4, x5);
                let b = vec4<f32>(x6, x7, x8, x9);
                let c4 = vec4<f32>(x10, x11, x12, x13);
                let d = vec4<f32>(x14, x15, x16, x17);
                let w0 = select(0.0, w_at(k2, c, 0), !PARTIAL | (first + 2 < KX));
                s0a += w0 * a;
                s0b += w0 * b;
                if (TN > 8) {
                    s0c += w0 * c4;
                    s0d += w0 * d;
                }
                let w1 = select(0.0, w_at(k2, c, m1), !PARTIAL | (first + 2 < KX));
                s1a += w1 * a;
                s1b += w1 * b;
                if (TN > 8) {
                    s1c += w1 * c4;
                    s1d += w1 * d;
                }
                let w2 = select(0.0, w_at(k2, c, m2), !PARTIAL | (first + 2 < KX));
                s2a += w2 * a;
                s2b += w2 * b;
                if (TN > 8) {
                    s2c += w2 * c4;
                    s2d += w2 * d;
                }
                let w3 = select(0.0, w_at(k2, c, m3), !PARTIAL | (first + 2 < KX));
                s3a += w3 * a;
                s3b += w3 * b;
                if (TN > 8) {
                    s3c += w3 * c4;
                    s3d += w3 * d;
                }
                if (TM > 4) {
                    let w4 = select(0.0, w_at(k2, c, m4), !PARTIAL | (first + 2 < KX));
                    s4a += w4 * a;
                    s4b += w4 * b;
                    if (TN > 8) {
                        s4c += w4 * c4;
                        s4d += w4 * d;
                    }
                    let w5 = select(0.0, w_at(k2, c, m5), !PARTIAL | (first + 2 < KX));
                    s5a += w5 * a;
                    s5b += w5 * b;
                    if (TN > 8) {
                        s5c += w5 * c4;
                        s5d += w5 * d;
                    }
                    let w6 = select(0.0, w_at(k2, c, m6), !PARTIAL | (first + 2 < KX));
                    s6a += w6 * a;
                    s6b += w6 * b;
                    if (TN > 8) {
                        s6c += w6 * c4;
                        s6d += w6 * d;
                    }
                    let w7 = select(0.0, w_at(k2, c, m7), !PARTIAL | (first + 2 < KX));
                    s7a += w7 * a;
                    s7b += w7 * b;
                    if (TN > 8) {
                        s7c += w7 * c4;
                        s7d += w7 * d;
                    }
                }
            }
            if (CHUNK > 3) {
                let a = vec4<f32>(x3, x4, x5, x6);
                let b = vec4<f32>(x7, x8, x9, x10);
                let c4 = vec4<f32>(x11, x12, x13, x14);
                let d = vec4<f32>(x15, x16, x17, x18);
                let w0 = select(0.0, w_at(k3, c, 0), !PARTIAL | (first + 3 < KX));
                s0a += w0 * a;
                s0b += w0 * b;
                if (TN > 8) {
                    s0c += w0 * c4;
                    s0d += w0 * d;
                }
                let w1 = select(0.0, w_at(k3, c, m1), !PARTIAL | (first + 3 < KX));
                s1a += w1 * a;
                s1b += w1 * b;
                if (TN > 8) {
                    s1c += w1 * c4;
                    s1d += w1 * d;
                }
                let w2 = select(0.0, w_at(k3, c, m2), !PARTIAL | (first + 3 < KX));
                s2a += w2 * a;
                s2b += w2 * b;
                if (TN > 8) {
                    s2c += w2 * c4;
                    s2d += w2 * d;
                }
                let w3 = select(0.0, w_at(k3, c, m3), !PARTIAL | (first + 3 < KX));
                s3a += w3 * a;
                s3b += w3 * b;
                if (TN > 8) {
                    s3c += w3 * c4;
                    s3d += w3 * d;
                }
                if (TM > 4) {
                    let w4 = select(0.0, w_at(k3, c, m4), !PARTIAL | (first + 3 < KX));
                    s4a += w4 * a;
                    s4b += w4 * b;
                    if (TN > 8) {
                        s4c += w4 * c4;
                        s4d += w4 * d;
                    }
                    let w5 = select(0.0, w_at(k3, c, m5), !PARTIAL | (first + 3 < KX));
                    s5a += w5 * a;
                    s5b += w5 * b;
                    if (TN > 8) {
                        s5c += w5 * c4;
                        s5d += w5 * d;
                    }
                    let w6 = select(0.0, w_at(k3, c, m6), !PARTIAL | (first + 3 < KX));
                    s6a += w6 * a;
                    s6b += w6 * b;
                    if (TN > 8) {
                        s6c += w6 * c4;
                        s6d += w6 * d;
                    }
                    let w7 = select(0.0, w_at(k3, c, m7), !PARTIAL | (first + 3 < KX));
                    s7a += w7 * a;
                    s7b += w7 * b;
                    if (TN > 8) {
                        s7c += w7 * c4;
                        s7d += w7 * d;
                    }
                }
            }
        }
    }
    store_row(g, m + 0, n, oz, oy, q, 0 < TM, s0a, s0b, s0c, s0d);
    store_row(g, m + 1, n, oz, oy, q, 1 < TM, s1a, s1b, s1c, s1d);
    store_row(g, m + 2, n, oz, oy, q, 2 < TM, s2a, s2b, s2c, s2d);
    store_row(g, m + 3, n, oz, oy, q, 3 < TM, s3a, s3b, s3c, s3d);
    store_row(g, m + 4, n, oz, oy, q, 4 < TM, s4a, s4b, s4c, s4d);
    store_row(g, m + 5, n, oz, oy, q, 5 < TM, s5a, s5b, s5c, s5d);
    store_row(g, m + 6, n, oz, oy, q, 6 < TM, s6a, s6b, s6c, s6d);
    store_row(g, m + 7, n, oz, oy, q, 7 < TM, s7a, s7b, s7c, s7d);
}

// Where row m of a group goes: a channel and, in a transposed convolution, a phase between the strides.
struct Row { g: i32, c: i32, fz: i32, fy: i32, fx: i32, n: i32, z: i32, y: i32 }

fn store_row(g: i32, m: i32, n: i32, z: i32, y: i32, q: i32, wanted: bool, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) {
    if (!wanted || m >= u.M) {
        return;
    }
    let f = m / u.CHANNELS;
    let row = Row(g, m % u.CHANNELS, f / (FY * FX), (f / FX) % FY, f % FX, n, z, y);
    store_four(row, q, a);
    store_four(row, q + 4, b);
    if (TN > 8) {
        store_four(row, q + 8, c);
        store_four(row, q + 12, d);
    }
}

fn store_four(r: Row, q: i32, v: vec4<f32>) {
    if (q + 0 < u.OUT_X) {
        store_out(r.g, r.c, r.fz, r.fy, r.fx, r.n, r.z, r.y, q + 0, v.x);
    }
    if (q + 1 < u.OUT_X) {
        store_out(r.g, r.c, r.fz, r.fy, r.fx, r.n, r.z, r.y, q + 1, v.y);
    }
    if (q + 2 < u.OUT_X) {
        store_out(r.g, r.c, r.fz, r.fy, r.fx, r.n, r.z, r.y, q + 2, v.z);
    }
    if (q + 3 < u.OUT_X) {
        store_out(r.g, r.c, r.fz, r.fy, r.fx, r.n, r.z, r.y, q + 3, v.w);
    }
}
