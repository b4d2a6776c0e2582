//! The same sums by brute force, in f64.

use cuda_safe::kernel::vector::Vec4;
use rayon::prelude::*;

/// How many sums are checked.
const SAMPLE: usize = 10_000;

/// At most this part of all pairs may be seen otherwise than in f64.
const MOST_DIFFERENT: f64 = 1e-4;

/// Returns the results of brute force around a point.
#[derive(Default)]
struct Expected {
    sum: [f64; 3],
    count: f64,
    /// Of these, those so near the radius that rounding in f32 may decide otherwise.
    may_be_out: f64,
    /// Of the others, likewise.
    may_be_in: f64,
}

/// Compares a sample of the sums, spread over all, with brute force; says how many. All points are in
/// the unit cube.
///
/// # Errors
/// The first sum that is wrong, with what it should be; or too many that differ by rounding.
pub(crate) fn check(points: &[[f32; 3]], radius: f32, sums: &[Vec4]) -> Result<String, String> {
    // Along x, so that all that can be near a point lies between two places.
    let mut sorted = points.to_vec();
    sorted.par_sort_unstable_by(|a, b| a[0].total_cmp(&b[0]));
    let step = points.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<usize> = (0..points.len()).step_by(step).collect();
    let compared = sample.par_iter().map(|&i| {
        let expected = brute_force(&sorted, points[i], radius);
        let different = compare(&expected, sums[i])
            .map_err(|what| format!("point {i}, {:?}: {what}", points[i]))?;
        Ok((expected.count, different))
    });
    let (pairs, different) = compared
        .try_reduce(|| (0.0, 0.0), |a: (f64, f64), b| Ok::<_, String>((a.0 + b.0, a.1 + b.1)))?;
    let said = format!("{different} of {pairs} pairs differ by rounding");
    if different > MOST_DIFFERENT * pairs {
        return Err(said);
    }
    Ok(format!("{} sums checked, {said}", sample.len()))
}

/// Everything within the radius, of points sorted along x.
fn brute_force(sorted: &[[f32; 3]], at: [f32; 3], radius: f32) -> Expected {
    let (at, radius) = (at.map(f64::from), f64::from(radius));
    let length = at.iter().map(|x| x * x).sum::<f64>().sqrt();
    let blurred = 4.0 * f64::from(f32::EPSILON) * (length + radius);
    let first = sorted.partition_point(|p| f64::from(p[0]) < at[0] - radius - blurred);
    let last = sorted.partition_point(|p| f64::from(p[0]) <= at[0] + radius + blurred);

    let mut expected = Expected::default();
    for &point in &sorted[first..last] {
        let point = point.map(f64::from);
        let distance = (0..3).map(|c| (point[c] - at[c]).powi(2)).sum::<f64>().sqrt();
        let may_differ = f64::from((distance - radius).abs() <= blurred);
        if distance > radius {
            expected.may_be_in += may_differ;
            continue;
        }
        expected.may_be_out += may_differ;
        expected.count += 1.0;
        for (sum, x) in expected.sum.iter_mut().zip(point) {
            *sum += x;
        }
    }
    expected
}

/// Whether a sum is as expected; if so, by how many neighbours it differs.
fn compare(expected: &Expected, found: Vec4) -> Result<f64, String> {
    let Expected { sum, count, may_be_out, may_be_in } = *expected;
    let [x, y, z, found] = found.to_array().map(f64::from);
    if !(count - may_be_out..=count + may_be_in).contains(&found) {
        return Err(format!("{found} neighbours, not {count}"));
    }
    for (c, component) in [x, y, z].into_iter().enumerate() {
        // One rounding for each addition, nothing being negative in the unit cube; and a point seen
        // otherwise changes the sum by up to 1.
        let error = found * f64::from(f32::EPSILON) * sum[c] + may_be_out + may_be_in;
        // Written so that a NaN is refused.
        let is_near = (component - sum[c]).abs() <= error;
        if !is_near {
            return Err(format!("component {c} of the sum is {component}, not {}", sum[c]));
        }
    }
    Ok((found - count).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_sum_is_found() {
        let points = [0.0f32, 0.1, 0.2, 0.5].map(|x| [x, 0.5, 0.25]);
        let right = [
            Vec4::new(0.1, 1.0, 0.5, 2.0),
            Vec4::new(0.3, 1.5, 0.75, 3.0),
            Vec4::new(0.3, 1.0, 0.5, 2.0),
            Vec4::new(0.5, 0.5, 0.25, 1.0),
        ];
        check(&points, 0.15, &right).unwrap();
        for i in 0..4 {
            for spoil in [
                |sum: &mut Vec4| sum.x += 1e-5,
                |sum: &mut Vec4| sum.y = f32::NAN,
                |sum: &mut Vec4| sum.w += 1.0,
                |sum: &mut Vec4| sum.w -= 1.0,
            ] {
                let mut sums = right;
                spoil(&mut sums[i]);
                assert!(check(&points, 0.15, &sums).is_err(), "{sums:?}");
            }
        }
    }
}
