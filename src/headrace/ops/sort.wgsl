// An element's place in its piece is the number of elements that stand before it.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let i = e / u.length;
    let k = e % u.length;
    let begin = k - k % PIECE;
    let end = min(begin + PIECE, u.length);
    let mine = x(i, k);
    var before = 0;
    for (var j = begin; j < end; j++) {
        let other = x(i, j);
        before += select(0, 1, better(other, mine) || (j < k && !better(mine, other)));
    }
    store_out(i, begin + before, mine, k);
}
