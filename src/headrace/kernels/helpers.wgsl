fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_inf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn nan_max(a: f32, b: f32) -> f32 {
    return select(select(b, a, a > b), a + b, is_nan(a) || is_nan(b));
}

fn nan_min(a: f32, b: f32) -> f32 {
    return select(select(b, a, a < b), a + b, is_nan(a) || is_nan(b));
}

fn erf(x: f32) -> f32 {
    let a = abs(x);
    if (a < 0.84375) {
        let s = x * x;
        let p = 0.128379167 + s * (-0.325042107 + s * (-0.0284817495 + s * (-0.00577027029 + s * -0.0000237630166)));
        let q = 1.0 + s * (0.397917223 + s * (0.0650222499 + s * (0.00508130628 + s * (0.000132494738 + s * -0.00000396022827))));
        return x + x * (p / q);
    }
    let t = 1.0 / (1.0 + 0.5 * a);
    let poly = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806
        + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
    let r = 1.0 - t * exp(-a * a + poly);
    return select(r, -r, x < 0.0);
}

fn tanh_safe(x: f32) -> f32 {
    let a = abs(x);
    if (a < 0.3) {
        let s = x * x;
        return x * (1.0 + s * (-0.333333333 + s * (0.133333333 + s * (-0.0539682540 + s * 0.0218694885))));
    }
    let e = exp(-2.0 * a);
    let r = (1.0 - e) / (1.0 + e);
    return select(select(r, -r, x < 0.0), x, is_nan(x));
}

fn nan_of(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u);
}

fn sign_of(x: f32) -> f32 {
    return select(select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0), x, is_nan(x));
}

fn clamp_nan(x: f32, low: f32, high: f32) -> f32 {
    return select(clamp(x, low, high), x, is_nan(x));
}

fn sqrt_exact(x: f32) -> f32 {
    return select(sqrt(x), nan_of(x), x < 0.0 || is_nan(x));
}

fn exp_exact(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}

fn log_exact(x: f32) -> f32 {
    if (x < 0.0 || is_nan(x)) {
        return nan_of(x);
    }
    if (x > 0.7 && x < 1.5) {
        return log_series(x - 1.0);
    }
    return select(select(log(x), -1.0 / abs(x), x == 0.0), x, is_inf(x));
}

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp_exact(-x));
}

fn log_series(x: f32) -> f32 {
    let s = x / (2.0 + x);
    let z = s * s;
    return 2.0 * s * (1.0 + z * (0.333333333 + z * (0.2 + z * (0.142857143 + z * 0.111111111))));
}

fn log1p(x: f32) -> f32 {
    if (x > -0.3 && x < 0.5) {
        return log_series(x);
    }
    return log_exact(1.0 + x);
}

fn expm1(x: f32) -> f32 {
    if (abs(x) < 0.1) {
        return x * (1.0 + x * (0.5 + x * (0.166666667 + x * (0.0416666667 + x * (0.00833333333 + x * 0.00138888889)))));
    }
    return exp_exact(x) - 1.0;
}

fn power(x: f32, y: f32) -> f32 {
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (is_nan(x) || is_nan(y)) {
        return nan_of(x + y);
    }
    if (y == 1.0) {
        return x;
    }
    if (y == 2.0) {
        return x * x;
    }
    let a = abs(x);
    let whole = trunc(y) == y;
    let odd = whole && abs(y) < 16777216.0 && (i32(y) & 1) == 1;
    if (x < 0.0 && !whole && !is_inf(x)) {
        return nan_of(x);
    }
    var r = 1.0;
    if (is_inf(y)) {
        r = select(select(0.0, abs(y), (a > 1.0) == (y > 0.0)), 1.0, a == 1.0);
    } else if (a == 0.0 || is_inf(x)) {
        r = select(1.0 / a, a, y > 0.0);
    } else if (y == 0.5) {
        r = sqrt(a);
    } else {
        r = pow(a, y);
    }
    return select(r, -r, odd && bitcast<i32>(x) < 0);
}

