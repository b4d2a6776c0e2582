//! Powers, cube roots and lengths.

use super::logarithms::split_f64;
use super::{horner, scale_f64};
use crate::device;

/// x to the power of y, in double precision, which rounds once.
#[device]
pub(super) fn powf_f32(x: f32, y: f32) -> f32 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return x + y;
    }
    let (a, odd) = (x.abs(), y.abs() < 16_777_216.0 && y == y.trunc() && (y as i32) & 1 != 0);
    if a == 0.0 || a == f32::INFINITY {
        let size = if (a == 0.0) == (y < 0.0) { f32::INFINITY } else { 0.0 };
        return if odd && x.is_sign_negative() { -size } else { size };
    }
    if x < 0.0 && y != y.trunc() {
        return f32::NAN;
    }
    if a == 1.0 {
        return if odd { -1.0 } else { 1.0 };
    }
    // The logarithm to the base 2, with an error of 1e-11 of it.
    let (m, e) = split_f64(a as f64);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let q = horner(
        z,
        [
            0.666_666_666_673_853_7,
            0.399_999_987_833_546_46,
            0.285_717_573_868_178_86,
            0.221_912_200_839_832_54,
            0.193_661_605_746_038_58,
        ],
    );
    let t = y as f64 * (2.0 * s + s * z * q).mul_add(1.442_695_040_888_963_4, e);
    let size = if t > 129.0 {
        f32::INFINITY
    } else if t < -151.0 {
        0.0
    } else {
        let n = t.round_ties_even();
        let r = t - n;
        let p = horner(
            r,
            [
                0.693_147_180_559_945_3,
                0.240_226_506_958_114_6,
                0.055_504_108_664_759_46,
                0.009_618_129_160_012_66,
                0.001_333_355_817_942_74,
                0.000_154_034_552_678_673_2,
                1.525_268_647_805_276_5e-5,
                1.325_538_047_014_012_6e-6,
                1.020_321_906_560_362e-7,
            ],
        );
        scale_f64(r.mul_add(p, 1.0), n as i64) as f32
    };
    if odd && x < 0.0 { -size } else { size }
}

/// The cube root.
#[device]
pub(super) fn cbrt_f64(x: f64) -> f64 {
    let a = x.abs();
    if !(a > 0.0 && a < f64::INFINITY) {
        return x;
    }
    // a = m · 8ⁿ with m from 0.125 to 1.
    let small = a < 2.225_073_858_507_201_4e-308;
    let big = if small { a * 18_014_398_509_481_984.0 } else { a };
    let e = (big.stop_gradient().to_bits() >> 52) as i64 - 1022;
    let n = (e + 2).div_euclid(3);
    let m = scale_f64(big, -3 * n);
    let mut y = m.mul_add(
        m.mul_add(-0.357_079_896_434_314_2, 0.945_007_553_967_131),
        0.406_897_374_098_315_2,
    );
    // The error is squared each time, from 2 in 100.
    for _ in 0..4 {
        y = y - (y * y * y - m) / (3.0 * y * y);
    }
    let r = scale_f64(y, if small { n - 18 } else { n });
    if x < 0.0 { -r } else { r }
}

#[device]
pub(super) fn cbrt_f32(x: f32) -> f32 {
    cbrt_f64(x as f64) as f32
}

/// The length of (x, y).
#[device]
pub(super) fn hypot_f32(x: f32, y: f32) -> f32 {
    if x.is_infinite() || y.is_infinite() {
        return f32::INFINITY;
    }
    let (x, y) = (x as f64, y as f64);
    (x * x + y * y).sqrt() as f32
}

