// Butterflies: dftN(a...)[r] = sum over l of a[l] * e^(SIGN * 2 pi i l r / N). One of them is put before fft.wgsl.

fn turn(a: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-SIGN * a.y, SIGN * a.x);
}

fn dft2(a: vec2<f32>, b: vec2<f32>) -> array<vec2<f32>, 2> {
    return array<vec2<f32>, 2>(a + b, a - b);
}

fn dft3(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>) -> array<vec2<f32>, 3> {
    let s = b + c;
    let m = a - 0.5 * s;
    let d = turn(0.8660254037844386 * (b - c));
    return array<vec2<f32>, 3>(a + s, m + d, m - d);
}

fn dft4(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>, d: vec2<f32>) -> array<vec2<f32>, 4> {
    let s = a + c;
    let m = a - c;
    let p = b + d;
    let q = turn(b - d);
    return array<vec2<f32>, 4>(s + p, m + q, s - p, m - q);
}

fn dft5(a: vec2<f32>, b: vec2<f32>, c: vec2<f32>, d: vec2<f32>, e: vec2<f32>) -> array<vec2<f32>, 5> {
    let p = b + e;
    let q = c + d;
    let m = b - e;
    let n = c - d;
    let x = a + 0.30901699437494745 * p - 0.8090169943749475 * q;
    let y = a - 0.8090169943749475 * p + 0.30901699437494745 * q;
    let v = turn(0.9510565162951535 * m + 0.5877852522924731 * n);
    let z = turn(0.5877852522924731 * m - 0.9510565162951535 * n);
    return array<vec2<f32>, 5>(a + p + q, x + v, y + z, y - z, x - v);
}

fn dft8(a0: vec2<f32>, a1: vec2<f32>, a2: vec2<f32>, a3: vec2<f32>, a4: vec2<f32>, a5: vec2<f32>, a6: vec2<f32>, a7: vec2<f32>) -> array<vec2<f32>, 8> {
    let e = dft4(a0, a2, a4, a6);
    let o = dft4(a1, a3, a5, a7);
    let o1 = times(o[1], vec2<f32>(0.7071067811865476, SIGN * 0.7071067811865475));
    let o2 = turn(o[2]);
    let o3 = times(o[3], vec2<f32>(-0.7071067811865475, SIGN * 0.7071067811865476));
    return array<vec2<f32>, 8>(
        e[0] + o[0], e[1] + o1, e[2] + o2, e[3] + o3, e[0] - o[0], e[1] - o1, e[2] - o2, e[3] - o3,
    );
}

fn dft16(
    a0: vec2<f32>, a1: vec2<f32>, a2: vec2<f32>, a3: vec2<f32>, a4: vec2<f32>, a5: vec2<f32>, a6: vec2<f32>, a7: vec2<f32>,
    a8: vec2<f32>, a9: vec2<f32>, a10: vec2<f32>, a11: vec2<f32>, a12: vec2<f32>, a13: vec2<f32>, a14: vec2<f32>, a15: vec2<f32>,
) -> array<vec2<f32>, 16> {
    let c0 = dft4(a0, a4, a8, a12);
    let c1 = dft4(a1, a5, a9, a13);
    let c2 = dft4(a2, a6, a10, a14);
    let c3 = dft4(a3, a7, a11, a15);
    let r0 = dft4(c0[0], c1[0], c2[0], c3[0]);
    let r1 = dft4(c0[1], times(c1[1], vec2<f32>(0.9238795325112867, SIGN * 0.3826834323650898)), times(c2[1], vec2<f32>(0.7071067811865476, SIGN * 0.7071067811865475)), times(c3[1], vec2<f32>(0.38268343236508984, SIGN * 0.9238795325112867)));
    let r2 = dft4(c0[2], times(c1[2], vec2<f32>(0.7071067811865476, SIGN * 0.7071067811865475)), turn(c2[2]), times(c3[2], vec2<f32>(-0.7071067811865475, SIGN * 0.7071067811865476)));
    let r3 = dft4(c0[3], times(c1[3], vec2<f32>(0.38268343236508984, SIGN * 0.9238795325112867)), times(c2[3], vec2<f32>(-0.7071067811865475, SIGN * 0.7071067811865476)), times(c3[3], vec2<f32>(-0.9238795325112868, SIGN * -0.38268343236508967)));
    return array<vec2<f32>, 16>(
        r0[0], r1[0], r2[0], r3[0],
        r0[1], r1[1], r2[1], r3[1],
        r0[2], r1[2], r2[2], r3[2],
        r0[3], r1[3], r2[3], r3[3],
    );
}

fn butterfly2(at: At) {
    let y = dft2(load(at, 0), load(at, 1));
    put(at, 0, y[0]);
    put(at, 1, y[1]);
}

fn butterfly3(at: At) {
    let y = dft3(load(at, 0), load(at, 1), load(at, 2));
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
}

fn butterfly4(at: At) {
    let y = dft4(load(at, 0), load(at, 1), load(at, 2), load(at, 3));
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
    put(at, 3, y[3]);
}

fn butterfly5(at: At) {
    let y = dft5(load(at, 0), load(at, 1), load(at, 2), load(at, 3), load(at, 4));
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
    put(at, 3, y[3]);
    put(at, 4, y[4]);
}

fn butterfly8(at: At) {
    let y = dft8(
        load(at, 0), load(at, 1), load(at, 2), load(at, 3),
        load(at, 4), load(at, 5), load(at, 6), load(at, 7),
    );
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
    put(at, 3, y[3]);
    put(at, 4, y[4]);
    put(at, 5, y[5]);
    put(at, 6, y[6]);
    put(at, 7, y[7]);
}

fn butterfly16(at: At) {
    let y = dft16(
        load(at, 0), load(at, 1), load(at, 2), load(at, 3),
        load(at, 4), load(at, 5), load(at, 6), load(at, 7),
        load(at, 8), load(at, 9), load(at, 10), load(at, 11),
        load(at, 12), load(at, 13), load(at, 14), load(at, 15),
    );
    put(at, 0, y[0]);
    put(at, 1, y[1]);
    put(at, 2, y[2]);
    put(at, 3, y[3]);
    put(at, 4, y[4]);
    put(at, 5, y[5]);
    put(at, 6, y[6]);
    put(at, 7, y[7]);
    put(at, 8, y[8]);
    put(at, 9, y[9]);
    put(at, 10, y[10]);
    put(at, 11, y[11]);
    put(at, 12, y[12]);
    put(at, 13, y[13]);
    put(at, 14, y[14]);
    put(at, 15, y[15]);
}
