struct Params {
    p0: i32,
    rows: i32,
    length: i32,
    groups_x: i32,
    epsilon: f32,
    lowest: f32,
    p6: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read> r2: array<f32>;
@group(0) @binding(4) var<storage, read_write> w0: array<f32>;
const WG = 16u;
const LANES = 1;
const KIND = 1;
const LOG = false;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

struct Row_x { t0: i32 }
fn x_row(i: i32) -> Row_x {
    let t0 = i * u.p0;
    return Row_x(t0);
}
fn x_at(r: Row_x, k: i32) -> f32 {
    let t1 = r.t0 + k;
    let t2 = r0[t1];
    return t2;
}
fn store_out(i: i32, k: i32, v: f32) {
    let t0 = r1[k];
    let t1 = v * t0;
    let t2 = r2[k];
    let t3 = t1 + t2;
    let t4 = i * u.p6 + k;
    w0[t4] = t3;
}
// and then normalize.wgsl
