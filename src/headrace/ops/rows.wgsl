// Shared by kernels that work on rows: LANES threads share a row (1: each thread has its own), WG / LANES rows a workgroup.
var<workgroup> part: array<f32, WG>;

fn over_row(lane: u32, mine: f32) -> f32 {
    if (LANES == 1) {
        return mine;
    }
    part[lane] = mine;
    workgroupBarrier();
    for (var step = u32(LANES) / 2u; step > 0u; step = step / 2u) {
        if (lane % u32(LANES) < step) {
            part[lane] = combine(part[lane], part[lane + step]);
        }
        workgroupBarrier();
    }
    let all = part[lane - lane % u32(LANES)];
    workgroupBarrier();
    return all;
}
