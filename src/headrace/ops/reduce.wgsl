const BLOCK = 64; // elements that are summed by themselves: the error grows with their count, not with the row's

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let wanted = i32((group.y * u32(u.groups_x) + group.x) * (WG / u32(LANES)) + lane / u32(LANES));
    let i = min(wanted, u.rows - 1);
    let row = x_row(i);
    var acc = u.start;
    var block = u.start;
    var count = 0;
    for (var k = i32(lane) % LANES; k < u.length; k += LANES) {
        block = combine(block, each(x_at(row, k)));
        count++;
        if (count == BLOCK) {
            acc = combine(acc, block);
            block = u.start;
            count = 0;
        }
    }
    acc = over_row(lane, combine(acc, block));
    if (wanted < u.rows && i32(lane) % LANES == 0) {
        store_out(i, finish(acc));
    }
}
