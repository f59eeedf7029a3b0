// An element's place in the row is its place in its piece, plus, for every other piece, how many stand before it there.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let e = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (e >= u.total) {
        return;
    }
    let i = e / u.length;
    let k = e % u.length;
    let own = k - k % PIECE;
    let mine = x(i, k);
    var rank = k - own;
    for (var begin = 0; begin < u.length && rank < u.wanted; begin += PIECE) {
        if (begin == own) {
            continue;
        }
        var low = begin;
        var high = min(begin + PIECE, u.length);
        while (low < high) {
            let middle = (low + high) / 2;
            let other = x(i, middle);
            if (better(other, mine) || (begin < own && !better(mine, other))) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        rank += low - begin;
    }
    if (rank < u.wanted) {
        store_out(i, rank, mine, place(i, k));
    }
}
