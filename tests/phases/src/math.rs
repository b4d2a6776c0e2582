//! The functions of numbers have the same bits on both targets, whatever their operands.

use cuda_safe::DeviceBuffer;
use gpu_phases::dual::Dual32;
use gpu_phases::kernel;

/// Numbers of all kinds, in all pairs: special ones, and some of no special kind.
fn floats() -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        0.3,
        -0.5,
        0.5,
        1.0,
        -1.5,
        2.5,
        -2.5,
        1e-45,
        -1e-45,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        8_388_609.0,
        16_777_217.0,
        0.499_999_97,
        4_194_303.5,
    ];
    let other = (0..20u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9).rotate_left(i)));
    special.into_iter().chain(other).collect()
}

fn pairs<T: Copy>(values: &[T]) -> (Vec<T>, Vec<T>) {
    values.iter().flat_map(|a| values.iter().map(|b| (*a, *b))).unzip()
}

macro_rules! same {
    ($stream:expr, $kernel:ident, $a:expr, $b:expr, $zero:expr, $bits:expr) => {{
        let (a, b) = (&$a, &$b);
        let mut cpu = vec![$zero; a.len()];
        $kernel::cpu(&a[..], &b[..], &mut cpu[..]).unwrap();
        let (da, db) = (
            DeviceBuffer::from_slice($stream, a).unwrap(),
            DeviceBuffer::from_slice($stream, b).unwrap(),
        );
        let mut out = DeviceBuffer::from_slice($stream, &vec![$zero; a.len()]).unwrap();
        $kernel::launch($stream, &da, &db, &mut out).unwrap();
        for (i, (device, cpu)) in out.to_vec($stream).unwrap().into_iter().zip(cpu).enumerate() {
            assert_eq!(
                $bits(device),
                $bits(cpu),
                "{}({:?}, {:?})",
                stringify!($kernel),
                a[i],
                b[i]
            );
        }
    }};
}

#[kernel]
fn float_functions(a: &[f32], b: &[f32], out: &mut [[f32; 16]]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (a[i], b[i]);
        *out = [
            x.min(y),
            x.max(y),
            x.abs(),
            x.signum(),
            x.copysign(y),
            x.floor(),
            x.ceil(),
            x.trunc(),
            x.round(),
            x.round_ties_even(),
            x.fract(),
            x.sqrt(),
            x.recip(),
            x.mul_add(y, x),
            x.rem_euclid(y),
            x.div_euclid(y),
        ];
    });
}

#[kernel]
fn float_tests(a: &[f32], b: &[f32], out: &mut [[u32; 8]]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (a[i], b[i]);
        *out = [
            x.to_bits(),
            (x % y).to_bits(),
            x.is_sign_negative() as u32,
            x.is_sign_positive() as u32,
            x.is_nan() as u32,
            x.is_finite() as u32,
            x.is_infinite() as u32,
            x.clamp(-1.0, 1.0).to_bits(),
        ];
    });
}

#[kernel]
fn double_functions(a: &[f64], b: &[f64], out: &mut [[f64; 16]]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (a[i], b[i]);
        *out = [
            x.min(y),
            x.max(y),
            x.abs(),
            x.signum(),
            x.copysign(y),
            x.floor(),
            x.ceil(),
            x.trunc(),
            x.round(),
            x.round_ties_even(),
            x.fract(),
            x.sqrt(),
            x.recip(),
            x.mul_add(y, x),
            x.rem_euclid(y),
            x.div_euclid(y),
        ];
    });
}

#[kernel]
fn powers(a: &[f32], b: &[i32], out: &mut [f32]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| *out = a[i].powi(b[i]));
}

#[kernel]
fn signed_functions(a: &[i32], b: &[i32], out: &mut [[i32; 16]]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (a[i], b[i]);
        let by = if y == 0 || y == -1 { 3 } else { y };
        let n = (y & 63) as u32;
        *out = [
            x.min(y),
            x.max(y),
            x.signum(),
            x.rem_euclid(by),
            x.div_euclid(by),
            x.wrapping_add(y),
            x.wrapping_sub(y),
            x.wrapping_mul(y),
            x.wrapping_neg(),
            x.wrapping_shl(n),
            x.wrapping_shr(n),
            x.saturating_add(y),
            x.saturating_sub(y),
            x.saturating_mul(y),
            x.rotate_left(n),
            x.rotate_right(n),
        ];
    });
}

#[kernel]
fn bit_functions(a: &[i64], b: &[i64], out: &mut [[u32; 8]]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (a[i], b[i]);
        *out = [
            x.count_ones(),
            x.leading_zeros(),
            x.trailing_zeros(),
            x.reverse_bits() as u32,
            x.swap_bytes() as u32,
            x.unsigned_abs() as u32,
            x.abs_diff(y) as u32,
            x.is_negative() as u32 + 2 * (y.is_positive() as u32),
        ];
    });
}

