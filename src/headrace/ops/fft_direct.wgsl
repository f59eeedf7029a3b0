// A pass of any radix R: a thread computes one output as a sum over R inputs. For factors without a butterfly.
fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn twiddle(k: i32) -> vec2<f32> {
    return vec2<f32>(w(0, k), SIGN * w(1, k));
}

fn load(re: Row_re, im: Row_im, k: i32) -> vec2<f32> {
    let x = vec2<f32>(re_at(re, k), im_at(im, k));
    if (HERMITIAN) {
        // Half of a Hermitian spectrum, as that of the complex signal whose parts are the even and the odd samples.
        let y = vec2<f32>(re_at(re, u.N - k), -im_at(im, u.N - k));
        let edge = k == 0; // imaginary parts of the first and the last bin count for nothing
        let e = times(vec2<f32>(x.x - y.x, select(x.y - y.y, 0.0, edge)), vec2<f32>(f(0, k), f(1, k)));
        return vec2<f32>(x.x + y.x - e.y, select(x.y + y.y, 0.0, edge) + e.x);
    }
    if (TIMES) {
        return times(x, vec2<f32>(f(0, k), f(1, k)));
    }
    return x;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = (group.y * u32(u.GROUPS_X) + group.x) * 64u + lane;
    if (i >= u.SIZE) {
        return;
    }
    let t = i32(i % u32(u.T));
    let j = i32(i / u32(u.T));
    let q = j % u.S;
    let r = (j / u.S) % u.R;
    let p = j / (u.S * u.R);
    let re = re_row(t);
    let im = im_row(t);
    var sum = vec2<f32>();
    for (var l = 0; l < u.R; l++) {
        sum += times(load(re, im, q + u.S * (p + u.M * l)), twiddle(((l * r) % u.R) * u.S * u.M));
    }
    let y = times(sum, twiddle(p * r * u.S));
    store_out(j, 0, t, y.x);
    store_out(j, 1, t, y.y);
}
