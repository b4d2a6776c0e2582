//! Limits on measured times, for machines that are slower or do other things too.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The longest pause between two measurements.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Repeats a measurement until it is at most `limit`, for at most `patience`. Returns the smallest value, which is
/// above the limit only if every measurement was.
///
/// Code that has become slower fails each time; a busy machine does not, because a measurement of milliseconds
/// meets a quiet moment.
///
/// # Errors
/// The first error of a measurement.
pub fn least<E>(
    limit: f64,
    patience: Duration,
    mut measure: impl FnMut() -> Result<f64, E>,
) -> Result<f64, E> {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut least = f64::INFINITY;
    loop {
        least = least.min(measure()?);
        if least <= limit || begin.elapsed() >= patience {
            return Ok(least);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Returns the value that a tenth of the values are below: what a burst takes while nothing else runs on its core.
/// NaN if there are none.
#[must_use]
pub fn cheap(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 10).copied().unwrap_or(f64::NAN)
}

/// How often [`reference_burst`] does its work.
const REFERENCE_STEPS: u32 = 64;

/// What [`reference_burst`] returns on the machine for which limits are set, an AMD EPYC of 2026, while it is quiet.
const REFERENCE_NANOSECONDS: f64 = 80.0;

/// Measures the core: nanoseconds for a fixed work of the kind that the host does for a launch (allocations,
/// branches, a hash).
#[must_use]
pub fn reference_burst() -> f64 {
    let begin = Instant::now();
    for step in 0..REFERENCE_STEPS {
        let mut values = Vec::new();
        let mut hash = u64::from(black_box(step));
        for _ in 0..12 {
            hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            if hash & 3 != 0 {
                values.push(hash);
            }
        }
        black_box(values);
    }
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(REFERENCE_STEPS)
}

/// Returns how many times slower than the machine for which limits are set the core is, by values of
/// [`reference_burst`] that were measured in turn with what is judged: from 1 to 4. A busy neighbour on the same core
/// slows both.
#[must_use]
pub fn slowness(references: &mut [f64]) -> f64 {
    (cheap(references) / REFERENCE_NANOSECONDS).clamp(1.0, 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `least` with these measurements, of which the last repeats; the value and how many were made.
    fn run(limit: f64, patience: Duration, values: &[f64]) -> (f64, usize) {
        let mut made = 0;
        let value = least(limit, patience, || -> Result<f64, ()> {
            made += 1;
            values.get((made - 1).min(values.len() - 1)).copied().ok_or(())
        });
        (value.expect("no measurement fails"), made)
    }

    #[test]
    fn the_first_measurement_within_the_limit_ends_the_search() {
        let patience = Duration::from_secs(60);
        assert_eq!(run(80.0, patience, &[80.0]), (80.0, 1));
        assert_eq!(run(80.0, patience, &[300.0, 90.0, 40.0, 20.0]), (40.0, 3));
    }

    #[test]
    fn what_is_always_above_the_limit_is_returned() {
        let (value, made) = run(80.0, Duration::from_millis(20), &[300.0, 90.0, 100.0]);
        assert_eq!(value, 90.0);
        assert!(made > 2, "{made}");
        assert_eq!(run(80.0, Duration::ZERO, &[300.0]), (300.0, 1));
        assert_eq!(run(80.0, Duration::ZERO, &[f64::NAN]).0, f64::INFINITY);
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(least(1.0, Duration::from_secs(60), || Err("refused")), Err("refused"));
    }

    #[test]
    fn a_tenth_is_below_what_is_cheap() {
        let mut values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(cheap(&mut values), 10.0);
        assert_eq!(cheap(&mut [3.0]), 3.0);
        assert!(cheap(&mut []).is_nan());
    }

    #[test]
    fn slowness_is_at_least_one() {
        assert_eq!(slowness(&mut [REFERENCE_NANOSECONDS / 2.0]), 1.0);
        assert_eq!(slowness(&mut [REFERENCE_NANOSECONDS * 1.5]), 1.5);
        assert_eq!(slowness(&mut [REFERENCE_NANOSECONDS * 100.0]), 4.0);
        assert!(reference_burst() > 0.0);
    }
}
