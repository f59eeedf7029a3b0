@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = i32((group.y * u32(u.groups_x) + group.x) * 64u + lane);
    if (i >= u.total) {
        return;
    }
    var a: array<array<f32, N>, N>;
    for (var r = 0; r < N; r++) {
        for (var c = 0; c < N; c++) {
            a[r][c] = x(i, r, c);
        }
    }
    var result = 1.0;
    for (var k = 0; k < N; k++) {
        var pivot = k;
        for (var r = k + 1; r < N; r++) {
            pivot = select(pivot, r, abs(a[r][k]) > abs(a[pivot][k]));
        }
        if (pivot != k) {
            let row = a[k];
            a[k] = a[pivot];
            a[pivot] = row;
            result = -result;
        }
        let head = a[k][k];
        result *= head;
        if (head == 0.0) {
            break;
        }
        for (var r = k + 1; r < N; r++) {
            let factor = a[r][k] / head;
            for (var c = k + 1; c < N; c++) {
                a[r][c] -= factor * a[k][c];
            }
        }
    }
    store_out(i, result);
}
