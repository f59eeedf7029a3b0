struct Params {
    rows: i32,
    length: i32,
    groups_x: i32,
    start: f32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
alias T = f32;
const WG = 64u;
const LANES = 1;
struct Row_x { unused: i32 }
fn x_row(i: i32) -> Row_x {
    return Row_x(0);
}
fn x_at(r: Row_x, k: i32) -> f32 {
    let t0 = r0[k];
    return t0;
}
fn each(v: T) -> T {
    return v;
}
fn combine(a: T, b: T) -> T {
    return a + b;
}
fn finish(v: T) -> T {
    return v / T(u.length);
}
fn store_out(i: i32, v: f32) {
    w0[0] = v;
}
// Shared by kernels that work on rows: LANES threads share a row (1: each thread has its own), WG / LANES rows a workgroup.
var<workgroup> part: array<f32, WG>;

fn over_row(lane: u32, mine: f32) -> f32 {
    if (LANES == 1) {
        return mine;
    }
    part[lane] = mine;
    workgroupBarrier();
    for (var step = u32(LANES) / 2u; step > 0u; step = step / 2u) {
        if (lane % u32(LANES) < step) {
            part[lane] = combine(part[lane], part[lane + step]);
        }
        workgroupBarrier();
    }
    let all = part[lane - lane % u32(LANES)];
    workgroupBarrier();
    return all;
}
// and then reduce.wgsl
