@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (i >= u.total) {
        return;
    }
    let j = i % u.inner;
    let n = i / u.inner;
    var acc = x(0, n, j);
    for (var e = first(n); e < first(n + 1); e++) {
        acc = combine(acc, update(0, order(e), j));
    }
    store_out(0, n, j, acc);
}
