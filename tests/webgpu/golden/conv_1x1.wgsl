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
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const TM = 8;
const TN = 8;
const LANES = 8;
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
    let t0 = m * u.p5 + n;
    w0[t0] = v;
}
// and then matmul.wgsl
