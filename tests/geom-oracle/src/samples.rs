//! Samples of a field on a lattice, as weighted sums of its voxels in f64.

use std::collections::HashMap;

use test_support::Rng;

/// What a voxel has: the first numbers count, as many as a value of the field has.
pub type Numbers = [f64; 4];

/// Random numbers of a voxel, which f32 has, too.
#[must_use]
pub fn noise(voxel: [i32; 3]) -> Numbers {
    [0, 1, 2, 3].map(|n| {
        let mut seed: u64 = 17 + n;
        for i in voxel {
            seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(i as u64 ^ seed >> 29);
        }
        f64::from(Rng::new(seed).float())
    })
}

/// Values of some voxels: `parts` numbers for each.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The place of each stored voxel in `values`.
    pub places: &'a HashMap<[i32; 3], usize>,
    /// The numbers of all places.
    pub values: &'a [f64],
    /// How many numbers a value has, at most 4.
    pub parts: usize,
}

impl Stored<'_> {
    /// Returns the numbers of a voxel that is stored.
    #[must_use]
    pub fn at(&self, voxel: [i32; 3]) -> Option<Numbers> {
        let place = *self.places.get(&voxel)?;
        let numbers = self.values.get(self.parts * place..self.parts * (place + 1))?;
        let mut all = [0.0; 4];
        all.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from);
        Some(all)
    }
}

fn weights(tricubic: bool, t: f64) -> Vec<(i32, f64)> {
    if tricubic {
        vec![
            (-1, ((-0.5 * t + 1.0) * t - 0.5) * t),
            (0, (1.5 * t - 2.5) * t * t + 1.0),
            (1, ((-1.5 * t + 2.0) * t + 0.5) * t),
            (2, (0.5 * t - 0.5) * t * t),
        ]
    } else {
        vec![(0, 1.0 - t), (1, t)]
    }
}

/// Returns the voxels of a sample in index space, and their weights: tricubic (Catmull-Rom) or trilinear.
#[must_use]
pub fn stencil(tricubic: bool, p: [f64; 3]) -> Vec<([i32; 3], f64)> {
    let axes = p.map(|x| {
        let low = x.floor();
        let of = weights(tricubic, x - low);
        of.into_iter().map(|(i, w)| (low as i32 + i, w)).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for (x, a) in &axes[0] {
        for (y, b) in &axes[1] {
            all.extend(axes[2].iter().map(|(z, c)| ([*x, *y, *z], a * b * c)));
        }
    }
    all
}

/// Returns the sum of the numbers of all samples times their weights: of `positions` in index space, three
/// coordinates each, with `parts` weights each.
#[must_use]
pub fn weighted_sum(
    tricubic: bool,
    positions: &[f64],
    weights: &[f64],
    parts: usize,
    value: &dyn Fn([i32; 3]) -> Numbers,
) -> f64 {
    let one = |(p, weights): (&[f64], &[f64])| {
        let of = |(voxel, w): ([i32; 3], f64)| {
            weights
                .iter()
                .zip(value(voxel))
                .map(|(weight, number)| weight * w * number)
                .sum::<f64>()
        };
        stencil(tricubic, [p[0], p[1], p[2]]).into_iter().map(of).sum::<f64>()
    };
    positions.chunks_exact(3).zip(weights.chunks_exact(parts)).map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_field_is_interpolated_exactly() {
        // Both kinds of samples reproduce x + 2 y - 3 z.
        let linear = |[x, y, z]: [i32; 3]| [f64::from(x + 2 * y - 3 * z), 1.0, 0.0, 0.0];
        let mut rng = Rng::new(5);
        for _ in 0..200 {
            let p = rng.point().map(|x| 9.0 * f64::from(x));
            for tricubic in [false, true] {
                let sum = weighted_sum(tricubic, &p, &[1.0, 10.0], 2, &linear);
                let wanted = p[0] + 2.0 * p[1] - 3.0 * p[2] + 10.0;
                assert!((sum - wanted).abs() < 1e-12, "{sum}, not {wanted}");
            }
        }
    }

    #[test]
    fn a_sample_at_a_voxel_is_its_value() {
        for tricubic in [false, true] {
            let p = [3.0, -2.0, 5.0];
            let sum = weighted_sum(tricubic, &p, &[0.0, 0.0, 2.0], 3, &noise);
            assert_eq!(sum, 2.0 * noise([3, -2, 5])[2]);
        }
    }

    #[test]
    fn stored_values_are_found_by_their_voxels() {
        let places = HashMap::from([([1, 2, 3], 1), ([0, 0, 0], 7)]);
        let stored = Stored { places: &places, values: &[1.0, 2.0, 3.0, 4.0], parts: 2 };
        assert_eq!(stored.at([1, 2, 3]), Some([3.0, 4.0, 0.0, 0.0]));
        assert_eq!(stored.at([1, 2, 4]), None);
        assert_eq!(stored.at([0, 0, 0]), None, "beyond the values");
    }
}
