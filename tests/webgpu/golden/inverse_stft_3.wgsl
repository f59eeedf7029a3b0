struct Params {
    p0: i32,
    p1: i32,
    p2: i32,
    FIRST: i32,
    QUARTERS: i32,
    BATCH: i32,
    STRIDE: i32,
    FRAMES: i32,
    BEGIN: i32,
    TAPS: i32,
    LENGTH: i32,
    OUT: i32,
    GROUPS_X: i32,
    SIZE: u32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const WRAPS = false;
struct Row_x { t0: i32 }
fn x_row(b: i32, k: i32) -> Row_x {
    let t0 = b * u.p0 + k * u.p1;
    return Row_x(t0);
}
fn x_at(r: Row_x, f: i32) -> f32 {
    let t1 = r.t0 + f;
    let t2 = r0[t1];
    return t2;
}
fn window(k: i32) -> f32 {
    let t0 = r1[k];
    return t0;
}
fn store_out(b: i32, o: i32, v: f32) {
    let t0 = b * u.p2 + o;
    w0[t0] = v;
}
// and then overlap_add.wgsl