#[kernel]
fn byte_functions(a: &[u8], b: &[u8], out: &mut [[u8; 16]]) {
    assert!(a.len() == out.len() && b.len() == out.len());
    each(out, |i, out| {
        let (x, y) = (a[i], b[i]);
        let n = y as u32;
        *out = [
            x.wrapping_add(y),
            x.wrapping_sub(y),
            x.wrapping_mul(y),
            x.saturating_add(y),
            x.saturating_sub(y),
            x.saturating_mul(y),
            x.rotate_left(n),
            x.rotate_right(n),
            x.reverse_bits(),
            x.leading_zeros() as u8,
            x.trailing_zeros() as u8,
            x.count_ones() as u8,
            x.div_ceil(y | 1),
            x.is_power_of_two() as u8,
            x.abs_diff(y),
            x.clamp(3, 200),
        ];
    });
}

fn bits32(x: f32) -> u32 {
    if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }
}

fn bits64(x: f64) -> u64 {
    if x.is_nan() { 0x7ff8 << 48 } else { x.to_bits() }
}

#[test]
fn floats_have_equal_bits() {
    let _alone = crate::alone();
    let stream = crate::stream();
    let (a, b) = pairs(&floats());
    same!(&stream, float_functions, a, b, [0.0; 16], |x: [f32; 16]| x.map(bits32));
    same!(&stream, float_tests, a, b, [0; 8], |x: [u32; 8]| x);
    let wide: Vec<f64> = floats().into_iter().map(|x| f64::from(x) * 1.000_000_000_1).collect();
    let (a, b) = pairs(&wide);
    same!(&stream, double_functions, a, b, [0.0; 16], |x: [f64; 16]| x.map(bits64));
    let exponents = [0, 1, 2, 3, -1, -7, 31, i32::MAX, i32::MIN];
    let (a, b): (Vec<f32>, Vec<i32>) =
        floats().iter().flat_map(|a| exponents.map(|b| (*a, b))).unzip();
    same!(&stream, powers, a, b, 0.0, bits32);
}

#[test]
fn integers_have_equal_bits() {
    let _alone = crate::alone();
    let stream = crate::stream();
    let (a, b) = pairs(&[
        0,
        1,
        -1,
        2,
        -2,
        7,
        -7,
        31,
        32,
        65_535,
        65_536,
        i32::MAX,
        i32::MIN,
        i32::MIN + 1,
        0x1234_5678,
    ]);
    same!(&stream, signed_functions, a, b, [0; 16], |x: [i32; 16]| x);
    let (a, b) = pairs(&[0i64, 1, -1, 1 << 40, i64::MAX, i64::MIN, 0x0123_4567_89ab_cdef]);
    same!(&stream, bit_functions, a, b, [0; 8], |x: [u32; 8]| x);
    let (a, b) = pairs(&(0..=255u8).step_by(5).chain([1, 2, 7, 8, 128, 254]).collect::<Vec<_>>());
    same!(&stream, byte_functions, a, b, [0; 16], |x: [u8; 16]| x);
}

#[kernel]
fn dual_functions(x: &[Dual32], y: &[Dual32], tangents: &mut [f32]) {
    each(tangents, |i, tangent| {
        let (x, y) = (x[i / 6], y[i / 6]);
        let of = [x.abs(), x.min(y), x.max(y), x.sqrt(), x.powf(y.value), x.ln()];
        let (a, b) = (x.value, y.value);
        let values = [a.abs(), a.min(b), a.max(b), a.sqrt(), a.powf(b), a.ln()];
        assert!(of[i % 6].value.to_bits() == values[i % 6].to_bits());
        *tangent = of[i % 6].tangent;
    });
}

#[test]
fn values_of_duals_are_those_of_floats() {
    let (a, b) = pairs(&floats());
    for by in [0.0f32, 1.0] {
        let duals = |x: &[f32]| x.iter().map(|x| Dual32::new(*x, by)).collect::<Vec<_>>();
        let zeros = vec![0.0f32; 6 * a.len()];
        let tangents =
            crate::both!(dual_functions(read duals(&a), read duals(&b), write zeros)).unwrap();
        for (x, of) in a.iter().zip(tangents.chunks(6)) {
            assert_eq!(*x >= 0.0, !of[3].is_nan(), "the root of {x}: {of:?}");
            // A constant stays one.
            assert!(by != 0.0 || [of[0], of[4], of[5]] == [0.0; 3], "{x}: {of:?}");
        }
    }
    let least = Dual32::new(f32::NAN, 2.0).min(Dual32::new(1.0, 3.0));
    assert_eq!(least, Dual32::new(1.0, 3.0));
}