fn int_power(x: i32, y: i32) -> i32 {
    if (y < 0 && abs(x) != 1) {
        return 0;
    }
    var r = 1;
    var b = x;
    var e = abs(y);
    while (e > 0) {
        if ((e & 1) == 1) {
            r = r * b;
        }
        b = b * b;
        e = e >> 1u;
    }
    return r;
}

fn trunc_mod(x: f32, y: f32) -> f32 {
    let b = abs(y);
    if (is_nan(x) || is_nan(y) || is_inf(x) || b == 0.0) {
        return nan_of(x);
    }
    var a = abs(x);
    if (!is_inf(y)) {
        while (a >= b) {
            let steps = (bitcast<u32>(a) >> 23u) - (bitcast<u32>(b) >> 23u);
            let half = steps / 2u;
            var t = b * bitcast<f32>((127u + half) << 23u) * bitcast<f32>((127u + steps - half) << 23u);
            t = select(t, 0.5 * t, t > a);
            a = a - t;
        }
    }
    return select(a, -a, x < 0.0);
}

fn floor_mod(x: f32, y: f32) -> f32 {
    let r = trunc_mod(x, y);
    return select(r, r + y, r != 0.0 && (r < 0.0) != (y < 0.0));
}

fn int_floor_mod(x: i32, y: i32) -> i32 {
    let r = x % y;
    return select(r, r + y, r != 0 && (r < 0) != (y < 0));
}

fn to_i32(x: f32) -> i32 {
    return i32(clamp(x, -2147483648.0, 2147483520.0));
}

fn to_u32(x: f32) -> u32 {
    return select(u32(clamp(x, 0.0, 4294967040.0)), bitcast<u32>(i32(max(x, -2147483648.0))), x < 0.0);
}

fn quarter_turns(x: f32) -> vec2<f32> {
    let a = abs(x);
    if (a < 8192.0) {
        let k = round(a * 0.636619772);
        return vec2<f32>(((a - k * 1.5703125) - k * 0.000483751297) - k * 7.54978999e-8, k);
    }
    let bits = bitcast<u32>(a);
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    let start = (bits >> 23u) - 120u;
    var words = array<u32, 8>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    let w = min(start >> 5u, 4u);
    let s = start & 31u;
    let back = 31u - s;
    let high = (words[w] << s) | ((words[w + 1u] >> 1u) >> back);
    let middle = (words[w + 1u] << s) | ((words[w + 2u] >> 1u) >> back);
    let low = (words[w + 2u] << s) | ((words[w + 3u] >> 1u) >> back);
    let tail = mantissa * middle + high_product(mantissa, low);
    let carry = select(0u, 1u, tail < mantissa * middle);
    let turns = mantissa * high + high_product(mantissa, middle) + carry;
    let fraction = bitcast<i32>((turns << 2u) | (tail >> 30u));
    let k = (turns >> 30u) + select(0u, 1u, fraction < 0);
    return vec2<f32>(f32(fraction) * 3.65729520e-10, f32(k));
}

fn high_product(a: u32, b: u32) -> u32 {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let middle = ah * bl + ((al * bl) >> 16u);
    return ah * bh + (middle >> 16u) + (((middle & 0xffffu) + al * bh) >> 16u);
}

fn sine(r: f32, quarter: i32) -> f32 {
    let s = r * r;
    let odd = r + r * s * (-0.166666655 + s * (0.00833216087 + s * -0.000195152959));
    let even = 1.0 - 0.5 * s + s * s * (0.0416666457 + s * (-0.00138873163 + s * 0.0000244331571));
    let v = select(odd, even, (quarter & 1) == 1);
    return select(v, -v, (quarter & 2) == 2);
}

fn sin_exact(x: f32) -> f32 {
    if (is_nan(x) || is_inf(x)) {
        return nan_of(x);
    }
    let t = quarter_turns(x);
    let y = sine(t.x, i32(t.y));
    return select(y, -y, x < 0.0);
}

