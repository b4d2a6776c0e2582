//! Inputs.

use cuda_safe::kernel::vector::Vec3;
use half::f16;
use rust_kernels::integrate::Oscillator;

/// A generator of random numbers: SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// From -1, to below 1.
    pub(crate) fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 * (2.0 / 16_777_216.0) - 1.0
    }

    pub(crate) fn floats(seed: u64, n: usize) -> Vec<f32> {
        let mut random = Self::new(seed);
        (0..n).map(|_| random.float()).collect()
    }

    pub(crate) fn doubles(seed: u64, n: usize) -> Vec<f64> {
        let mut random = Self::new(seed);
        (0..n).map(|_| f64::from(random.float())).collect()
    }
}

/// Returns numbers of 16 bits from `-size` to `size`.
pub(crate) fn halves(seed: u64, n: usize, size: f32) -> Vec<f16> {
    Random::floats(seed, n).into_iter().map(|x| f16::from_f32(size * x)).collect()
}

/// Returns bodies in a cube.
pub(crate) fn bodies(n: usize) -> Vec<Vec3> {
    let mut random = Random::new(3);
    (0..n).map(|_| Vec3 { x: random.float(), y: random.float(), z: random.float() }).collect()
}

/// Returns oscillators.
pub(crate) fn oscillators(n: usize) -> Vec<Oscillator> {
    let mut random = Random::new(4);
    (0..n).map(|_| Oscillator { position: random.float(), velocity: random.float() }).collect()
}

/// A sparse matrix by rows, and the vector that it is multiplied by.
pub(crate) struct Sparse {
    pub(crate) offsets: Vec<u32>,
    pub(crate) columns: Vec<u32>,
    pub(crate) values: Vec<f32>,
    pub(crate) x: Vec<f32>,
}

impl Sparse {
    /// Returns a square matrix with 16 to 48 elements in a row, of which half are near the diagonal.
    pub(crate) fn new(rows: usize) -> Self {
        let mut random = Random::new(5);
        let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..rows {
            for k in 0..16 + random.below(33) {
                let column = match k % 2 {
                    0 => random.below(rows),
                    _ => (row + random.below(64)) % rows,
                };
                columns.push(column as u32);
                values.push(random.float());
            }
            offsets.push(columns.len() as u32);
        }
        Self { offsets, columns, values, x: Random::floats(6, rows) }
    }
}
