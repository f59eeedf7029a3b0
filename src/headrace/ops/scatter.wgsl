@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (i >= u.total) {
        return;
    }
    let j = i % u.inner;
    let n = (i / u.inner) % u.slots;
    let r = i / (u.inner * u.slots);
    var acc = x(r, n, j);
    for (var k = 0; k < u.count; k++) {
        if (index(r, k) == n) {
            acc = combine(acc, update(r, k, j));
        }
    }
    store_out(r, n, j, acc);
}
