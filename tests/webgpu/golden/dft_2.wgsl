struct Params {
    p0: i32,
    p1: i32,
    p2: i32,
    p3: i32,
    p4: i32,
    p5: i32,
    p6: i32,
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
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const SIGN = -1.0;
const HERMITIAN = false;
const TIMES = false;
const LAST = false;
struct Row_re { t: i32 }
fn re_row(t: i32) -> Row_re {
    return Row_re(t);
}
fn re_at(r: Row_re, k: i32) -> f32 {
    let t0 = r.t + k * u.p0;
    let t1 = r0[t0];
    return t1;
}
struct Row_im { t0: i32 }
fn im_row(t: i32) -> Row_im {
    let t0 = t + u.p1;
    return Row_im(t0);
}
fn im_at(r: Row_im, k: i32) -> f32 {
    let t1 = r.t0 + k * u.p2;
    let t2 = r0[t1];
    return t2;
}
fn w(c: i32, k: i32) -> f32 {
    let t0 = c * u.p3 + k;
    let t1 = r1[t0];
    return t1;
}
fn f(c: i32, k: i32) -> f32 {
    let t0 = c * u.p4 + k;
    let t1 = r1[t0];
    return t1;
}
fn store_out(k: i32, c: i32, t: i32, v: f32) {
    let t0 = c * u.p5 + k * u.p6 + t;
    w0[t0] = v;
}
fn turn(a: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-SIGN * a.y, SIGN * a.x);
}

fn dft3(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>) -> array<vec2<f32>, 3> {
    let s = b + c;
    let m = a - 0.5 * s;
    let d = turn(0.8660254037844386 * (b - c));
    return array<vec2<f32>, 3>(a + s, m + d, m - d);
}

fn butterfly3(at: At) {
    let y = dft3(load(at, 0), load(at, 1), load(at, 2));
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
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
    butterfly3(At(re_row(t), im_row(t), t, j % u.S, j / u.S));
}
