//! Random numbers that are the same in every run.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The remainder's bias does not matter to a test.
        (self.next() % end as u64) as usize
    }

    /// A float in -1..1, a multiple of 2^-23: sums and products of some of them are exact in f64.
    pub fn float(&mut self) -> f32 {
        let steps = (self.next() >> 40) as i32 - (1 << 23);
        steps as f32 / (1 << 23) as f32
    }

    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }

    pub fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| (self.next() >> 32) as u32).collect()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// A point of floats in -1..1.
    pub fn point(&mut self) -> [f32; 3] {
        std::array::from_fn(|_| self.float())
    }

    /// A point of a lattice of few planes: many coordinates are equal, and many points lie on faces.
    pub fn lattice_point(&mut self) -> [f32; 3] {
        std::array::from_fn(|_| self.below(5) as f32 * 0.5 - 1.0)
    }
}
