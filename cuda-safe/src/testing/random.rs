//! Random numbers with a seed.

/// A sequence of random numbers that a seed determines (SplitMix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The upper half of the product: as good as unbiased for the small ends of tests.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number in `[-1, 1)`.
    pub fn float(&mut self) -> f64 {
        // 53 bits, which a double holds.
        (self.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// Returns true once in `n` times.
    pub(super) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `items`, or `None` if there is none.
    pub(super) fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.below(items.len() as u64)).ok()?)
    }

    /// Returns a number in `0..=most`, small ones as often as large ones: each number of digits is as likely.
    pub(super) fn scaled(&mut self, most: u64) -> u64 {
        let digits = u64::from(u64::BITS - most.leading_zeros());
        let digits = self.below(digits + 1);
        let end = 1_u64.checked_shl(u32::try_from(digits).unwrap_or(64)).unwrap_or(u64::MAX);
        self.below(end).min(most)
    }
}

/// Returns the seed of a part of a test, by its name.
pub(super) fn seed_of(seed: u64, name: &str) -> u64 {
    // FNV-1a, and then mixed.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    Random::new(seed ^ hash).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_ranges() {
        let mut random = Random::new(1);
        assert_eq!(random.below(0), 0);
        for _ in 0..2000 {
            assert!(random.below(7) < 7);
            assert!(random.scaled(100) <= 100);
            assert!((-1.0..1.0).contains(&random.float()));
        }
        let mut extremes = (0..2000).map(|_| random.scaled(u64::MAX));
        assert!(extremes.any(|value| value > u64::MAX / 4) && extremes.any(|value| value < 16));
        assert_eq!(random.choose::<u8>(&[]), None);
        let sequence = |seed| Random::new(seed).bits();
        assert_eq!(sequence(5), sequence(5));
        assert_ne!(sequence(5), sequence(6));
        assert_ne!(seed_of(1, "a"), seed_of(1, "b"));
    }
}
