// The range of all elements and zero, by the threads of one workgroup: the step of 8-bit numbers that cover it.
var<workgroup> lows: array<f32, WG>;
var<workgroup> highs: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
    let row = x_row();
    var low = 0.0;
    var high = 0.0;
    for (var k = i32(lane); k < u.length; k += i32(WG)) {
        let v = x_at(row, k);
        low = nan_min(low, v);
        high = nan_max(high, v);
    }
    lows[lane] = low;
    highs[lane] = high;
    workgroupBarrier();
    for (var step = WG / 2u; step > 0u; step = step / 2u) {
        if (lane < step) {
            lows[lane] = nan_min(lows[lane], lows[lane + step]);
            highs[lane] = nan_max(highs[lane], highs[lane + step]);
        }
        workgroupBarrier();
    }
    if (lane == 0u) {
        let range = highs[0] - lows[0];
        let scale = select(range / u.steps, 1.0, range == 0.0);
        let zero = round(clamp(-lows[0] / scale, 0.0, u.steps));
        store_out(scale, select(u32(zero), 0u, is_nan(scale)));
    }
}
