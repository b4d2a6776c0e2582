//! Exponentials, trigonometric and hyperbolic functions.

use super::reduce::{reduce_f32, reduce_f64};
use super::{horner, scale_f32, scale_f64};
use crate::device;

macro_rules! elementary {
    (
        $f:ident: $scale:ident $reduce:ident $int:ident
        tiny $tiny:literal
        exp $exp:ident [$($exp_q:literal),+] from $low:literal to $high:literal
        exp2 $exp2:ident [$($exp2_q:literal),+] from $low2:literal to $high2:literal
        exp_m1 $exp_m1:ident
        log2e $log2e:literal ln2 $ln2_hi:literal $ln2_lo:literal
        sin $sin:ident [$($sin_q:literal),+] cos $cos:ident [$($cos_q:literal),+]
        sin_cos $sin_cos:ident tan $tan:ident both $both:ident
        asin $asin:ident $asin_core:ident [$($asin_q:literal),+] acos $acos:ident
        atan $atan:ident $atan_core:ident [$($atan_q:literal),+] atan2 $atan2:ident
        pi $pi_hi:literal $pi_lo:literal half_pi $half_hi:literal $half_lo:literal
        sinh $sinh:ident [$($sinh_q:literal),+] cosh $cosh:ident
        tanh $tanh:ident [$($tanh_q:literal),+] one_from $one:literal
    ) => {
        /// eˣ.
        #[device]
        pub(super) fn $exp(x: $f) -> $f {
            if x > $high {
                return $f::INFINITY;
            }
            if x < $low {
                return 0.0;
            }
            let n = (x * $log2e).round_ties_even();
            let r = n.mul_add(-$ln2_lo, n.mul_add(-$ln2_hi, x));
            $scale((r * r).mul_add(horner(r, [$($exp_q),+]), r) + 1.0, n as $int)
        }

        /// 2ˣ.
        #[device]
        pub(super) fn $exp2(x: $f) -> $f {
            if x > $high2 {
                return $f::INFINITY;
            }
            if x < $low2 {
                return 0.0;
            }
            let n = x.round_ties_even();
            let r = x - n;
            $scale(r.mul_add(horner(r, [$($exp2_q),+]), 1.0), n as $int)
        }

        /// eˣ - 1.
        #[device]
        pub(super) fn $exp_m1(x: $f) -> $f {
            if x > $high {
                return $f::INFINITY;
            }
            if x < -40.0 {
                return -1.0;
            }
            // A zero keeps its sign.
            if x == 0.0 {
                return x;
            }
            let n = (x * $log2e).round_ties_even();
            let r = n.mul_add(-$ln2_lo, n.mul_add(-$ln2_hi, x));
            let p = (r * r).mul_add(horner(r, [$($exp_q),+]), r);
            if n > 60.0 {
                return $scale(p + 1.0, n as $int);
            }
            let one = $scale(1.0, n as $int);
            one.mul_add(p, one - 1.0)
        }

        /// The sine and the cosine of an angle from -π/4 to π/4.
        #[device]
        pub(super) fn $both(r: $f) -> ($f, $f) {
            let z = r * r;
            let sin = (r * z).mul_add(horner(z, [$($sin_q),+]), r);
            let half = 0.5 * z;
            let one = 1.0 - half;
            (sin, one + ((1.0 - one) - half + z * z * horner(z, [$($cos_q),+])))
        }

        /// The sine and the cosine.
        #[device]
        pub(super) fn $sin_cos(x: $f) -> ($f, $f) {
            let (r, turn) = $reduce(x);
            let (s, c) = $both(r);
            let (sin, cos) = if turn & 1 == 0 { (s, c) } else { (c, -s) };
            let (sin, cos) = if turn & 2 == 0 { (sin, cos) } else { (-sin, -cos) };
            (if x.abs() < $tiny { x } else { sin }, cos)
        }

        /// The sine.
        #[device]
        pub(super) fn $sin(x: $f) -> $f {
            let (r, turn) = $reduce(x);
            let (s, c) = $both(r);
            let value = if turn & 1 == 0 { s } else { c };
            if x.abs() < $tiny {
                return x;
            }
            if turn & 2 == 0 { value } else { -value }
        }

        /// The cosine.
        #[device]
        pub(super) fn $cos(x: $f) -> $f {
            let (r, turn) = $reduce(x);
            let (s, c) = $both(r);
            let value = if turn & 1 == 0 { c } else { s };
            if (turn + 1) & 2 == 0 { value } else { -value }
        }

        /// The tangent.
        #[device]
        pub(super) fn $tan(x: $f) -> $f {
            let (r, turn) = $reduce(x);
            let (s, c) = $both(r);
            if x.abs() < $tiny {
                return x;
            }
            if turn & 1 == 0 { s / c } else { -c / s }
        }

        /// asin x - x for |x| up to 0.5.
        #[device]
        pub(super) fn $asin_core(x: $f, z: $f) -> $f {
            x * z * horner(z, [$($asin_q),+])
        }

        /// The arc sine.
        #[device]
        pub(super) fn $asin(x: $f) -> $f {
            let a = x.abs();
            if a < $tiny {
                return x;
            }
            if a <= 0.5 {
                return x + $asin_core(x, x * x);
            }
            let z = (1.0 - a) * 0.5;
            let s = z.sqrt();
            let r = $half_hi - (2.0 * (s + $asin_core(s, z)) - $half_lo);
            if x < 0.0 { -r } else { r }
        }

        /// The arc cosine.
        #[device]
        pub(super) fn $acos(x: $f) -> $f {
            let a = x.abs();
            if a <= 0.5 {
                return $half_hi - (x - ($half_lo - $asin_core(x, x * x)));
            }
            let z = (1.0 - a) * 0.5;
            let s = z.sqrt();
            let r = 2.0 * (s + $asin_core(s, z));
            if x < 0.0 { $pi_hi - (r - $pi_lo) } else { r }
        }

        /// The arc tangent of a number from 0 to 1.
        #[device]
        pub(super) fn $atan_core(t: $f) -> $f {
            let z = t * t;
            (t * z).mul_add(horner(z, [$($atan_q),+]), t)
        }

        /// The arc tangent.
        #[device]
        pub(super) fn $atan(x: $f) -> $f {
            let a = x.abs();
            if a < $tiny {
                return x;
            }
            let r = if a > 1.0 { $half_hi - ($atan_core(1.0 / a) - $half_lo) } else { $atan_core(a) };
            if x < 0.0 { -r } else { r }
        }

        /// The angle of the point (x, y).
        #[device]
        pub(super) fn $atan2(y: $f, x: $f) -> $f {
            let (a, b) = (x.abs(), y.abs());
            if x.is_nan() || y.is_nan() {
                return x + y;
            }
            let t = if a == b {
                if a > 0.0 { 1.0 } else { 0.0 }
            } else if a > b {
                b / a
            } else {
                a / b
            };
            let r = $atan_core(t);
            let r = if b > a { $half_hi - (r - $half_lo) } else { r };
            let r = if x.is_sign_negative() { $pi_hi - (r - $pi_lo) } else { r };
            r.copysign(y)
        }

        /// The hyperbolic sine.
        #[device]
        pub(super) fn $sinh(x: $f) -> $f {
            let a = x.abs();
            if a < 1.0 {
                let z = x * x;
                return if a < $tiny { x } else { (x * z).mul_add(horner(z, [$($sinh_q),+]), x) };
            }
            let r = if a < $high - 1.0 {
                let e = $exp(a);
                0.5 * e - 0.5 / e
            } else {
                let e = $exp(0.5 * a);
                0.5 * e * e
            };
            if x < 0.0 { -r } else { r }
        }

        /// The hyperbolic cosine.
        #[device]
        pub(super) fn $cosh(x: $f) -> $f {
            let a = x.abs();
            if a < $high - 1.0 {
                let e = $exp(a);
                return 0.5 * e + 0.5 / e;
            }
            let e = $exp(0.5 * a);
            0.5 * e * e
        }

        /// The hyperbolic tangent.
        #[device]
        pub(super) fn $tanh(x: $f) -> $f {
            let a = x.abs();
            if a < 0.5625 {
                let z = x * x;
                return if a < $tiny { x } else { (x * z).mul_add(horner(z, [$($tanh_q),+]), x) };
            }
            let r = if a > $one { 1.0 } else { 1.0 - 2.0 / ($exp(2.0 * a) + 1.0) };
            if x < 0.0 { -r } else { r }
        }
    };
}

