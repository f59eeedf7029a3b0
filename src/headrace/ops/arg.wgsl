// LANES threads share a row; each keeps the best of its own part, then halves are joined.
var<workgroup> part_value: array<T, WG>;
var<workgroup> part_index: array<i32, WG>;

fn takes(v: T, k: i32, old: T, old_k: i32) -> bool {
    let tie = !better(v, old) && !better(old, v);
    return k >= 0 && (old_k < 0 || better(v, old) || (tie && ((k > old_k) == LAST)));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let wanted = i32((group.y * u32(u.groups_x) + group.x) * (WG / u32(LANES)) + lane / u32(LANES));
    let i = min(wanted, u.rows - 1);
    let row = x_row(i);
    var value = T();
    var index = -1;
    for (var k = i32(lane) % LANES; k < u.length; k += LANES) {
        let v = x_at(row, k);
        if (takes(v, k, value, index)) {
            value = v;
            index = k;
        }
    }
    if (LANES > 1) {
        part_value[lane] = value;
        part_index[lane] = index;
        workgroupBarrier();
        for (var step = u32(LANES) / 2u; step > 0u; step = step / 2u) {
            if (lane % u32(LANES) < step) {
                if (takes(part_value[lane + step], part_index[lane + step], part_value[lane], part_index[lane])) {
                    part_value[lane] = part_value[lane + step];
                    part_index[lane] = part_index[lane + step];
                }
            }
            workgroupBarrier();
        }
        index = part_index[lane];
    }
    if (wanted < u.rows && i32(lane) % LANES == 0) {
        store_out(i, index);
    }
}
