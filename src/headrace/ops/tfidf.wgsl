@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let r = e / u.slots;
    let s = e % u.slots;
    let begin = gram(s, 0);
    let n = gram(s, 1);
    var count = 0;
    for (var step = 1; n > 0 && step <= select(1, u.skips + 1, n > 1); step++) {
        for (var i = 0; i + (n - 1) * step < u.length; i++) {
            var same = true;
            for (var k = 0; k < n && same; k++) {
                same = x(r, i + k * step) == pool(begin + k);
            }
            count += select(0, 1, same);
        }
    }
    let found = select(0.0, 1.0, count > 0);
    store_out(r, s, select(select(f32(count), found, MODE == 1) * weight(s), f32(count), MODE == 0));
}
