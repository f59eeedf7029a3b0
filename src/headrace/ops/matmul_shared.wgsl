// C[m, n] = sum over k of a(m, k) * b(k, n), for GPUs: a workgroup of 16 x 16 threads makes a tile of 64 x 64 from tiles
// of a and b in workgroup memory, DEPTH of k at a time; each thread holds 4 x 4 of it in registers. Neighbouring threads
// load neighbouring k of a and neighbouring n of b, and store neighbouring n.
const TILE = 64;
const DEPTH = 16;

var<workgroup> tile_a: array<array<f32, 65>, 16>;  // [k][m], a column more so that the stores fall on other banks
var<workgroup> tile_b: array<array<f32, 64>, 16>;  // [k][n]

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let batch = i32(group.z);
    let first_m = i32(group.y) * TILE;
    let first_n = i32(group.x) * TILE;
    let t = i32(lane);
    let k_a = t % DEPTH;
    let m_a = t / DEPTH;
    let n_b = t % TILE;
    let k_b = t / TILE;
    let a0 = a_row(batch, min(first_m + m_a, u.M - 1));
    let a1 = a_row(batch, min(first_m + m_a + 16, u.M - 1));
    let a2 = a_row(batch, min(first_m + m_a + 32, u.M - 1));
    let a3 = a_row(batch, min(first_m + m_a + 48, u.M - 1));
    let b = b_row(batch, min(first_n + n_b, u.N - 1));
    let x = t % 16;
    let y = t / 16;
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    for (var k = 0; k < u.K; k += DEPTH) {
        let ka = min(k + k_a, u.K - 1);
        let live = k + k_a < u.K;
        tile_a[k_a][m_a] = select(0.0, a_at(a0, ka), live);
        tile_a[k_a][m_a + 16] = select(0.0, a_at(a1, ka), live);
        tile_a[k_a][m_a + 32] = select(0.0, a_at(a2, ka), live);
        tile_a[k_a][m_a + 48] = select(0.0, a_at(a3, ka), live);
        for (var i = 0; i < DEPTH; i += 4) {
            let kb = k + k_b + i;
            tile_b[k_b + i][n_b] = select(0.0, b_at(b, min(kb, u.K - 1)), kb < u.K);
        }
        workgroupBarrier();
        for (var i = 0; i < DEPTH; i++) {
            let p = vec4<f32>(tile_b[i][x], tile_b[i][x + 16], tile_b[i][x + 32], tile_b[i][x + 48]);
            s0 += tile_a[i][y] * p;
            s1 += tile_a[i][y + 16] * p;
            s2 += tile_a[i][y + 32] * p;
            s3 += tile_a[i][y + 48] * p;
        }
        workgroupBarrier();
    }
    store_row(batch, first_m + y, first_n + x, s0);
    store_row(batch, first_m + y + 16, first_n + x, s1);
    store_row(batch, first_m + y + 32, first_n + x, s2);
    store_row(batch, first_m + y + 48, first_n + x, s3);
}

fn store_row(batch: i32, m: i32, n: i32, s: vec4<f32>) {
    if (m >= u.M) {
        return;
    }
    if (n < u.N) {
        store_out(batch, m, n, s.x);
    }
    if (n + 16 < u.N) {
        store_out(batch, m, n + 16, s.y);
    }
    if (n + 32 < u.N) {
        store_out(batch, m, n + 32, s.z);
    }
    if (n + 48 < u.N) {
        store_out(batch, m, n + 48, s.w);
    }
}
