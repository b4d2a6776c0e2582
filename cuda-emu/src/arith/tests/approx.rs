//! Approximate instructions keep the manual's bounds and special values. The reference is the
//! platform's f64 library.

use super::random::{CASES, Random};
use crate::arith::approx::*;
use crate::arith::*;

const CASES_EACH: u32 = CASES / 32;

/// Checks a function of f32 on samples of a range against its bound, in ulps or as a difference.
fn bound(
    f: impl Fn(u32) -> u32,
    exact: impl Fn(f64) -> f64,
    range: impl Fn(&mut Random) -> f32,
    holds: impl Fn(f64, f64) -> bool,
) {
    let mut random = Random::new(900);
    for _ in 0..CASES_EACH {
        let x = range(&mut random);
        let got = f(x.to_bits());
        let (value, want) = (F32::to_f64(got), exact(x.into()));
        assert!(holds(value, want), "at {x:e}: {value:e} instead of {want:e}");
    }
}

/// Returns a number in ±`limit`, uniform or of any magnitude.
fn within(limit: f32) -> impl Fn(&mut Random) -> f32 {
    move |random| {
        let uniform = (random.bits() >> 11) as f64 / 2f64.powi(52) - 1.0;
        let scale = if random.below(2) == 0 { 0 } else { random.below(40) as i32 };
        (uniform * f64::from(limit) * 2f64.powi(-scale)) as f32
    }
}

/// Any normal number.
fn normal(random: &mut Random) -> f32 {
    let exponent = 1 + random.below(254) as u32;
    f32::from_bits(random.bits() as u32 & 0x807f_ffff | exponent << 23)
}

fn positive(random: &mut Random) -> f32 {
    normal(random).abs()
}

/// Within so many ulps.
fn in_ulps(limit: f64) -> impl Fn(f64, f64) -> bool {
    move |value, want| {
        let infinite = want.abs() >= 2f64.powi(128) && value == want.signum() * f64::INFINITY;
        infinite || ulps((value as f32).to_bits(), want) <= limit
    }
}

/// Within a difference.
fn absolute(limit: f64) -> impl Fn(f64, f64) -> bool {
    move |value, want| (value - want).abs() <= limit
}

#[test]
fn bounds_of_the_manual_hold() {
    bound(ex2::<false>, f64::exp2, within(150.0), in_ulps(2.0));
    bound(lg2::<false>, f64::log2, positive, |value, want| {
        (value - want).abs() <= 2f64.powi(-22) * want.abs().max(1.0)
    });
    bound(
        lg2::<false>,
        f64::log2,
        |random| 0.5 + 1.5 * (random.bits() >> 40) as f32 / 2f32.powi(24),
        absolute(2f64.powi(-22)),
    );
    let tau = 2.0 * std::f32::consts::PI;
    bound(sin::<false>, f64::sin, within(tau), absolute(2f64.powf(-20.5)));
    bound(cos::<false>, f64::cos, within(tau), absolute(2f64.powf(-20.5)));
    bound(sin::<false>, f64::sin, within(314.0), absolute(2f64.powf(-14.7)));
    bound(cos::<false>, f64::cos, within(314.0), absolute(2f64.powf(-14.7)));
    bound(rcp::<false>, |x| 1.0 / x, normal, in_ulps(1.0));
    bound(sqrt::<false>, f64::sqrt, positive, in_ulps(1.0));
    bound(
        rsqrt::<false>,
        |x| 1.0 / x.sqrt(),
        positive,
        |value, want| (value - want).abs() <= 2f64.powf(-22.9) * want,
    );
    bound(tanh, f64::tanh, within(20.0), |value, want| {
        (value - want).abs() <= 2f64.powi(-11) * want.abs()
    });
}

#[test]
fn quotients_keep_two_ulps() {
    let mut random = Random::new(901);
    for _ in 0..CASES_EACH {
        let (a, b) = (normal(&mut random), normal(&mut random));
        let exact = f64::from(a) / f64::from(b);
        let holds = in_ulps(2.0);
        let full = F32::to_f64(div_full::<false>(a.to_bits(), b.to_bits()));
        assert!(holds(full, exact), "{a:e} / {b:e}: {full:e}");
        if b.abs() <= 2f32.powi(126) {
            let value = F32::to_f64(div::<false>(a.to_bits(), b.to_bits()));
            assert!(holds(value, exact), "{a:e} / {b:e}: {value:e}");
        }
    }
    // Past 2^126 the manual fixes the result.
    assert_eq!(div::<false>(0x3f80_0000, 0x7e80_0001), 0);
    assert_eq!(div::<false>(0xbf80_0000, 0x7f7f_ffff), 0x8000_0000);
    assert_eq!(div::<false>(0x7f80_0000, 0x7f00_0000), F32::NAN);
}

