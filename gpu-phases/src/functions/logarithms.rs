//! Logarithms.

use super::{horner, scale_f32, scale_f64};
use crate::device;

/// Returns m and e with x = m · 2ᵉ and m from √½ to √2, for finite x above 0. m depends on x by products alone, so that
/// it has a derivative.
#[device]
pub(super) fn split_f32(x: f32) -> (f32, f32) {
    let small = x < 1.175_494_4e-38;
    let x = if small { x * 16_777_216.0 } else { x };
    let e = ((x.stop_gradient().to_bits() as i32) - 0x3f35_04f3) >> 23;
    (scale_f32(x, -e), (if small { e - 24 } else { e }) as f32)
}

/// As `split_f32`.
#[device]
pub(super) fn split_f64(x: f64) -> (f64, f64) {
    let small = x < 2.225_073_858_507_201_4e-308;
    let x = if small { x * 18_014_398_509_481_984.0 } else { x };
    let e = ((x.stop_gradient().to_bits() as i64) - 0x3fe6_a09e_667f_3bcd) >> 52;
    (scale_f64(x, -e), (if small { e - 54 } else { e }) as f64)
}

/// Returns ln (1 + f) - f for 1 + f from √½ to √2.
#[device]
pub(super) fn ln_rest_f32(f: f32) -> f32 {
    let q = horner(
        f,
        [
            0.333_333_3,
            -0.249_999_97,
            0.200_007_2,
            -0.166_678_15,
            0.142_489_34,
            -0.124_252_86,
            0.116_863_11,
            -0.114_833_44,
            0.069_738_27,
        ],
    );
    f * f * f.mul_add(q, -0.5)
}

/// As `ln_rest_f32`.
#[device]
pub(super) fn ln_rest_f64(f: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let q = horner(
        z,
        [
            0.666_666_666_666_666_6,
            0.400_000_000_000_008_96,
            0.285_714_285_707_926_6,
            0.222_222_223_941_928_75,
            0.181_817_953_756_173_7,
            0.153_862_540_698_342_4,
            0.132_683_889_237_707_27,
            0.130_906_385_243_660_94,
        ],
    );
    let half = 0.5 * f * f;
    s * (half + z * q) - half
}

macro_rules! logarithms {
    (
        $f:ident: $split:ident $rest:ident $at_ends:ident
        ln $ln:ident $ln2_hi:literal $ln2_lo:literal ln_1p $ln_1p:ident
        log2 $log2:ident $log2e_hi:literal $log2e_lo:literal
        log10 $log10:ident $log10e_hi:literal $log10e_lo:literal $log10_2_hi:literal $log10_2_lo:literal
    ) => {
        /// The logarithm of a number that is not positive, or not finite.
        #[device]
        fn $at_ends(x: $f) -> $f {
            if x == 0.0 {
                -$f::INFINITY
            } else if x > 0.0 {
                x
            } else {
                $f::NAN
            }
        }

        /// The natural logarithm.
        #[device]
        pub(super) fn $ln(x: $f) -> $f {
            if !(x > 0.0 && x < $f::INFINITY) {
                return $at_ends(x);
            }
            let (m, e) = $split(x);
            let f = m - 1.0;
            e.mul_add($ln2_hi, f + e.mul_add($ln2_lo, $rest(f)))
        }

        /// ln (1 + x).
        #[device]
        pub(super) fn $ln_1p(x: $f) -> $f {
            if x > -0.29 && x < 0.41 {
                return x + $rest(x);
            }
            if x == $f::INFINITY {
                return x;
            }
            let u = 1.0 + x;
            if u == 0.0 { -$f::INFINITY } else { $ln(u) + (x - (u - 1.0)) / u }
        }

        /// The logarithm to the base 2.
        #[device]
        pub(super) fn $log2(x: $f) -> $f {
            if !(x > 0.0 && x < $f::INFINITY) {
                return $at_ends(x);
            }
            let (m, e) = $split(x);
            let f = m - 1.0;
            let rest = $rest(f);
            let low = f.mul_add($log2e_lo, rest * $log2e_hi);
            if e == 0.0 { f.mul_add($log2e_hi, low) } else { e + f.mul_add($log2e_hi, low) }
        }

        /// The logarithm to the base 10.
        #[device]
        pub(super) fn $log10(x: $f) -> $f {
            if !(x > 0.0 && x < $f::INFINITY) {
                return $at_ends(x);
            }
            let (m, e) = $split(x);
            let f = m - 1.0;
            let rest = $rest(f);
            let low = f.mul_add($log10e_lo, e.mul_add($log10_2_lo, rest * $log10e_hi));
            e.mul_add($log10_2_hi, f.mul_add($log10e_hi, low))
        }
    };
}

logarithms! {
    f32: split_f32 ln_rest_f32 at_ends_f32
    ln ln_f32 0.693_145_75 1.428_606_8e-6 ln_1p ln_1p_f32
    log2 log2_f32 1.442_695 1.925_963e-8
    log10 log10_f32 0.434_294_5 -1.010_305e-8 0.301_025_4 4.605_039e-6
}

logarithms! {
    f64: split_f64 ln_rest_f64 at_ends_f64
    ln ln_f64 0.693_147_180_369_123_8 1.908_214_929_270_587_7e-10 ln_1p ln_1p_f64
    log2 log2_f64 1.442_695_040_888_963_4 2.035_527_374_093_103_3e-17
    log10 log10_f64 0.434_294_481_903_251_8 1.098_319_650_216_765e-17 0.301_029_995_549_470_2 1.145_110_089_802_183_8e-10
}
