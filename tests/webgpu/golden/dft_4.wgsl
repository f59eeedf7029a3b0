struct Params {
    size: i32,
    groups_x: i32,
    p2: u32,
    p3: u32,
    p4: i32,
    p5: i32,
    p6: u32,
    p7: i32,
    p8: i32,
    p9: i32,
    p10: i32,
    p11: i32,
    p12: i32,
    p13: i32,
    p14: i32,
    p15: i32,
    p16: i32,
    p17: i32,
    p18: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<i32>;
@group(0) @binding(2) var<storage, read> r1: array<f32>;
@group(0) @binding(3) var<storage, read> r2: array<f32>;
@group(0) @binding(4) var<storage, read_write> w0: array<f32>;
const WG = 64u;
fn element(i: i32) {
    let t0 = i32(u32(i) / u.p2);
    let t1 = i32(u32(t0) % u.p3);
    let t2 = i32(u32(i) % u.p2);
    let t3 = t1 + t2 * u.p4;
    let t4 = r0[t3];
    let t5 = clamp(select(i32(t4), i32(t4) + u.p5, i32(t4) < 0), 0, u.p5 - 1);
    let t6 = i32(u32(i) / u.p6);
    let t7 = t6 + t5 * u.p7;
    let t8 = r1[t7];
    let t9 = t1 + t2 * u.p4 + u.p8;
    let t10 = r0[t9];
    let t11 = clamp(select(i32(t10), i32(t10) + u.p9, i32(t10) < 0), 0, u.p9 - 1);
    let t12 = t6 + t11 * u.p10;
    let t13 = r1[t12];
    let t14 = clamp(select(i32(t4), i32(t4) + u.p11, i32(t4) < 0), 0, u.p11 - 1);
    let t15 = t6 + t14 * u.p12 + u.p13;
    let t16 = r1[t15];
    let t17 = clamp(select(i32(t10), i32(t10) + u.p14, i32(t10) < 0), 0, u.p14 - 1);
    let t18 = t6 + t17 * u.p15 + u.p16;
    let t19 = r1[t18];
    let t20 = r2[t3];
    let t21 = r2[t9];
    let t22 = t1 + t2 * u.p4 + u.p17;
    let t23 = r2[t22];
    let t24 = t1 + t2 * u.p4 + u.p18;
    let t25 = r2[t24];
    let t26 = t8 * t20 + t13 * t21 + t16 * t23 + t19 * t25;
    w0[i] = t26;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * WG + lane);
    if (i < u.size) {
        element(i);
    }
}
