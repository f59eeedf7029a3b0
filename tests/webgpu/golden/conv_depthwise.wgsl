struct Params {
    p0: i32,
    p1: i32,
    p2: i32,
    IN_Z: i32,
    IN_Y: i32,
    IN_X: i32,
    OUT: i32,
    OUT_YX: i32,
    OUT_X: i32,
    M: i32,
    N: i32,
    CIN: i32,
    TAPS: i32,
    p13: i32,
    p14: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const PADDED = false;
const KZ = 1;
const KY = 1;
const KX = 3;
const SZ = 1;
const SY = 1;
const SX = 2;
const DZ = 1;
const DY = 1;
const DX = 1;
const PZ = 0;
const PY = 0;
const PX = 0;
const TM = 1;
const TN = 2;
const LANES = 8;
struct Row_x { t0: i32 }
fn x_row(g: i32, n: i32, z: i32, y: i32, x: i32) -> Row_x {
    let t0 = g * u.p0 + x;
    return Row_x(t0);
}
fn x_at(r: Row_x, c: i32) -> f32 {
    let t1 = r.t0 + c * u.p1;
    let t2 = r0[t1];
    return t2;
}
struct Row_w { t1: f32 }
fn w_row(g: i32, m: i32, t: i32) -> Row_w {
    let t0 = g + m + t * u.p2;
    let t1 = r1[t0];
    return Row_w(t1);
}
fn w_at(r: Row_w, c: i32) -> f32 {
    return r.t1;
}
fn store_out(g: i32, m: i32, p: i32, v: f32) {
    let t0 = g * u.p13 + m * u.p14 + p;
    w0[t0] = v;
}
// and then conv.wgsl
