struct Params {
    p0: i32,
    p1: i32,
    M: i32,
    N: i32,
    K: i32,
    p5: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read> r2: array<f32>;
@group(0) @binding(4) var<storage, read_write> w0: array<f32>;
const TM = 8;
const TN = 4;
const LANES = 12;
struct Row_a { t0: i32 }
fn a_row(b: i32, m: i32) -> Row_a {
    let t0 = m * u.p0;
    return Row_a(t0);
}
fn a_at(r: Row_a, k: i32) -> f32 {
    let t1 = r.t0 + k;
    let t2 = r0[t1];
    return t2;
}
struct Row_b { n: i32 }
fn b_row(b: i32, n: i32) -> Row_b {
    return Row_b(n);
}
fn b_at(r: Row_b, k: i32) -> f32 {
    let t0 = r.n + k * u.p1;
    let t1 = r1[t0];
    return t1;
}
fn store_out(b: i32, m: i32, n: i32, v: f32) {
    let t0 = r2[n];
    let t1 = v + t0;
    let t2 = select(t1, 0.0, t1 < 0.0);
    let t3 = m * u.p5 + n;
    w0[t3] = t2;
}
// and then matmul.wgsl