fn cos_exact(x: f32) -> f32 {
    if (is_nan(x) || is_inf(x)) {
        return nan_of(x);
    }
    let t = quarter_turns(x);
    return sine(t.x, i32(t.y) + 1);
}

fn tan_exact(x: f32) -> f32 {
    return sin_exact(x) / cos_exact(x);
}

fn atan_exact(x: f32) -> f32 {
    let a = abs(x);
    var t = a;
    var start = 0.0;
    if (a > 2.41421356) {
        t = -1.0 / a;
        start = 1.57079633;
    } else if (a > 0.414213562) {
        t = (a - 1.0) / (a + 1.0);
        start = 0.785398163;
    }
    let z = t * t;
    let y = start + (t + t * z * (-0.333329492 + z * (0.199777107 + z * (-0.138776856 + z * 0.0805374450))));
    return select(select(y, -y, x < 0.0), x, is_nan(x));
}

fn asin_part(z: f32, s: f32) -> f32 {
    return s + s * z * (0.166666752 + z * (0.0749530027 + z * (0.0454700260 + z * (0.0241813111 + z * 0.0421631990))));
}

fn asin_exact(x: f32) -> f32 {
    let a = abs(x);
    if (a > 1.0 || is_nan(x)) {
        return nan_of(x);
    }
    var y = asin_part(a * a, a);
    if (a > 0.5) {
        let z = 0.5 * (1.0 - a);
        y = 1.57079633 - 2.0 * asin_part(z, sqrt(z));
    }
    return select(y, -y, x < 0.0);
}

fn acos_exact(x: f32) -> f32 {
    let a = abs(x);
    if (a > 1.0 || is_nan(x)) {
        return nan_of(x);
    }
    if (a > 0.5) {
        let z = 0.5 * (1.0 - a);
        let y = 2.0 * asin_part(z, sqrt(z));
        return select(y, 3.14159265 - y, x < 0.0);
    }
    return 1.57079633 - asin_exact(x);
}

fn sinh_exact(x: f32) -> f32 {
    let a = abs(x);
    if (a < 1.0) {
        let s = x * x;
        return x + x * s * (0.166666667 + s * (0.00833333333 + s * (0.000198412698 + s * 0.00000275573192)));
    }
    let e = exp_exact(0.5 * a);
    let y = 0.5 * e * e - 0.5 / e / e;
    return select(select(y, -y, x < 0.0), x, is_nan(x));
}

fn cosh_exact(x: f32) -> f32 {
    let e = exp_exact(0.5 * abs(x));
    return 0.5 * e * e + 0.5 / e / e;
}

fn asinh_exact(x: f32) -> f32 {
    let a = abs(x);
    var y = a;
    if (a < 1e18) {
        y = log1p(a + a * (a / (1.0 + sqrt(1.0 + a * a))));
    } else {
        y = log_exact(a) + 0.693147181;
    }
    return select(select(y, -y, x < 0.0), x, is_nan(x));
}

fn acosh_exact(x: f32) -> f32 {
    if (x < 1.0 || is_nan(x)) {
        return nan_of(x);
    }
    if (x > 1e18) {
        return log_exact(x) + 0.693147181;
    }
    let t = x - 1.0;
    return log1p(t + sqrt(t * (t + 2.0)));
}

fn atanh_exact(x: f32) -> f32 {
    let a = abs(x);
    if (a > 1.0 || is_nan(x)) {
        return nan_of(x);
    }
    if (a == 1.0) {
        return x / (1.0 - a);
    }
    let y = 0.5 * log1p(2.0 * a / (1.0 - a));
    return select(y, -y, x < 0.0);
}

fn softplus(x: f32) -> f32 {
    return select(select(0.0, x, x > 0.0) + log1p(exp(-abs(x))), x, is_nan(x));
}

fn tanh_softplus(x: f32) -> f32 {
    return tanh_safe(softplus(x));
}
