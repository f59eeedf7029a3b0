struct Params {
    p0: i32,
    p1: i32,
    p2: i32,
    p3: i32,
    M: i32,
    N: i32,
    K: i32,
    p7: i32,
    p8: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
const TM = 8;
const TN = 4;
const LANES = 8;
struct Row_a { t0: i32 }
fn a_row(b: i32, m: i32) -> Row_a {
    let t0 = b * u.p0 + m * u.p1;
    return Row_a(t0);
}
fn a_at(r: Row_a, k: i32) -> f32 {
    let t1 = r.t0 + k;
    let t2 = r0[t1];
    return t2;
}
struct Row_b { t0: i32 }
fn b_row(b: i32, n: i32) -> Row_b {
    let t0 = b * u.p2 + n * u.p3;
    return Row_b(t0);
}
fn b_at(r: Row_b, k: i32) -> f32 {
    let t1 = r.t0 + k;
    let t2 = r0[t1];
    return t2;
}
fn store_out(b: i32, m: i32, n: i32, v: f32) {
    let t0 = b * u.p7 + m * u.p8 + n;
    w0[t0] = v;
}
// and then matmul.wgsl