/// As `hypot_f32`.
#[device]
pub(super) fn hypot_f64(x: f64, y: f64) -> f64 {
    if x.is_infinite() || y.is_infinite() {
        return f64::INFINITY;
    }
    let (x, y) = (x.abs(), y.abs());
    let (a, b) = if x > y { (x, y) } else { (y, x) };
    // A power of two, 2⁻⁵³¹ or 2⁵³¹, so that no square is too large or too small.
    let by = if a > 1e150 {
        f64::from_bits(0x1ec0_0000_0000_0000)
    } else if a < 1e-150 {
        f64::from_bits(0x6120_0000_0000_0000)
    } else {
        1.0
    };
    let (a, b) = (a * by, b * by);
    let (square, other) = (a * a, b * b);
    (square + (other + (a.mul_add(a, -square) + b.mul_add(b, -other)))).sqrt() / by
}

/// x to the power of y: the logarithm and its product with y have two numbers each.
#[device]
pub(super) fn powf_f64(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return x + y;
    }
    let odd = y.abs() < 9_007_199_254_740_992.0 && y == y.trunc() && (y as i64) & 1 != 0;
    let a = x.abs();
    if a == 0.0 || a == f64::INFINITY {
        let size = if (a == 0.0) == (y < 0.0) { f64::INFINITY } else { 0.0 };
        return if odd && x.is_sign_negative() { -size } else { size };
    }
    if x < 0.0 && y != y.trunc() {
        return f64::NAN;
    }
    if y.abs() > 1e30 {
        return if a == 1.0 {
            1.0
        } else if (a > 1.0) == (y > 0.0) {
            f64::INFINITY
        } else {
            0.0
        };
    }
    let (m, e) = split_f64(a);
    let f = m - 1.0;
    // s = f / (2 + f).
    let d = 2.0 + f;
    let s = f / d;
    let s_low = (s.mul_add(-d, f) - s * (f - (d - 2.0))) / d;
    let z = s * s;
    let z_low = s.mul_add(s, -z) + 2.0 * s * s_low;
    let q = z * horner(
        z,
        [
            0.400_000_000_000_008_96,
            0.285_714_285_707_926_6,
            0.222_222_223_941_928_75,
            0.181_817_953_756_173_7,
            0.153_862_540_698_342_4,
            0.132_683_889_237_707_27,
            0.130_906_385_243_660_94,
        ],
    );
    // w = 2/3 + q, p = z w, and the logarithm is s (2 + p).
    let w = 0.666_666_666_666_666_6 + q;
    let w_low = (0.666_666_666_666_666_6 - w) + q + 3.700_743_415_417_188_5e-17;
    let p = z * w;
    let p_low = z.mul_add(w, -p) + z * w_low + z_low * w;
    let u = 2.0 + p;
    let u_low = (2.0 - u) + p + p_low;
    let l = s * u;
    let l_low = s.mul_add(u, -l) + s * u_low + s_low * u;
    // To the base 2, with the exponent.
    let b = l * 1.442_695_040_888_963_4;
    let b_low = l.mul_add(1.442_695_040_888_963_4, -b)
        + l * 2.035_527_374_093_103_3e-17
        + l_low * 1.442_695_040_888_963_4;
    let g = e + b;
    let g_low = (e - g) + b + b_low;
    let t = y * g;
    let t_low = y.mul_add(g, -t) + y * g_low;
    let size = if t > 1025.0 {
        f64::INFINITY
    } else if t < -1076.0 {
        0.0
    } else {
        let n = t.round_ties_even();
        let r = (t - n) + t_low;
        let p = horner(
            r,
            [
                0.693_147_180_559_945_3,
                0.240_226_506_959_100_72,
                0.055_504_108_664_821_58,
                0.009_618_129_107_628_484,
                0.001_333_355_814_642_844_5,
                0.000_154_035_303_933_624_6,
                1.525_273_380_405_099_1e-5,
                1.321_548_681_630_460_9e-6,
                1.017_808_602_132_621e-7,
                7.054_894_251_219_126_4e-9,
                4.445_530_246_677_688_5e-10,
                2.573_378_409_634_928_8e-11,
                1.371_706_208_425_562e-12,
            ],
        );
        scale_f64(r.mul_add(p, 1.0), n as i64)
    };
    if odd && x < 0.0 { -size } else { size }
}
