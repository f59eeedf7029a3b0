struct Params {
    p0: u32,
    p1: i32,
    p2: i32,
    p3: f32,
    p4: u32,
    p5: i32,
    p6: i32,
    p7: i32,
    p8: f32,
    p9: i32,
    p10: i32,
    p11: i32,
    p12: i32,
    N: i32,
    S: i32,
    M: i32,
    R: i32,
    T: i32,
    GROUPS_X: i32,
    SIZE: u32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read> r2: array<f32>;
@group(0) @binding(4) var<storage, read_write> w0: array<f32>;
const SIGN = 1.0;
const HERMITIAN = true;
const TIMES = false;
const LAST = false;
struct Row_re { t2: i32 }
fn re_row(t: i32) -> Row_re {
    let t0 = i32(u32(t) % u.p0);
    let t1 = i32(u32(t) / u.p0);
    let t2 = t0 + t1 * u.p1;
    return Row_re(t2);
}
fn re_at(r: Row_re, k: i32) -> f32 {
    let t3 = r.t2 + k * u.p2;
    let t4 = r0[t3];
    let t5 = t4 * u.p3;
    return t5;
}
struct Row_im { t2: i32 }
fn im_row(t: i32) -> Row_im {
    let t0 = i32(u32(t) % u.p4);
    let t1 = i32(u32(t) / u.p4);
    let t2 = t0 + t1 * u.p5 + u.p6;
    return Row_im(t2);
}
fn im_at(r: Row_im, k: i32) -> f32 {
    let t3 = r.t2 + k * u.p7;
    let t4 = r0[t3];
    let t5 = t4 * u.p8;
    return t5;
}
fn w(c: i32, k: i32) -> f32 {
    let t0 = c * u.p9 + k;
    let t1 = r1[t0];
    return t1;
}
fn f(c: i32, k: i32) -> f32 {
    let t0 = c * u.p10 + k;
    let t1 = r2[t0];
    return t1;
}
fn store_out(k: i32, c: i32, t: i32, v: f32) {
    let t0 = c * u.p11 + k * u.p12 + t;
    w0[t0] = v;
}
fn turn(a: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-SIGN * a.y, SIGN * a.x);
}

fn dft4(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>, d: vec2<f32>) -> array<vec2<f32>, 4> {
    let s = a + c;
    let m = a - c;
    let p = b + d;
    let q = turn(b - d);
    return array<vec2<f32>, 4>(s + p, m + q, s - p, m - q);
}

fn dft16(
    a0: vec2<f32>, a1: vec2<f32>, a2: vec2<f32>, a3: vec2<f32>, a4: vec2<f32>, a5: vec2<f32>, a6: vec2<f32>, a7: vec2<f32>,
    a8: vec2<f32>, a9: vec2<f32>, a10: vec2<f32>, a11: vec2<f32>, a12: vec2<f32>, a13: vec2<f32>, a14: vec2<f32>, a15: vec2<f32>,
) -> array<vec2<f32>, 16> {
    let c0 = dft4(a0, a4, a8, a12);
    let c1 = dft4(a1, a5, a9, a13);
    let c2 = dft4(a2, a6, a10, a14);
    let c3 = dft4(a3, a7, a11, a15);
    let r0 = dft4(c0[0], c1[0], c2[0], c3[0]);
    let r1 = dft4(c0[1], times(c1[1], vec2<f32>(0.9238795325112867, SIGN * 0.3826834323650898)), times(c2[1], vec2<f32>(0.7071067811865476, SIGN * 0.7071067811865475)), times(c3[1], vec2<f32>(0.38268343236508984, SIGN * 0.9238795325112867)));
    let r2 = dft4(c0[2], times(c1[2], vec2<f32>(0.7071067811865476, SIGN * 0.7071067811865475)), turn(c2[2]), times(c3[2], vec2<f32>(-0.7071067811865475, SIGN * 0.7071067811865476)));
    let r3 = dft4(c0[3], times(c1[3], vec2<f32>(0.38268343236508984, SIGN * 0.9238795325112867)), times(c2[3], vec2<f32>(-0.7071067811865475, SIGN * 0.7071067811865476)), times(c3[3], vec2<f32>(-0.9238795325112868, SIGN * -0.38268343236508967)));
    return array<vec2<f32>, 16>(
        r0[0], r1[0], r2[0], r3[0],
        r0[1], r1[1], r2[1], r3[1],
        r0[2], r1[2], r2[2], r3[2],
        r0[3], r1[3], r2[3], r3[3],
    );
}

fn butterfly16(at: At) {
    let y = dft16(
        load(at, 0), load(at, 1), load(at, 2), load(at, 3),
        load(at, 4), load(at, 5), load(at, 6), load(at, 7),
        load(at, 8), load(at, 9), load(at, 10), load(at, 11),
        load(at, 12), load(at, 13), load(at, 14), load(at, 15),
    );
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
    put(at, 3, y[3]);
    put(at, 4, y[4]);
    put(at, 5, y[5]);
    put(at, 6, y[6]);
    put(at, 7, y[7]);
    put(at, 8, y[8]);
    put(at, 9, y[9]);
    put(at, 10, y[10]);
    put(at, 11, y[11]);
    put(at, 12, y[12]);
    put(at, 13, y[13]);
    put(at, 14, y[14]);
    put(at, 15, y[15]);
}
// One pass of a Stockham FFT over T transforms of length N = S * M * R. A thread takes R inputs of one transform, S * M
// apart, and writes R outputs S apart, so that no pass reorders anything. Elements stand along the first axis and
// transforms along the last: the lanes of a workgroup read neighbours, and share their twiddle factors.
struct At { re: Row_re, im: Row_im, t: i32, q: i32, p: i32 }

fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn twiddle(k: i32) -> vec2<f32> {
    return vec2<f32>(w(0, k), SIGN * w(1, k));
}

fn load(at: At, r: i32) -> vec2<f32> {
    let k = at.q + u.S * (at.p + u.M * r);
    let x = vec2<f32>(re_at(at.re, k), im_at(at.im, k));
    if (HERMITIAN) {
        // Half of a Hermitian spectrum, as that of the complex signal whose parts are the even and the odd samples.
        let y = vec2<f32>(re_at(at.re, u.N - k), -im_at(at.im, u.N - k));
        let edge = k == 0; // imaginary parts of the first and the last bin count for nothing
        let e = times(vec2<f32>(x.x - y.x, select(x.y - y.y, 0.0, edge)), vec2<f32>(f(0, k), f(1, k)));
        return vec2<f32>(x.x + y.x - e.y, select(x.y + y.y, 0.0, edge) + e.x);
    }
    if (TIMES) {
        return times(x, vec2<f32>(f(0, k), f(1, k)));
    }
    return x;
}

fn put(at: At, r: i32, x: vec2<f32>) {
    let k = at.q + u.S * (u.R * at.p + r);
    var y = x;
    if (!LAST & (r > 0)) {
        y = times(x, twiddle(at.p * r * u.S));
    }
    store_out(k, 0, at.t, y.x);
    store_out(k, 1, at.t, y.y);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * u32(u.GROUPS_X) + group.x) * 64u + lane;
    if (i >= u.SIZE) {
        return;
    }
    let t = i32(i % u32(u.T));
    let j = i32(i / u32(u.T));
    butterfly16(At(re_row(t), im_row(t), t, j % u.S, j / u.S));
}
