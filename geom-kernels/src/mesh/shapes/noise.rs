//! Gradient noise, and meshes displaced by it.

use cuda_safe::{Error, Result};

use crate::mesh::TriangleMesh;
use crate::mesh::host::{add, scaled};

/// Gradient noise in three dimensions: a smooth function, zero at points of whole coordinates, between about
/// -1 and 1, with features of size one, and periodic with period 256. K. Perlin, Improving Noise, 2002, with a
/// permutation from a seed.
#[derive(Debug, Clone)]
pub struct Noise {
    permutation: [u8; 256],
}

impl Noise {
    /// Returns the noise of this seed. The same seed gives the same noise.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut permutation: [u8; 256] = std::array::from_fn(|i| i as u8);
        let mut state = seed;
        for last in (1..permutation.len()).rev() {
            // The product's high half is at most `last`; the slight bias does not matter.
            let pick = (u128::from(split_mix(&mut state)) * (last as u128 + 1)) >> 64;
            permutation.swap(last, pick as usize);
        }
        Self { permutation }
    }

    /// Returns the noise at a point; NaN if a coordinate is not finite.
    #[must_use]
    pub fn at(&self, point: [f64; 3]) -> f64 {
        let floor = point.map(f64::floor);
        let [x, y, z]: [f64; 3] = std::array::from_fn(|axis| point[axis] - floor[axis]);
        // The cast wraps at the permutation's period. Numbers beyond i64 have no fraction, so no noise.
        let [i, j, k] = floor.map(|x| x as i64 as u8);
        let [u, v, w] = [x, y, z].map(|t| t * t * t * (t * (t * 6.0 - 15.0) + 10.0));
        let corner = |di: u8, dj: u8, dk: u8| {
            let hash = self.hash(i.wrapping_add(di), j.wrapping_add(dj), k.wrapping_add(dk));
            gradient(hash, [x - f64::from(di), y - f64::from(dj), z - f64::from(dk)])
        };
        let along_x = |dj: u8, dk: u8| lerp(u, corner(0, dj, dk), corner(1, dj, dk));
        let along_y = |dk: u8| lerp(v, along_x(0, dk), along_x(1, dk));
        lerp(w, along_y(0), along_y(1))
    }

    fn hash(&self, i: u8, j: u8, k: u8) -> u8 {
        self.permuted(self.permuted(self.permuted(i).wrapping_add(j)).wrapping_add(k))
    }

    pub(super) fn permuted(&self, index: u8) -> u8 {
        self.permutation[usize::from(index)]
    }
}

fn lerp(t: f64, a: f64, b: f64) -> f64 {
    a + t * (b - a)
}

/// Returns the dot product with one of the twelve directions to the midpoints of a cube's edges, four of them twice.
fn gradient(hash: u8, [x, y, z]: [f64; 3]) -> f64 {
    let hash = hash & 15;
    let u = if hash < 8 { x } else { y };
    let v = match hash {
        0..4 => y,
        12 | 14 => x,
        _ => z,
    };
    (if hash & 1 == 0 { u } else { -u }) + (if hash & 2 == 0 { v } else { -v })
}

/// Returns the next number of 64 random bits, by S. Vigna's SplitMix64 generator.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl TriangleMesh {
    /// Moves each point p along its normal ([`vertex_normals`](Self::vertex_normals)) by `amplitude` times the noise
    /// at `frequency` · p. A closed mesh stays closed, because shared points move once. With large amplitudes the
    /// surface may intersect itself. The bits are the same on every platform.
    ///
    /// # Errors
    /// `amplitude` or `frequency` is not finite.
    pub fn displace(&mut self, noise: &Noise, amplitude: f32, frequency: f32) -> Result<()> {
        if !(amplitude.is_finite() && frequency.is_finite()) {
            return Err(Error::invalid(format!(
                "noise of amplitude {amplitude} and frequency {frequency}; both must be finite"
            )));
        }
        let normals = self.normals();
        for (point, normal) in self.points.iter_mut().zip(normals) {
            let wide = point.map(f64::from);
            let height = noise.at(scaled(wide, f64::from(frequency))) * f64::from(amplitude);
            *point = add(wide, scaled(normal, height)).map(|x| x as f32);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::gradient;

    #[test]
    fn gradients_point_to_the_middles_of_edges() {
        // The gradients in Perlin's order: pairs of signs in xy, xz and yz, and four of them again.
        let signs = [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]];
        let mut directions: Vec<[f64; 3]> = Vec::new();
        directions.extend(signs.map(|[a, b]| [a, b, 0.0]));
        directions.extend(signs.map(|[a, b]| [a, 0.0, b]));
        directions.extend(signs.map(|[a, b]| [0.0, a, b]));
        directions.extend([[1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [-1.0, 1.0, 0.0], [0.0, -1.0, -1.0]]);
        for hash in 0..=255 {
            let axis = |axis: usize| {
                let mut unit = [0.0; 3];
                unit[axis] = 1.0;
                gradient(hash, unit)
            };
            assert_eq!([0, 1, 2].map(axis), directions[usize::from(hash % 16)], "{hash}");
        }
    }
}
