@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let wanted = i32((group.y * u32(u.groups_x) + group.x) * (WG / u32(LANES)) + lane / u32(LANES));
    let i = min(wanted, u.rows - 1);
    let row = x_row(i);
    var acc = u.start;
    for (var k = i32(lane) % LANES; k < u.length; k += LANES) {
        acc = combine(acc, each(x_at(row, k)));
    }
    acc = over_row(lane, acc);
    if (wanted < u.rows && i32(lane) % LANES == 0) {
        store_out(i, finish(acc));
    }
}
