struct Params {
    size: i32,
    groups_x: i32,
    p2: u32,
    p3: u32,
    p4: i32,
    p5: i32,
    p6: u32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
const WG = 64u;
fn element(i: i32) {
    let t0 = i32(u32(i) / u.p2);
    let t1 = i32(u32(t0) % u.p3);
    let t2 = i32(u32(i) % u.p2);
    let t3 = i32(u32(i) / u.p6);
    let t4 = t1 * u.p4 + t2 * u.p5 + t3;
    let t5 = r0[t4];
    w0[i] = t5;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * WG + lane);
    if (i < u.size) {
        element(i);
    }
}
