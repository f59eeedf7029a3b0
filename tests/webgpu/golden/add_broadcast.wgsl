struct Params {
    size: i32,
    groups_x: i32,
    p2: u32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<f32>;
const WG = 64u;
fn element(i: i32) {
    let t0 = r0[i];
    let t1 = i32(u32(i) % u.p2);
    let t2 = r1[t1];
    let t3 = t0 + t2;
    w0[i] = t3;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * WG + lane);
    if (i < u.size) {
        element(i);
    }
}
