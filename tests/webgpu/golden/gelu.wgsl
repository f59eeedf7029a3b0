struct Params {
    size: i32,
    groups_x: i32,
}
@group(0) @binding(0) var<uniform> u: Params;
@group(0) @binding(1) var<storage, read> r0: array<f32>;
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
const WG = 64u;
fn erf(x: f32) -> f32 {
    let a = abs(x);
    if (a < 0.84375) {
        let s = x * x;
        let p = 0.128379167 + s * (-0.325042107 + s * (-0.0284817495 + s * (-0.00577027029 + s * -0.0000237630166)));
        let q = 1.0 + s * (0.397917223 + s * (0.0650222499 + s * (0.00508130628 + s * (0.000132494738 + s * -0.00000396022827))));
        return x + x * (p / q);
    }
    let t = 1.0 / (1.0 + 0.5 * a);
    let poly = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806
        + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
    let r = 1.0 - t * exp(-a * a + poly);
    return select(r, -r, x < 0.0);
}

fn element(i: i32) {
    let t0 = r0[i];
    let t1 = erf(t0);
    let t2 = t1 + t0;
    let t3 = t2 * t0;
    w0[i] = t3;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * WG + lane);
    if (i < u.size) {
        element(i);
    }
}
