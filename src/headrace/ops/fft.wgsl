// One pass of a Stockham FFT over T transforms of length N = S * M * R. A thread takes R inputs of one transform, S * M
// apart, and writes R outputs S apart, so that no pass reorders anything. Elements stand along the first axis and
// transforms along the last: the lanes of a workgroup read neighbours, and share their twiddle factors.
struct At { re: Row_re, im: Row_im, t: i32, q: i32, p: i32 }

fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn twiddle(k: i32) -> vec2<f32> {
    return vec2<f32>(w(0, k), SIGN * w(1, k));
}

fn load(at: At, r: i32) -> vec2<f32> {
    let k = at.q + u.S * (at.p + u.M * r);
    let x = vec2<f32>(re_at(at.re, k), im_at(at.im, k));
    if (HERMITIAN) {
        // Half of a Hermitian spectrum, as that of the complex signal whose parts are the even and the odd samples.
        let y = vec2<f32>(re_at(at.re, u.N - k), -im_at(at.im, u.N - k));
        let edge = k == 0; // imaginary parts of the first and the last bin count for nothing
        let e = times(vec2<f32>(x.x - y.x, select(x.y - y.y, 0.0, edge)), vec2<f32>(f(0, k), f(1, k)));
        return vec2<f32>(x.x + y.x - e.y, select(x.y + y.y, 0.0, edge) + e.x);
    }
    if (TIMES) {
        return times(x, vec2<f32>(f(0, k), f(1, k)));
    }
    return x;
}

fn put(at: At, r: i32, x: vec2<f32>) {
    let k = at.q + u.S * (u.R * at.p + r);
    var y = x;
    if (!LAST & (r > 0)) {
        y = times(x, twiddle(at.p * r * u.S));
    }
    store_out(k, 0, at.t, y.x);
    store_out(k, 1, at.t, y.y);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * u32(u.GROUPS_X) + group.x) * 64u + lane;
    if (i >= u.SIZE) {
        return;
    }
    let t = i32(i % u32(u.T));
    let j = i32(i / u32(u.T));
    butterfly(At(re_row(t), im_row(t), t, j % u.S, j / u.S));
}
