// Two passes over a row for its statistics and one that writes. `whole` 0 is the sum, 1 the maximum.
var<workgroup> part: array<f32, WG>;
const BLOCK = 64; // elements that are summed by themselves: the error grows with their count, not with the row's

struct Sum { total: f32, block: f32, count: i32 }

fn plus(sum: Sum, v: f32) -> Sum {
    if (sum.count == BLOCK) {
        return Sum(sum.total + sum.block, v, 1);
    }
    return Sum(sum.total, sum.block + v, sum.count + 1);
}

fn join(a: f32, b: f32, largest: bool) -> f32 {
    return select(a + b, select(select(b, a, a > b), a + b, is_nan(a) || is_nan(b)), largest);
}

fn over_row(lane: u32, mine: f32, largest: bool) -> f32 {
    if (LANES == 1) {
        return mine;
    }
    part[lane] = mine;
    workgroupBarrier();
    for (var step = u32(LANES) / 2u; step > 0u; step = step / 2u) {
        if (lane % u32(LANES) < step) {
            part[lane] = join(part[lane], part[lane + step], largest);
        }
        workgroupBarrier();
    }
    let all = part[lane - lane % u32(LANES)];
    workgroupBarrier();
    return all;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let wanted = i32((group.y * u32(u.groups_x) + group.x) * (WG / u32(LANES)) + lane / u32(LANES));
    let i = min(wanted, u.rows - 1);
    let row = x_row(i);
    let first = i32(lane) % LANES;
    var center = 0.0;
    if (KIND == 0) {
        center = u.lowest;
        for (var k = first; k < u.length; k += LANES) {
            center = join(center, x_at(row, k), true);
        }
        center = over_row(lane, center, true);
    }
    if (KIND == 1) {
        var sum = Sum(0.0, 0.0, 0);
        for (var k = first; k < u.length; k += LANES) {
            sum = plus(sum, x_at(row, k));
        }
        center = over_row(lane, sum.total + sum.block, false) / f32(u.length);
    }
    var squares = Sum(0.0, 0.0, 0);
    for (var k = first; k < u.length; k += LANES) {
        let d = x_at(row, k) - center;
        squares = plus(squares, select(d * d, exp(d), KIND == 0));
    }
    let spread = over_row(lane, squares.total + squares.block, false);
    let factor = select(inverseSqrt(spread / f32(u.length) + u.epsilon), 1.0 / spread, KIND == 0);
    if (wanted < u.rows) {
        for (var k = first; k < u.length; k += LANES) {
            let d = x_at(row, k) - center;
            store_out(i, k, select(d * factor, select(exp(d) * factor, d - log(spread), LOG), KIND == 0));
        }
    }
}
