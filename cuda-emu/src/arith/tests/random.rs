//! Random bits for tests, biased to the values where arithmetic goes wrong.

/// A generator that is the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// 64 uniform bits (splitmix64).
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Returns an integer of `width` bits: uniform, near a power of two, near 0 or near the ends.
    pub(crate) fn int(&mut self, width: u32) -> u64 {
        let mask = u64::MAX >> (64 - width);
        let near = self.below(5).wrapping_sub(2);
        mask & match self.below(6) {
            0 => near,
            1 => (1u64 << self.below(width.into())).wrapping_add(near),
            2 => (1u64 << (width - 1)).wrapping_add(near),
            3 => self.bits() >> self.below(64),
            4 => (self.bits() >> self.below(64)).wrapping_neg(),
            _ => self.bits(),
        }
    }

    /// Returns a float of `exponent` and `fraction` bits: uniform bits, special values, subnormals, few significant
    /// bits, all ones, exponents close to a common centre (so that sums cancel).
    pub(crate) fn float(&mut self, exponent: u32, fraction: u32) -> u64 {
        let fractions = (1u64 << fraction) - 1;
        let exponents = (1u64 << exponent) - 1;
        let sign = (self.bits() & 1) << (exponent + fraction);
        let pattern = match self.below(4) {
            0 => self.bits(),
            1 => 1 << self.below(fraction.into()),
            2 => u64::MAX << self.below(u64::from(fraction) + 1),
            _ => u64::MAX >> (63 - self.below(u64::from(fraction))),
        } & fractions;
        let bias = exponents >> 1;
        let power = match self.below(8) {
            0 => 0,
            1 => 1 + self.below(3),
            2 => exponents - 1 - self.below(2),
            3 => self.bits() & exponents,
            4 => bias / 2 + self.below(4),
            5 => (bias / 2 * 3 + self.below(4)).min(exponents),
            _ => bias + self.below(12).min(exponents - bias) - 4.min(bias),
        } & exponents;
        let special = match self.below(40) {
            0 => Some(0),
            1 => Some(exponents << fraction),
            2 => Some(exponents << fraction | self.bits() & fractions),
            3 => Some((exponents << fraction) - 1),
            4 => Some(1),
            5 => Some(bias << fraction),
            _ => None,
        };
        sign | special.unwrap_or(power << fraction | pattern)
    }

    pub(crate) fn f16(&mut self) -> u16 {
        self.float(5, 10) as u16
    }

    pub(crate) fn bf16(&mut self) -> u16 {
        self.float(8, 7) as u16
    }

    pub(crate) fn f32(&mut self) -> u32 {
        self.float(8, 23) as u32
    }

    pub(crate) fn f64(&mut self) -> u64 {
        self.float(11, 52)
    }
}

/// How many cases a property is tested on: fewer where the tests are not optimised.
pub(crate) const CASES: u32 = if cfg!(debug_assertions) { 200_000 } else { 3_000_000 };
