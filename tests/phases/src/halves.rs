//! `f16` and `bf16`: elements, values and fields with equal bits on both targets.

use gpu_phases::{Device, Real, device, kernel};
use half::{bf16, f16};

use crate::both;

/// All values of 16 bits.
fn all() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// The value, without the sign and payload of a NaN.
#[device]
fn shown<T: Real>(a: T, nan: T) -> T {
    if a.is_nan() { nan } else { a }
}

#[device]
fn mixed<T: Real>(a: T, b: T) -> T {
    let clamped = a.max(b).clamp(T::from_f64(-300.5), T::from_f64(1e3));
    (a * b + clamped) / (b - T::from_f64(0.3)) % T::from_f64(7.0) + a.abs().sqrt()
        - b.floor().copysign(a)
}

macro_rules! tests {
    ($name:ident $half:ident) => {
        mod $name {
            use super::*;

            #[derive(Debug, Clone, Copy, PartialEq, Device, bytemuck::Pod, bytemuck::Zeroable)]
            #[repr(C)]
            struct Pair {
                a: $half,
                b: [$half; 2],
            }

            #[kernel]
            fn converts(x: &[u16], wide: &mut [f32], back: &mut [$half]) {
                assert!(x.len() == wide.len());
                each((wide, back), |i, (wide, back)| {
                    let h = $half::from_bits(x[i]);
                    *wide = h.to_f32();
                    // What is near the middle of two values, and beyond the greatest.
                    let near = h.to_f64() + (h.to_f64() * 1.0009) * 0.5;
                    *back = if i % 2 == 0 { $half::from_f64(near) } else { $half::from_f32(near as f32) };
                });
            }

            #[test]
            fn conversions_have_equal_bits() {
                let zero = vec![$half::from_bits(0); 65536];
                both!(converts(read all(), write vec![0.0f32; 65536], write zero)).unwrap();
            }

            #[kernel]
            fn computes(x: &[$half], by: $half, pairs: &mut [Pair], bits: &mut [u32]) {
                each((pairs, bits), |i, (pair, bits)| {
                    let (a, b) = (x[i], x[(i * 977 + 5) % x.len()]);
                    pair.a = shown(mixed(a, b) + by, $half::NAN);
                    let mut sum = $half::ONE - -by;
                    for y in x[0].to_bits()..3 {
                        sum += a * $half::from_f32(y as f32);
                        sum -= $half::from(3u8);
                    }
                    pair.b = [shown(sum, $half::NAN), shown(a.mul_add(b, by).rem_euclid($half::from_f64(2.5)), $half::NAN)];
                    let flags = [a < b, a <= b, a > b, a >= b, a == b, a != b, a.is_nan(), b.is_finite(), a.is_sign_negative()];
                    *bits = a.min(b).to_bits() as u32;
                    for (k, flag) in flags.iter().enumerate() {
                        *bits |= (*flag as u32) << (16 + k as u32);
                    }
                    if f32::from(a) > 70000.0 && a.powi(3).is_infinite() {
                        pair.a = $half::MAX;
                    }
                });
            }

            #[test]
            fn arithmetic_has_equal_bits() {
                let x: Vec<$half> = all().into_iter().map($half::from_bits).collect();
                let zero = Pair { a: $half::ZERO, b: [$half::ZERO; 2] };
                let by = $half::from_f32(0.7);
                let result = both!(computes(read x, value by, write vec![zero; 65536], write vec![0u32; 65536]));
                let (pairs, _) = result.unwrap();
                assert!((pairs[0].b[0].to_f32() + 7.3).abs() < 0.1);
            }
        }
    };
}
tests!(of_f16 f16);
tests!(of_bf16 bf16);

#[kernel]
fn without(out: &mut [u16]) {
    each(out, |i, out| *out = i as u16);
}

#[kernel]
fn with(out: &mut [f16]) {
    each(out, |i, out| *out = f16::from_f32(i as f32));
}

#[test]
fn other_kernels_do_not_have_their_source() {
    assert!(with::source().contains("half_num"));
    assert!(!without::source().contains("half_num"));
}
