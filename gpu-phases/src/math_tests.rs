//! Tests of the functions with defined results.

use proptest::prelude::*;

use super::*;
use crate::__private::{each, run};
use crate::cpu::target::tests::SAXPY;
use crate::kernel::CpuError;

const VALUES: [f32; 13] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    -0.5,
    0.3,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MIN_POSITIVE,
    f32::MAX,
    1e-45,
];

fn bits(x: f32) -> u32 {
    x.phases_to_bits()
}

#[test]
fn min_and_max_order_zeros_and_ignore_nans() {
    for a in VALUES {
        for b in VALUES {
            let rank = |x: f32| (x, !x.is_sign_negative());
            let expected = match (a.is_nan(), b.is_nan()) {
                (true, _) => (b, b),
                (_, true) => (a, a),
                _ if rank(a) < rank(b) => (a, b),
                _ => (b, a),
            };
            assert_eq!(
                (bits(a.phases_min(b)), bits(a.phases_max(b))),
                (bits(expected.0), bits(expected.1)),
                "{a} {b}"
            );
        }
    }
}

#[test]
fn signs_and_payloads_of_nans_do_not_show() {
    for nan in [f32::NAN, -f32::NAN, f32::from_bits(0xffc1_2345), f32::from_bits(0x7f80_0001)] {
        assert_eq!(nan.phases_to_bits(), 0x7fc0_0000);
        assert!(!nan.phases_is_sign_negative() && nan.phases_is_sign_positive());
        assert_eq!(bits((-2.0f32).phases_copysign(nan)), bits(2.0));
        assert!(
            nan.phases_copysign(-1.0).is_nan()
                && nan.phases_signum().is_nan()
                && nan.phases_clamp(0.0, 1.0).is_nan()
        );
    }
    assert_eq!((-f64::NAN).phases_to_bits(), 0x7ff8_0000_0000_0000);
    assert_eq!((-0.0f64).phases_to_bits(), 1 << 63);
}

#[test]
fn signs_of_zeros_are_kept() {
    assert_eq!(bits((-0.0f32).phases_signum()), bits(-1.0));
    assert_eq!(bits((-0.0f32).phases_clamp(0.0, 1.0)), bits(-0.0));
    for negative in [
        (-0.3f32).phases_round(),
        (-0.3f32).phases_ceil(),
        (-0.3f32).phases_trunc(),
        (-0.5f32).phases_round_ties_even(),
        (-0.0f32).phases_floor(),
        (-0.0f32).phases_sqrt(),
    ] {
        assert_eq!(bits(negative), bits(-0.0));
    }
    assert_eq!(
        (2.5f32.phases_round(), 2.5f32.phases_round_ties_even(), (-2.5f32).phases_round()),
        (3.0, 2.0, -3.0)
    );
}

#[test]
fn powers_are_products_by_squaring() {
    let x = 1.1f32;
    let x2 = x * x;
    assert_eq!(x.phases_powi(3), x * x2);
    assert_eq!(x.phases_powi(6), x2 * (x2 * x2));
    assert_eq!(x.phases_powi(-3), 1.0 / (x * x2));
    assert_eq!((x.phases_powi(0), f32::NAN.phases_powi(0)), (1.0, 1.0));
    assert_eq!(1.0f64.phases_powi(i32::MIN), 1.0);
}

#[test]
fn failures_have_the_line_of_the_kernel() {
    type Case = (fn(i32) -> i32, FaultKind);
    let line = line!();
    let cases: [Case; 8] = [
        (|zero| 5i32.phases_clamp(zero + 1, zero), FaultKind::Assert),
        (|zero| 5.0f32.phases_clamp(f32::NAN, zero as f32) as i32, FaultKind::Assert),
        (|zero| 5i32.phases_rem_euclid(zero), FaultKind::Division),
        (|zero| i32::MIN.phases_div_euclid(zero - 1), FaultKind::Division),
        (|zero| 5u32.phases_div_ceil(zero as u32) as i32, FaultKind::Division),
        (|zero| (i32::MIN + zero).phases_abs(), FaultKind::Overflow),
        (|zero| (3 + zero).phases_pow(21), FaultKind::Overflow),
        (|zero| i32::from((2i8 + zero as i8).phases_pow(7)), FaultKind::Overflow),
    ];
    for (number, (f, kind)) in cases.into_iter().enumerate() {
        let mut out = [0; 1];
        let result = run(&SAXPY, || each(&mut out[..], |_, out| *out = f(std::hint::black_box(0))));
        match result {
            Err(CpuError::Fault(fault)) => {
                assert_eq!(
                    (fault.kind, fault.file, fault.line),
                    (kind, file!(), line + 2 + number as u32)
                );
            }
            Ok(()) => {
                assert!(kind == FaultKind::Overflow && !cfg!(debug_assertions), "case {number}");
            }
            other => panic!("case {number}: {other:?}"),
        }
    }
}

fn generic_float<T: Real>(x: T) -> T {
    (x * T::from_f64(0.5)).phases_max(T::default()).phases_sqrt()
}

fn generic_int<T: Int>(x: T) -> T {
    (x & T::from_i64(7)).phases_max(T::from_i64(3)) << 1u32
}

#[test]
fn generics_compute_as_numbers_do() {
    assert_eq!(
        (generic_float(8.0f32), generic_float(8.0f64), generic_float(-8.0f32)),
        (2.0, 2.0, 0.0)
    );
    assert_eq!((generic_int(13u8), generic_int(-8i64), generic_int(6usize)), (10, 6, 12));
}

proptest! {
    #[test]
    fn integers_agree_with_std(a: i32, b: i32, c: i32) {
        let (low, high) = (b.min(c), b.max(c));
        prop_assert_eq!((a.phases_min(b), a.phases_max(b)), (a.min(b), a.max(b)));
        prop_assert_eq!(a.phases_clamp(low, high), a.clamp(low, high));
        prop_assert_eq!(a.phases_signum(), a.signum());
        if let (Some(rest), Some(quotient)) = (a.checked_rem_euclid(b), a.checked_div_euclid(b)) {
            prop_assert_eq!((a.phases_rem_euclid(b), a.phases_div_euclid(b)), (rest, quotient));
        }
        let (base, exponent) = (a % 8, b.unsigned_abs() % 10);
        prop_assert_eq!(base.phases_pow(exponent), base.pow(exponent));
    }

    #[test]
    fn floats_agree_with_std_where_it_is_defined(a: f32, b: f32, c: f32) {
        prop_assert_eq!(bits(a.phases_abs()), bits(a.abs()));
        prop_assert_eq!(bits(a.phases_copysign(b)), bits(a.copysign(b)));
        prop_assert_eq!(bits(a.phases_rem_euclid(b)), bits(a.rem_euclid(b)));
        prop_assert_eq!(bits(a.phases_div_euclid(b)), bits(a.div_euclid(b)));
        prop_assert_eq!(bits(a.phases_fract()), bits(a.fract()));
        prop_assert_eq!(bits(a.phases_mul_add(b, c)), bits(a.mul_add(b, c)));
        if a != b {
            prop_assert_eq!((bits(a.phases_min(b)), bits(a.phases_max(b))), (bits(a.min(b)), bits(a.max(b))));
        }
        if b <= c {
            prop_assert_eq!(bits(a.phases_clamp(b, c)), bits(a.clamp(b, c)));
        }
    }
}
