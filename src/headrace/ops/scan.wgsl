@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = i32(id.x);
    if (i >= u.rows) {
        return;
    }
    let row = x_row(i);
    var acc = T(START);
    for (var j = 0; j < u.length; j++) {
        let k = select(j, u.length - 1 - j, REVERSE);
        let next = combine(acc, x_at(row, k));
        store_out(i, k, select(next, acc, EXCLUSIVE));
        acc = next;
    }
}
