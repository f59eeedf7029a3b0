// Convolution as an implicit matrix product, for GPUs: a workgroup of 16 x 16 threads makes 64 output channels at 64
// positions; for each tap, weights and inputs of DEPTH channels at a time stand in workgroup memory, and each thread
// holds 4 x 4 results in registers. Neighbouring threads load neighbouring weights and neighbouring positions.
const TILE = 64;
const DEPTH = 16;

var<workgroup> tile_w: array<array<f32, 64>, 16>;  // [channel][output channel]
var<workgroup> tile_x: array<array<f32, 64>, 16>;  // [channel][position]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let g = i32(group.z);
    let first_m = i32(group.y) * TILE;
    let first_p = i32(group.x) * TILE;
    let t = i32(lane);
    let column = t % TILE;
    let c_first = t / TILE;
    let q = u32(min(first_p + column, u.N - 1));
    let o = q % u32(u.OUT);
    let r = o % u32(u.OUT_YX);
    let n = i32(q / u32(u.OUT));
    let oz = i32(o / u32(u.OUT_YX)) * SZ - PZ;
    let oy = i32(r / u32(u.OUT_X)) * SY - PY;
    let ox = i32(r % u32(u.OUT_X)) * SX - PX;
    let i = t % 16;
    let j = t / 16;
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    for (var tap = 0; tap < u.TAPS; tap++) {
        let z = oz + (tap / (KY * KX)) * DZ;
        let y = oy + ((tap / KX) % KY) * DY;
        let x = ox + (tap % KX) * DX;
        let inside = !PADDED | ((u32(z) < u32(u.IN_Z)) & (u32(y) < u32(u.IN_Y)) & (u32(x) < u32(u.IN_X)));
        let xs = x_row(g, n, clamp(z, 0, u.IN_Z - 1), clamp(y, 0, u.IN_Y - 1), clamp(x, 0, u.IN_X - 1));
        let ws = w_row(g, min(first_m + column, u.M - 1), tap);
        for (var c = 0; c < u.CIN; c += DEPTH) {
            for (var d = 0; d < DEPTH; d += 4) {
                let at = c + c_first + d;
                let live = at < u.CIN;
                let near = min(at, u.CIN - 1);
                tile_w[c_first + d][column] = select(0.0, w_at(ws, near), live);
                tile_x[c_first + d][column] = select(0.0, x_at(xs, near), live & inside);
            }
            workgroupBarrier();
            for (var d = 0; d < DEPTH; d++) {
                let p = vec4<f32>(tile_x[d][i], tile_x[d][i + 16], tile_x[d][i + 32], tile_x[d][i + 48]);
                s0 += tile_w[d][j] * p;
                s1 += tile_w[d][j + 16] * p;
                s2 += tile_w[d][j + 32] * p;
                s3 += tile_w[d][j + 48] * p;
            }
            workgroupBarrier();
        }
    }
    store_row(g, first_m + j, first_p + i, s0);
    store_row(g, first_m + j + 16, first_p + i, s1);
    store_row(g, first_m + j + 32, first_p + i, s2);
    store_row(g, first_m + j + 48, first_p + i, s3);
}

fn store_row(g: i32, m: i32, p: i32, s: vec4<f32>) {
    if (m >= u.M) {
        return;
    }
    if (p < u.N) {
        store_out(g, m, p, s.x);
    }
    if (p + 16 < u.N) {
        store_out(g, m, p + 16, s.y);
    }
    if (p + 32 < u.N) {
        store_out(g, m, p + 32, s.z);
    }
    if (p + 48 < u.N) {
        store_out(g, m, p + 48, s.w);
    }
}