elementary! {
    f32: scale_f32 reduce_f32 i32
    tiny 0.000_244
    exp exp_f32 [0.5, 0.166_665_76, 0.041_666_552, 0.008_363_342, 0.001_392_638_7] from -104.0 to 88.722_84
    exp2 exp2_f32 [0.693_147_2, 0.240_226_5, 0.055_503_566, 0.009_618_082, 0.001_339_108_8, 0.000_154_533_57]
    from -150.0 to 127.999_99
    exp_m1 exp_m1_f32
    log2e 1.442_695 ln2 0.693_147_2 -1.904_654_2e-9
    sin sin_f32 [-0.166_666_67, 0.008_333_332, -0.000_198_400_81, 2.724_916_6e-6]
    cos cos_f32 [0.041_666_668, -0.001_388_888_8, 2.480_059_6e-5, -2.730_032_5e-7]
    sin_cos sin_cos_f32 tan tan_f32 both both_f32
    asin asin_f32 asin_core_f32 [0.166_666_73, 0.074_988_53, 0.045_001_894, 0.026_550_664, 0.038_093_962]
    acos acos_f32
    atan atan_f32 atan_core_f32 [
        -0.333_333_3, 0.199_997_4, -0.142_785_68, 0.110_337_645, -0.086_568_8, 0.062_501_69, -0.035_871_54,
        0.013_507_771, -0.002_386_997_2
    ]
    atan2 atan2_f32
    pi 3.141_592_7 -8.742_278e-8 half_pi 1.570_796_4 -4.371_139e-8
    sinh sinh_f32 [0.166_666_67, 0.008_333_34, 0.000_198_380_38, 2.806_790_2e-6] cosh cosh_f32
    tanh tanh_f32 [-0.333_333_3, 0.133_330_73, -0.053_901_687, 0.021_262_975, -0.006_524_893] one_from 9.1
}

