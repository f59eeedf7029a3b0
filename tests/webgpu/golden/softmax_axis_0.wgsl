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
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
const WG = 16u;
const LANES = 1;
const KIND = 0;
const LOG = false;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

struct Row_x { i: i32 }
fn x_row(i: i32) -> Row_x {
    return Row_x(i);
}
fn x_at(r: Row_x, k: i32) -> f32 {
    let t0 = r.i + k * u.p0;
    let t1 = r0[t0];
    return t1;
}
fn store_out(i: i32, k: i32, v: f32) {
    let t0 = i + k * u.p6;
    w0[t0] = v;
}
// and then normalize.wgsl
