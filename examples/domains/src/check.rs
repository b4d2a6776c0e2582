//! The same on the host: particles moved with the same rounding, and neighbours by brute force, in f64.

use rayon::prelude::*;

use crate::options::{Options, Particle};
use crate::slab::Neighbors;

/// How many particles' neighbours are compared.
const SAMPLE: usize = 10_000;

/// How far the sum may be off, relative to itself: additions come in another order.
const TOLERANCE: f64 = 1e-12;

/// Compares results, all or some, of the step that began with these particles with brute force; says how many.
///
/// # Errors
/// The first particle that differs, with what it should have.
pub fn check(
    options: &Options,
    particles: &[Particle],
    found: &[Neighbors],
) -> Result<String, String> {
    // Along x, so that all that can be near a particle lies between two indices.
    let mut sorted: Vec<_> = particles.iter().map(|particle| particle.position).collect();
    sorted.par_sort_unstable_by(|a, b| a[0].total_cmp(&b[0]));
    let step = found.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<Neighbors> = found.iter().step_by(step).copied().collect();
    let pairs = sample.par_iter().map(|result| {
        let Some(particle) = particles.get(result.particle as usize) else {
            return Err(format!("{result:?} is of none of {} particles", particles.len()));
        };
        let (count, sum) = brute_force(options, &sorted, particle.position);
        let is_near = (result.sum - sum).abs() <= TOLERANCE * sum;
        if result.count != count || !is_near {
            return Err(format!("{result:?} of {particle:?}, not {count} neighbours of {sum}"));
        }
        Ok(u64::from(count))
    });
    let pairs = pairs.try_reduce(|| 0, |a, b| Ok(a + b))?;
    Ok(format!("{} particles with {pairs} neighbours agree with brute force", sample.len()))
}

/// Compares two results of the same step: the same counts, and sums up to rounding.
///
/// # Errors
/// The first particle that differs.
pub fn compare(found: &[Neighbors], wanted: &[Neighbors]) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!("results for {} particles, not {}", found.len(), wanted.len()));
    }
    for (a, b) in found.iter().zip(wanted) {
        let is_near = (a.sum - b.sum).abs() <= TOLERANCE * b.sum;
        if a.particle != b.particle || a.count != b.count || !is_near {
            return Err(format!("{a:?} is not {b:?}"));
        }
    }
    Ok(())
}

/// The others within the radius, decided as the grid documents it, and the sum of their weights.
fn brute_force(options: &Options, sorted: &[[f32; 3]], at: [f32; 3]) -> (u32, f64) {
    let radius = options.radius;
    // Differences are rounded: a little more than the radius on both sides.
    let reach = radius * 1.000_001 + options.length * f32::EPSILON;
    let first = sorted.partition_point(|p| p[0] < at[0] - reach);
    let last = sorted.partition_point(|p| p[0] <= at[0] + reach);
    let (mut count, mut sum) = (0, 0.0);
    // The particle itself is among them, once.
    let mut own = 1;
    for p in &sorted[first..last] {
        if *p == at && own > 0 {
            own -= 1;
            continue;
        }
        let [dx, dy, dz]: [f32; 3] = std::array::from_fn(|axis| at[axis] - p[axis]);
        let square = dz.mul_add(dz, dy.mul_add(dy, dx * dx));
        if square <= radius * radius {
            let weight = 1.0 - f64::from(square) / (f64::from(radius) * f64::from(radius));
            count += 1;
            sum += weight.powi(3);
        }
    }
    (count, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_found() {
        let options = Options { radius: 0.25, ..Options::of(4) };
        let particle = |x| Particle { position: [x, 0.5, 0.5], velocity: [0.0; 3] };
        let particles = [0.0, 0.125, 0.25, 1.0].map(particle);
        let (near, far) = (0.75f64.powi(3), 0.0);
        let result = |particle, count, sum| Neighbors { particle, count, sum };
        let right = [
            result(0, 2, near + far),
            result(1, 2, 2.0 * near),
            result(2, 2, near + far),
            result(3, 0, 0.0),
        ];
        check(&options, &particles, &right).unwrap();
        compare(&right, &right).unwrap();
        assert!(check(&options, &particles[..3], &right).is_err());
        assert!(compare(&right[..3], &right).is_err());
        for i in 0..4 {
            for spoil in [
                |wrong: &mut Neighbors| wrong.count += 1,
                |wrong: &mut Neighbors| wrong.sum += 1e-11,
                |wrong: &mut Neighbors| wrong.sum = f64::NAN,
            ] {
                let mut wrong = right;
                spoil(&mut wrong[i]);
                assert!(check(&options, &particles, &wrong).is_err(), "{wrong:?}");
                assert!(compare(&wrong, &right).is_err(), "{wrong:?}");
            }
        }
    }
}
