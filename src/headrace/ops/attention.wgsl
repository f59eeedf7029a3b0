// softmax(score(q . k)) . v for one head and GROUP rows of q: a thread keeps its row of q and its sum in registers and walks
// the keys once, rescaling when it meets a larger score. Loads of k and v are the same for all threads of a workgroup.
@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let b = i32(group.z * u32(u.split) + group.y);
    let i = i32(group.x) * GROUP + i32(lane);
    if (b >= u.heads) {
        return;
    }
    let row = min(i, u.rows - 1);
    var q: array<vec4<f32>, QUADS>;
    var sum: array<vec4<f32>, QUADS>;
    let query = q_row(b, row);
    for (var d = 0; d < QUADS; d++) {
        q[d] = vec4<f32>(q_at(query, 4 * d), q_at(query, 4 * d + 1), q_at(query, 4 * d + 2), q_at(query, 4 * d + 3));
        sum[d] = vec4<f32>();
    }
    var largest = u.lowest;
    var total = 0.0;
    for (var j = 0; j < u.keys; j++) {
        let key = k_row(b, j);
        var s = vec4<f32>();
        for (var d = 0; d < QUADS; d++) {
            s += q[d] * vec4<f32>(k_at(key, 4 * d), k_at(key, 4 * d + 1), k_at(key, 4 * d + 2), k_at(key, 4 * d + 3));
        }
        let score = score_of(b, row, j, (s.x + s.y) + (s.z + s.w));
        let next = max(largest, score);
        let keep = select(exp(largest - next), 0.0, largest == u.lowest);
        let weight = select(exp(score - next), 0.0, score == u.lowest);
        largest = next;
        total = total * keep + weight;
        let value = v_row(b, j);
        for (var d = 0; d < QUADS; d++) {
            sum[d] = sum[d] * keep + weight * vec4<f32>(v_at(value, 4 * d), v_at(value, 4 * d + 1), v_at(value, 4 * d + 2), v_at(value, 4 * d + 3));
        }
    }
    // A row without any finite score is 0 / 0: ONNX's softmax gives NaN there, unless the graph replaces NaN by zero.
    let factor = select(1.0 / total, 0.0, ZERO_EMPTY && total == 0.0);
    if (i < u.rows) {
        for (var d = 0; d < QUADS; d++) {
            let r = sum[d] * factor;
            store_out(b, i, 4 * d, r.x);
            store_out(b, i, 4 * d + 1, r.y);
            store_out(b, i, 4 * d + 2, r.z);
            store_out(b, i, 4 * d + 3, r.w);
        }
    }
}
