//! Inputs, and the comparison with an oracle in f64.

use crate::stop::Stop;

/// `n` numbers between -1 and 1, the same for the same seed.
pub(crate) fn random(n: usize, seed: u64) -> Vec<f32> {
    // SplitMix64: every seed and position gives bits that look independent.
    let bits = |index: usize| {
        let step = (index as u64).wrapping_add(seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (step ^ (step >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..n).map(|index| (bits(index) >> 40) as f32 / (1u32 << 23) as f32 - 1.0).collect()
}

/// Compares `out` with a x + y in f64: at most two roundings of f32 apart, so that the kernel may
/// fuse or not. Says how many were right.
///
/// # Errors
/// The first element that is wrong.
pub(crate) fn check_saxpy(a: f32, x: &[f32], y: &[f32], out: &[f32]) -> Result<usize, Stop> {
    if x.len() != out.len() || y.len() != out.len() {
        return Err(Stop::failed("the result has another length than its inputs"));
    }
    for (index, ((x, y), out)) in x.iter().zip(y).zip(out).enumerate() {
        let (product, y) = (f64::from(a) * f64::from(*x), f64::from(*y));
        let bound = f64::from(f32::EPSILON) * (product.abs() + y.abs());
        let error = (f64::from(*out) - (product + y)).abs();
        // So written that a NaN is wrong.
        let right = error <= bound;
        if !right {
            return Err(Stop::failed(format!("element {index} is {out}, not {}", product + y)));
        }
    }
    Ok(out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_fill_their_range_and_follow_the_seed() {
        let numbers = random(10_000, 1);
        assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(numbers.iter().any(|x| *x < -0.99) && numbers.iter().any(|x| *x > 0.99));
        let mean = numbers.iter().sum::<f32>() / 10_000.0;
        assert!(mean.abs() < 0.05, "{mean}");
        assert_eq!(numbers, random(10_000, 1));
        assert_ne!(numbers, random(10_000, 2));
    }

    #[test]
    fn fused_and_unfused_results_are_right_and_others_are_not() {
        let (x, y) = (random(1000, 1), random(1000, 2));
        let result = |f: fn(f32, f32) -> f32| -> Vec<f32> {
            x.iter().zip(&y).map(|(x, y)| f(*x, *y)).collect()
        };
        let count = |out: &[f32]| check_saxpy(2.5, &x, &y, out).ok();
        let mut out = result(|x, y| 2.5 * x + y);
        assert_eq!(count(&out), Some(1000));
        assert_eq!(count(&result(|x, y| 2.5f32.mul_add(x, y))), Some(1000));
        out[999] += 0.001;
        assert_eq!(count(&out), None);
        out[999] = f32::NAN;
        assert_eq!(count(&out), None);
        assert_eq!(count(&out[..999]), None);
    }
}
