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

fn log_exact(x: f32) -> f32 {
    return select(log(x), -1.0 / abs(x), x == 0.0);
}

fn log1p(x: f32) -> f32 {
    let y = 1.0 + x;
    if (y == 1.0) {
        return x;
    }
    return log(y) * (x / (y - 1.0));
}

fn expm1(x: f32) -> f32 {
    if (abs(x) < 0.1) {
        return x * (1.0 + x * (0.5 + x * (0.166666667 + x * (0.0416666667 + x * (0.00833333333 + x * 0.00138888889)))));
    }
    return exp(x) - 1.0;
}

fn power(x: f32, y: f32) -> f32 {
    let whole = trunc(y) == y;
    let odd = whole && abs(y) < 16777216.0 && (i32(y) & 1) == 1;
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (y == 1.0) {
        return x;
    }
    if (y == 2.0) {
        return x * x;
    }
    if (y == 0.5) {
        return sqrt(x);
    }
    if (x < 0.0) {
        let r = pow(-x, y);
        return select(sqrt(x), select(r, -r, odd), whole);
    }
    return pow(x, y);
}

fn int_power(x: i32, y: i32) -> i32 {
    var r = 1;
    var b = x;
    var e = max(y, 0);
    while (e > 0) {
        if ((e & 1) == 1) {
            r = r * b;
        }
        b = b * b;
        e = e >> 1u;
    }
    return select(r, select(0, x, abs(x) == 1 && (y & 1) != 0), y < 0 && abs(x) != 1);
}

fn trunc_mod(x: f32, y: f32) -> f32 {
    return select(x - y * trunc(x / y), x, is_inf(y) && !is_inf(x));
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