#[test]
fn halves_keep_their_bounds() {
    for a in 0..=u16::MAX {
        let x = F16::to_f64(a);
        if x.is_finite() {
            let value = F16::to_f64(tanh_half::<F16>(a));
            assert!((value - x.tanh()).abs() <= 2f64.powf(-10.987), "{x}");
            let value = F16::to_f64(ex2_half::<F16, false>(a));
            let want = x.exp2();
            let least = 2f64.powi(-25);
            let holds = (value - want).abs() <= 2f64.powf(-9.9) * want + least;
            assert!(holds || want > 65_504.0, "{x}");
        }
        let x = Bf16::to_f64(a);
        if x.is_finite() {
            let value = Bf16::to_f64(tanh_half::<Bf16>(a));
            assert!((value - x.tanh()).abs() <= 2f64.powi(-8), "{x}");
            let value = Bf16::to_f64(ex2_half::<Bf16, true>(a));
            let want = x.exp2();
            let holds = (value - want).abs() <= 2f64.powi(-7) * want;
            assert!(holds || want < 2f64.powi(-126) && value == 0.0 || want > 3.3e38, "{x}");
        }
    }
}

type Function = fn(u32) -> u32;

/// Functions with pairs of source and result.
#[test]
fn special_values_are_the_manuals() {
    let (nan, infinity, minus) = (F32::NAN, F32::INFINITY, F32::SIGN);
    let one = F32::ONE;
    let minus_infinity = infinity | minus;
    let subnormal = 0x0000_0100;
    let tables: [(Function, &[(u32, u32)]); 11] = [
        (
            ex2::<true>,
            &[
                (minus_infinity, 0),
                (minus, one),
                (0, one),
                (subnormal, one),
                (infinity, infinity),
                (0xc300_0000, 0),
                (0x4300_0000, infinity),
                (nan, nan),
            ],
        ),
        (ex2::<false>, &[(0xc300_0000, 0x0020_0000), (0xc316_0000, 0)]),
        (
            lg2::<true>,
            &[
                (minus_infinity, nan),
                (0xbf80_0000, nan),
                (minus, minus_infinity),
                (0, minus_infinity),
                (subnormal, minus_infinity),
                (infinity, infinity),
                (one, 0),
                (nan, nan),
            ],
        ),
        (lg2::<false>, &[(0x0000_0001, (-149.0f32).to_bits()), (0x8000_0001, nan)]),
        (
            sin::<false>,
            &[(minus, minus), (0, 0), (infinity, nan), (minus_infinity, nan), (nan, nan)],
        ),
        (sin::<true>, &[(minus | subnormal, minus)]),
        (cos::<false>, &[(0, one), (minus, one), (infinity, nan), (nan, nan)]),
        (
            rcp::<true>,
            &[
                (minus_infinity, minus),
                (infinity, 0),
                (0, infinity),
                (minus, minus_infinity),
                (subnormal, infinity),
                (nan, nan),
            ],
        ),
        (
            rsqrt::<true>,
            &[
                (minus_infinity, nan),
                (0xbf80_0000, nan),
                (minus, minus_infinity),
                (0, infinity),
                (subnormal, infinity),
                (infinity, 0),
                (nan, nan),
            ],
        ),
        (sqrt::<true>, &[(minus, minus), (subnormal, 0), (infinity, infinity), (0xbf80_0000, nan)]),
        (
            tanh,
            &[
                (minus_infinity, 0xbf80_0000),
                (infinity, one),
                (minus, minus),
                (0, 0),
                (nan, nan),
                (subnormal, subnormal),
            ],
        ),
    ];
    for (index, (f, table)) in tables.iter().enumerate() {
        for &(a, result) in *table {
            assert_eq!(f(a), result, "function {index} of {a:x}");
        }
    }
}

#[test]
fn f64_approximations_leave_the_low_word_empty() {
    let mut random = Random::new(902);
    for _ in 0..CASES_EACH {
        let a = random.f64();
        let x = f64::from_bits(a);
        if !x.is_normal() || !(1.0 / x).is_normal() {
            continue;
        }
        let value = rcp_f64(a);
        assert_eq!(value as u32, 0);
        assert!((f64::from_bits(value) * x - 1.0).abs() < 2f64.powi(-19), "{x:e}");
        let x = x.abs();
        let value = rsqrt_f64::<true>(x.to_bits());
        assert_eq!(value as u32, 0);
        assert!((f64::from_bits(value) * x.sqrt() - 1.0).abs() < 2f64.powi(-19), "{x:e}");
        let value = f64::from_bits(rsqrt_f64::<false>(x.to_bits()));
        assert!((value * x.sqrt() - 1.0).abs() < 2f64.powi(-51), "{x:e}");
    }
    assert_eq!(rcp_f64(1), F64::INFINITY);
    assert_eq!(rcp_f64(F64::SIGN), F64::INFINITY | F64::SIGN);
    assert_eq!(rcp_f64(F64::INFINITY | F64::SIGN), F64::SIGN);
    assert_eq!(rsqrt_f64::<true>(F64::INFINITY), 0);
    assert_eq!(rsqrt_f64::<true>(0xbff0 << 48), 0x7fff_ffff_0000_0000);
}
