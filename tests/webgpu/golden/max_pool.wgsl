struct Params {
    p0: i32,
    IN_Z: i32,
    IN_Y: i32,
    IN_X: i32,
    OUT: i32,
    OUT_YX: i32,
    OUT_X: i32,
    rows: i32,
    groups_x: i32,
    start: f32,
    AFTER_Z: i32,
    AFTER_Y: i32,
    AFTER_X: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
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
const ALL = false;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn nan_max(a: f32, b: f32) -> f32 {
    return select(select(b, a, a > b), a + b, is_nan(a) || is_nan(b));
}

fn x_in(channel: i32, z: i32, y: i32, x: i32) -> f32 {
    let t0 = channel * u.p0 + x;
    let t1 = r0[t0];
    return t1;
}
fn combine(a: f32, b: f32) -> f32 {
    return nan_max(a, b);
}
fn finish(v: f32, count: f32) -> f32 {
    return v;
}
fn store_out(i: i32, v: f32) {
    w0[i] = v;
}
// and then pool.wgsl
