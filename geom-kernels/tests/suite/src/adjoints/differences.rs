//! Gradients by differences, and how near others must be.

use test_harness::{Failure, TestResult, ensure};

/// How far adjoints of f64 may be off the differences, and those of f32 off those of f64, relative to the
/// largest entry.
pub(super) const OF_F64: f64 = 1e-8;
pub(super) const OF_F32: f64 = 1e-4;

/// The gradients of K functions at x, by differences of four points that are h apart. None if a function has no
/// value, which is how it says that something changes on the way.
///
/// What is left out is h^4 / 30 of a fifth derivative.
pub(super) fn gradients<const K: usize>(
    x: &[f64],
    h: f64,
    mut f: impl FnMut(&[f64]) -> Option<[f64; K]>,
) -> Option<[Vec<f64>; K]> {
    let mut all: [Vec<f64>; K] = std::array::from_fn(|_| Vec::with_capacity(x.len()));
    let mut moved = x.to_vec();
    for i in 0..x.len() {
        let mut at = |steps: f64| {
            moved[i] = x[i] + steps * h;
            let there = (moved[i], f(&moved)?);
            moved[i] = x[i];
            Some(there)
        };
        let [(b1, f1), (b2, f2), (a1, e1), (a2, e2)] = [at(1.0)?, at(2.0)?, at(-1.0)?, at(-2.0)?];
        for k in 0..K {
            let (near, far) = ((f1[k] - e1[k]) / (b1 - a1), (f2[k] - e2[k]) / (b2 - a2));
            all[k].push((4.0 * near - far) / 3.0);
        }
    }
    Some(all)
}

/// The largest size of a number.
pub(super) fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |most, x| most.max(x.abs()))
}

/// Whether all are as near to what is wanted as `tolerance` says, of its largest entry.
pub(super) fn near(got: &[f64], wanted: &[f64], tolerance: f64) -> TestResult {
    let bound = tolerance * largest(wanted);
    let far = |(got, wanted): (&f64, &f64)| {
        let off = (got - wanted).abs();
        off.is_nan() || off > bound
    };
    if got.len() != wanted.len() || got.iter().zip(wanted).any(far) {
        let message = format!("{got:?}, not {wanted:?}, by {tolerance} of the largest");
        return Err(Failure::new(message));
    }
    Ok(())
}

/// How often differences could not be taken.
#[derive(Default)]
pub(super) struct Skipped {
    pub(super) all: usize,
    pub(super) skipped: usize,
}

impl Skipped {
    /// Counts one; whether it is to be skipped.
    pub(super) fn count<T>(&mut self, gradients: Option<T>) -> Option<T> {
        self.all += 1;
        self.skipped += usize::from(gradients.is_none());
        gradients
    }

    /// Less than two percent of all.
    pub(super) fn are_few(&self) -> TestResult {
        ensure!(50 * self.skipped < self.all, "{} of {} skipped", self.skipped, self.all);
        Ok(())
    }
}
