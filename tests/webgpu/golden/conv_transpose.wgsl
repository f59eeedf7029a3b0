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
    CIN: i32,
    OUT_Z: i32,
    OUT_Y: i32,
    COUNT: i32,
    BLOCKS: i32,
    CHUNKS: i32,
    TURNS: i32,
    CHANNELS: i32,
    p21: i32,
    p22: i32,
    p23: i32,
    p24: i32,
    p25: i32,
    p26: i32,
    p27: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const KZ = 1;
const KY = 1;
const KX = 3;
const SZ = 1;
const SY = 1;
const SX = 1;
const DZ = 1;
const DY = 1;
const DX = 1;
const PZ = 0;
const PY = 0;
const PX = 2;
const TM = 8;
const TN = 16;
const LANES = 16;
const CHUNK = 3;
const PARTIAL = false;
const FY = 1;
const FX = 4;
struct Row_x { t0: i32 }
fn x_row(g: i32, n: i32, z: i32, y: i32, x: i32) -> Row_x {
    let t0 = g * u.p0 + n * u.p1 + x;
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
fn w_at(r: Row_w, c: i32, j: i32) -> f32 {
    let t1 = r.t0 + c * u.p5 + j;
    let t2 = r1[t1];
    return t2;
}
fn store_out(g: i32, c: i32, fz: i32, fy: i32, fx: i32, n: i32, z: i32, y: i32, x: i32, v: f32) {
    let t0 = fx + x * u.p21 + u.p22;
    if (t0 < 0 || t0 >= u.p23) {
        return;
    }
    let t1 = c * u.p24 + fx + g * u.p25 + n * u.p26 + x * u.p21 + u.p27;
    w0[t1] = v;
}
// and then conv_slide.wgsl
