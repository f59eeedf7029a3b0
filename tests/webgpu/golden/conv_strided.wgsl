struct Params {
    p0: i32,
    p1: i32,
    p2: i32,
    p3: i32,
    p4: i32,
    p5: i32,
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
    p16: i32,
    p17: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const PADDED = true;
const KZ = 1;
const KY = 3;
const KX = 3;
const SZ = 1;
const SY = 2;
const SX = 2;
const DZ = 1;
const DY = 1;
const DX = 1;
const PZ = 0;
const PY = 1;
const PX = 1;
const TM = 8;
const TN = 8;
const LANES = 8;
struct Row_x { t0: i32 }
fn x_row(g: i32, n: i32, z: i32, y: i32, x: i32) -> Row_x {
    let t0 = g * u.p0 + x + y * u.p1;
    return Row_x(t0);
}
fn x_at(r: Row_x, c: i32) -> f32 {
    let t1 = r.t0 + c * u.p2;
    let t2 = r0[t1];
    return t2;
}
struct Row_w { t0: i32 }
fn w_row(g: i32, m: i32, t: i32) -> Row_w {
    let t0 = g * u.p3 + m + t * u.p4;
    return Row_w(t0);
}
fn w_at(r: Row_w, c: i32) -> f32 {
    let t1 = r.t0 + c * u.p5;
    let t2 = r1[t1];
    return t2;
}
fn store_out(g: i32, m: i32, p: i32, v: f32) {
    let t0 = g * u.p16 + m * u.p17 + p;
    w0[t0] = v;
}
// and then conv.wgsl
