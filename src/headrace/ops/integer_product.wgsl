@compute @workgroup_size(16, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = i32(id.x);
    let m = i32(id.y);
    let b = i32(id.z);
    if (m >= u.M || n >= u.N) {
        return;
    }
    let left = a_row(b, m);
    let right = w_row(b, n);
    var acc = T(0);
    for (var k = 0; k < u.K; k++) {
        acc += a_at(left, k) * w_at(right, k);
    }
    store_out(b, m, n, acc);
}