elementary! {
    f64: scale_f64 reduce_f64 i64
    tiny 1.0e-8
    exp exp_f64 [
        0.5, 0.166_666_666_666_666_7, 0.041_666_666_666_666_67, 0.008_333_333_333_325_976, 0.001_388_888_888_888_363_5,
        0.000_198_412_698_753_716_72, 2.480_158_732_594_125e-5, 2.755_725_470_314_633_4e-6, 2.755_727_314_533_403e-7,
        2.510_550_633_243_066_5e-8, 2.091_489_357_888_792e-9
    ] from -746.0 to 709.782_712_893_384
    exp2 exp2_f64 [
        0.693_147_180_559_945_3, 0.240_226_506_959_100_72, 0.055_504_108_664_821_58, 0.009_618_129_107_628_484,
        0.001_333_355_814_642_844_5, 0.000_154_035_303_933_624_6, 1.525_273_380_405_099_1e-5, 1.321_548_681_630_460_9e-6,
        1.017_808_602_132_621e-7, 7.054_894_251_219_126_4e-9, 4.445_530_246_677_688_5e-10, 2.573_378_409_634_928_8e-11,
        1.371_706_208_425_562e-12
    ] from -1075.0 to 1_023.999_999_999_999_8
    exp_m1 exp_m1_f64
    log2e 1.442_695_040_888_963_4 ln2 0.693_147_180_559_945_3 2.319_046_813_846_299_6e-17
    sin sin_f64 [
        -0.166_666_666_666_666_66, 0.008_333_333_333_333_331, -0.000_198_412_698_412_650_06, 2.755_731_921_929_281_3e-6,
        -2.505_210_621_636_605_5e-8, 1.605_852_907_317_636_7e-10, -7.586_547_233_574_554e-13
    ]
    cos cos_f64 [
        0.041_666_666_666_666_664, -0.001_388_888_888_888_888_7, 2.480_158_730_158_461_5e-5, -2.755_731_922_137_705_3e-7,
        2.087_675_578_213_946e-9, -1.147_045_947_219_046_3e-11, 4.745_788_569_114_5e-14
    ]
    sin_cos sin_cos_f64 tan tan_f64 both both_f64
    asin asin_f64 asin_core_f64 [
        0.166_666_666_666_666_5, 0.075_000_000_000_207_75, 0.044_642_857_103_405_27, 0.030_381_947_368_342_346,
        0.022_372_047_588_819_28, 0.017_355_260_815_388_678, 0.013_929_642_220_318_15, 0.011_875_579_284_505_212,
        0.007_802_517_548_198_804, 0.016_036_874_427_024_065, -0.010_751_463_593_282_391, 0.028_171_062_348_495_69
    ]
    acos acos_f64
    atan atan_f64 atan_core_f64 [
        -0.333_333_333_333_333_3, 0.199_999_999_999_975_3, -0.142_857_142_853_841_32, 0.111_111_110_934_908_27,
        -0.090_909_085_908_919_34, 0.076_922_989_710_332_17, -0.066_665_646_992_891_04, 0.058_815_068_777_936_56,
        -0.052_579_733_342_841_106, 0.047_377_495_795_277_79, -0.042_603_566_326_016_52, 0.037_494_868_125_352_47,
        -0.031_277_189_066_996_385, 0.023_696_731_580_048_622, -0.015_535_152_475_414_177, 0.008_368_931_178_450_162,
        -0.003_495_885_973_916_309_4, 0.001_049_603_508_496_851_5, -0.000_199_961_893_779_013_82, 1.806_195_461_861_215e-5
    ]
    atan2 atan2_f64
    pi 3.141_592_653_589_793 1.224_646_799_147_353_2e-16
    half_pi 1.570_796_326_794_896_6 6.123_233_995_736_766e-17
    sinh sinh_f64 [
        0.166_666_666_666_666_66, 0.008_333_333_333_333_333, 0.000_198_412_698_412_697_68, 2.755_731_922_404_312_2e-6,
        2.505_210_836_318_779_2e-8, 1.605_904_853_490_393_8e-10, 7.646_614_499_148_207e-13, 2.844_859_000_436_761_5e-15
    ] cosh cosh_f64
    tanh tanh_f64 [
        -0.333_333_333_333_333_3, 0.133_333_333_333_333, -0.053_968_253_968_202_74, 0.021_869_488_533_121_387,
        -0.008_863_235_436_878_912, 0.003_592_126_349_034_743_6, -0.001_455_814_906_723_265, 0.000_589_878_588_602_194_2,
        -0.000_238_363_671_001_064_62, 9.427_551_366_562_725e-5, -3.332_744_746_799_285_6e-5, 7.632_507_318_390_177e-6
    ] one_from 20.0
}
