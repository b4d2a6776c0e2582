//! Random numbers in kernels, with the same bits on every target.
//!
//! A thread makes a [`Random`] from a seed and the number of a stream, such as its index, and draws from it. There is
//! no state to set up, and what a thread draws depends on nothing else.
//!
//! ```
//! use gpu_phases::kernel;
//! use gpu_phases::random::Random;
//!
//! #[kernel]
//! fn heights(seed: u64, out: &mut [f32]) {
//!     each(out, |i, out| {
//!         let mut random = Random::new(seed, i as u64);
//!         *out = 170.0 + 10.0 * random.normal();
//!     });
//! }
//!
//! # fn main() -> Result<(), gpu_phases::kernel::CpuError> {
//! let mut out = [0.0; 1000];
//! heights::cpu(42, &mut out)?;
//! let mean = out.iter().sum::<f32>() / 1000.0;
//! assert!((mean - 170.0).abs() < 1.0);
//! # Ok(())
//! # }
//! ```
//!
//! [`Random`] is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). [`uniform`],
//! [`normal`], [`exponential`] and [`circle`] are functions of the bits of a word, for other generators ([`Pcg32`]) and
//! for quasi-random sequences: they are monotonic, so a stratified sequence stays stratified.

use std::f32::consts::FRAC_PI_2;

use crate::functions::horner;
use crate::{Device, device};

/// Returns the block of Philox4x32-10 with this key and counter.
#[device]
#[must_use]
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [mut low, mut high] = key;
    let [mut a, mut b, mut c, mut d] = counter;
    for _ in 0..10 {
        let left = (a as u64).wrapping_mul(0xd251_1f53);
        let right = (c as u64).wrapping_mul(0xcd9e_8d57);
        a = (right >> 32) as u32 ^ b ^ low;
        b = right as u32;
        c = (left >> 32) as u32 ^ d ^ high;
        d = left as u32;
        low = low.wrapping_add(0x9e37_79b9);
        high = high.wrapping_add(0xbb67_ae85);
    }
    [a, b, c, d]
}

/// A stream of random numbers: Philox4x32-10. Seeds and streams are independent, and each stream has 2^66 words.
///
/// The words are those of cuRAND's `curandStatePhilox4_32_10_t` after `curand_init(seed, stream, 0, …)`. The value can
/// be an element of a buffer, to go on in a later launch; zeros are `Random::new(0, 0)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Device)]
#[repr(C)]
pub struct Random {
    seed: u64,
    stream: u64,
    /// The number of the next block.
    block: u64,
    /// The words of the last block, those to draw first.
    words: [u32; 4],
    left: u32,
    _fill: u32,
}

/// A small stream of random numbers: PCG-XSH-RR with 64 bits of state (O'Neill 2014). It takes 4 registers, and is
/// faster than [`Random`] where a thread draws one or two words. Streams with nearby numbers are weakly correlated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Device)]
#[repr(C)]
pub struct Pcg32 {
    state: u64,
    increment: u64,
}

// SAFETY: all fields may be zeros.
unsafe impl bytemuck::Zeroable for Random {}
// SAFETY: all fields are integers, which take any bytes, and there is no padding (`Device`).
unsafe impl bytemuck::Pod for Random {}
// SAFETY: all fields may be zeros.
unsafe impl bytemuck::Zeroable for Pcg32 {}
// SAFETY: all fields are integers, which take any bytes, and there is no padding (`Device`).
unsafe impl bytemuck::Pod for Pcg32 {}

#[device]
impl Pcg32 {
    /// Returns the beginning of a stream, as `pcg32_srandom` sets it up.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut new = Self { state: 0, increment: (stream << 1) | 1 };
        new.next_u32();
        new.state = new.state.wrapping_add(seed);
        new.next_u32();
        new
    }

    /// Draws a word.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.increment);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }
}

#[device]
impl Random {
    /// Returns the beginning of a stream.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { seed, stream, block: 0, words: [0, 0, 0, 0], left: 0, _fill: 0 }
    }

    /// Returns a stream from which `drawn` words have been drawn.
    #[must_use]
    pub fn at(seed: u64, stream: u64, drawn: u64) -> Self {
        let mut random = Self::new(seed, stream);
        random.block = drawn / 4;
        for _ in 0..drawn % 4 {
            random.next_u32();
        }
        random
    }

    /// Draws a word.
    pub fn next_u32(&mut self) -> u32 {
        if self.left == 0 {
            let key = [self.seed as u32, (self.seed >> 32) as u32];
            let (block, stream) = (self.block, self.stream);
            let counter =
                [block as u32, (block >> 32) as u32, stream as u32, (stream >> 32) as u32];
            self.words = philox(key, counter);
            self.block = self.block.wrapping_add(1);
            self.left = 4;
        }
        self.left = self.left.wrapping_sub(1);
        let [a, b, c, d] = self.words;
        self.words = [b, c, d, a];
        a
    }

    /// Draws two words, the lower one first.
    pub fn next_u64(&mut self) -> u64 {
        let low = self.next_u32() as u64;
        low | ((self.next_u32() as u64) << 32)
    }

    /// Draws from [0, 1): one of 2^24 equidistant numbers.
    pub fn uniform(&mut self) -> f32 {
        uniform(self.next_u32())
    }

    /// Draws from [0, 1): one of 2^53 equidistant numbers.
    pub fn uniform_f64(&mut self) -> f64 {
        uniform_f64(self.next_u64())
    }

    /// Draws from the integers below `end`, without bias (Lemire 2019). Of no integers it is 0.
    pub fn below(&mut self, end: u32) -> u32 {
        let mut product = (self.next_u32() as u64).wrapping_mul(end as u64);
        if (product as u32) < end {
            let least = end.wrapping_neg() % end;
            while (product as u32) < least {
                product = (self.next_u32() as u64).wrapping_mul(end as u64);
            }
        }
        (product >> 32) as u32
    }

    /// Draws from the integers from `start` to below `end`, without bias. Of no integers it is `start`.
    pub fn range(&mut self, start: i32, end: i32) -> i32 {
        let count = if start < end { end.wrapping_sub(start) as u32 } else { 0 };
        start.wrapping_add(self.below(count) as i32)
    }

    /// Draws from the normal distribution with mean 0 and variance 1: [`normal`] of a word.
    pub fn normal(&mut self) -> f32 {
        normal(self.next_u32())
    }

    /// Draws from the normal distribution with mean 0 and variance 1: [`normal_f64`] of two words.
    pub fn normal_f64(&mut self) -> f64 {
        normal_f64(self.next_u64())
    }

    /// Draws from the exponential distribution with mean 1: [`exponential`] of a word.
    pub fn exponential(&mut self) -> f32 {
        exponential(self.next_u32())
    }

    /// Draws from the Poisson distribution. A mean below 10 counts arrivals; a greater one is by Hörmann's rejection
    /// (PTRS, 1993) in `f64`. A mean below 0 is taken as 0, and one above 4·10^9, or a NaN, as that.
    pub fn poisson(&mut self, mean: f32) -> u32 {
        let mean = (mean as f64).min(4e9);
        if mean < 10.0 {
            let (mut count, mut time) = (0u32, self.exponential() as f64);
            while time < mean {
                count = count.wrapping_add(1);
                time += self.exponential() as f64;
            }
            return count;
        }
        let b = 0.931 + 2.53 * mean.sqrt();
        let a = -0.059 + 0.02483 * b;
        let scale = 1.1239 + 1.1328 / (b - 3.4);
        loop {
            let (u, v) = (self.uniform_f64() - 0.5, open_f64(self.next_u64()));
            let near = 0.5 - u.abs();
            let k = ((2.0 * a / near + b) * u + mean + 0.43).floor();
            if near >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0) {
                return k as u32;
            }
            let possible = k >= 0.0 && k < 4_294_967_296.0 && (near >= 0.013 || v <= near);
            if possible {
                let left = (v * scale / (a / (near * near) + b)).ln();
                if left <= k * mean.ln() - mean - ln_factorial(k) {
                    return k as u32;
                }
            }
        }
    }

    /// Draws a point of the circle with radius 1.
    pub fn on_circle(&mut self) -> [f32; 2] {
        circle(self.next_u32())
    }

    /// Draws a point of the disk with radius 1.
    pub fn in_disk(&mut self) -> [f32; 2] {
        let radius = self.uniform().sqrt();
        let [x, y] = self.on_circle();
        [radius * x, radius * y]
    }

    /// Draws a point of the sphere with radius 1.
    pub fn on_sphere(&mut self) -> [f32; 3] {
        let z = (self.next_u32() as i32 as f32 + 0.5) * (1.0 / 2_147_483_648.0);
        let radius = ((1.0 - z) * (1.0 + z)).sqrt();
        let [x, y] = self.on_circle();
        [radius * x, radius * y, z]
    }

    /// Draws a point of the ball with radius 1.
    pub fn in_ball(&mut self) -> [f32; 3] {
        // The greatest of three uniform numbers is distributed as the distance from the centre.
        let radius = self.uniform().max(self.uniform()).max(self.uniform());
        let [x, y, z] = self.on_sphere();
        [radius * x, radius * y, radius * z]
    }

    /// Draws a point of the hemisphere with radius 1 and z of at least 0.
    pub fn on_hemisphere(&mut self) -> [f32; 3] {
        let [x, y, z] = self.on_sphere();
        [x, y, z.abs()]
    }

    /// Draws a point of that hemisphere with a density in proportion to z (Lambert's cosine law).
    pub fn cosine_hemisphere(&mut self) -> [f32; 3] {
        let square = self.uniform();
        let radius = square.sqrt();
        let [x, y] = self.on_circle();
        [radius * x, radius * y, (1.0 - square).sqrt()]
    }

    /// Draws a point of the cube from 0 to 1.
    pub fn in_cube(&mut self) -> [f32; 3] {
        [self.uniform(), self.uniform(), self.uniform()]
    }
}

/// Returns the element at `i` of a shuffle of the integers below `n`; `i` must be less than `n`, else it is `i`.
///
/// For each seed it is a bijection, so threads shuffle without memory. It is a Feistel network of 12 rounds.
#[device]
#[must_use]
pub fn shuffled(i: u32, n: u32, seed: u32) -> u32 {
    if i >= n || n < 2 {
        return i;
    }
    // The halves have at least 2 bits. The network has fewer than 4 n values, or 16: those from n on are passed
    // through.
    let half = (33u32.wrapping_sub((n.wrapping_sub(1)).leading_zeros()) / 2).max(2);
    let mask = (1u32 << half).wrapping_sub(1);
    let mut at = i;
    loop {
        let (mut left, mut right) = (at >> half, at & mask);
        for round in 1..13u32 {
            let key = mix(seed.wrapping_add(round.wrapping_mul(0x9e37_79b9)));
            let next = left ^ (mix(right ^ key) & mask);
            left = right;
            right = next;
        }
        at = (left << half) | right;
        if at < n {
            return at;
        }
    }
}

/// Returns the bits of a number, mixed: a bijection (Chris Wellons's `lowbias32`).
#[device]
#[must_use]
pub fn mix(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Returns a number of [0, 1): one of 2^24 equidistant ones.
#[device]
#[must_use]
pub fn uniform(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Returns a number of [0, 1): one of 2^53 equidistant ones.
#[device]
#[must_use]
pub fn uniform_f64(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Returns a number of (0, 1).
#[device]
fn open_f64(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0)
}

/// Returns the point of the circle with radius 1 at the angle `bits` / 2^32 of a turn. The error is below 1.2e-7.
#[device(contract)]
#[must_use]
pub fn circle(bits: u32) -> [f32; 2] {
    let quarter = bits.wrapping_add(1 << 29) >> 30;
    let angle = bits.wrapping_sub(quarter << 30) as i32 as f32 * (FRAC_PI_2 / 1_073_741_824.0);
    let (sine, cosine) = angle.sin_cos();
    match quarter {
        0 => [cosine, sine],
        1 => [-sine, cosine],
        2 => [-cosine, -sine],
        _ => [sine, -cosine],
    }
}

/// Returns a number of the exponential distribution with mean 1: from 1.2e-10 to 22.9. The relative error is below
/// 2e-7.
#[device]
#[must_use]
pub fn exponential(bits: u32) -> f32 {
    let rest = ((!bits) as f32 + 0.5) * (1.0 / 4_294_967_296.0);
    // Near 1 the distance from it has more bits.
    let near = rest < 0.29;
    -(if near { (-rest).ln_1p() } else { ((bits as f32 + 0.5) * (1.0 / 4_294_967_296.0)).ln() })
}

/// Returns the number below which a share of (`bits` + 1/2) / 2^32 of the normal distribution is: from -6.3 to 6.3.
///
/// It is AS 241 (Wichura 1988). The relative error is below 4e-7, the absolute one below 1.6e-6.
#[device(contract)]
#[must_use]
pub fn normal(bits: u32) -> f32 {
    let negative = bits < 0x8000_0000;
    // The share of the tail is `rank` + 1/2, and the rest of this half of the distribution `middle` + 1/2, in units of
    // 2^-32.
    let rank = if negative { bits } else { !bits };
    let middle = 0x7fff_ffffu32.wrapping_sub(rank);
    let q = (middle as f32 + 0.5) * (1.0 / 4_294_967_296.0);
    let size = if q <= 0.425 {
        let r = 0.180625 - q * q;
        q * horner(r, [3.387_132_7, 50.434_27, 159.291_13, 59.109_375])
            / horner(r, [1.0, 17.895_17, 78.757_76, 67.187_56])
    } else {
        let r = (-((rank as f32 + 0.5) * (1.0 / 4_294_967_296.0)).ln()).sqrt() - 1.6;
        horner(r, [1.423_437_3, 2.756_815_4, 1.306_728_5, 0.170_238_21])
            / horner(r, [1.0, 0.737_001_64, 0.120_211_32, 0.0])
    };
    if negative { -size } else { size }
}

/// Returns the number below which a share of (`bits` + 1/2) / 2^64 of the normal distribution is: from -9.2 to 9.2.
///
/// It is AS 241 (Wichura 1988). The relative error is below 2e-14, which is the error of the tests' reference, too.
#[device(contract)]
#[must_use]
pub fn normal_f64(bits: u64) -> f64 {
    let negative = bits < 0x8000_0000_0000_0000;
    let rank = if negative { bits } else { !bits };
    let middle = 0x7fff_ffff_ffff_ffffu64.wrapping_sub(rank);
    let q = (middle as f64 + 0.5) * (1.0 / 18_446_744_073_709_551_616.0);
    let size = if q <= 0.425 {
        let r = 0.180625 - q * q;
        q * horner(r, CENTRE[0]) / horner(r, CENTRE[1])
    } else {
        let tail = (rank as f64 + 0.5) * (1.0 / 18_446_744_073_709_551_616.0);
        let r = (-tail.ln()).sqrt();
        if r <= 5.0 {
            horner(r - 1.6, TAIL[0]) / horner(r - 1.6, TAIL[1])
        } else {
            horner(r - 5.0, FAR_TAIL[0]) / horner(r - 5.0, FAR_TAIL[1])
        }
    };
    if negative { -size } else { size }
}

// The numerators and denominators of `normal_f64`, from the lowest power on.
#[rustfmt::skip]
const CENTRE: [[f64; 8]; 2] = [
    [3.387_132_872_796_366_5, 1.331_416_678_917_843_8e2, 1.971_590_950_306_551_3e3, 1.373_169_376_550_946e4, 4.592_195_393_154_987e4, 6.726_577_092_700_87e4, 3.343_057_558_358_813e4, 2.509_080_928_730_122_7e3],
    [1.0, 4.231_333_070_160_091e1, 6.871_870_074_920_579e2, 5.394_196_021_424_751e3, 2.121_379_430_158_659_7e4, 3.930_789_580_009_271e4, 2.872_908_573_572_194_3e4, 5.226_495_278_852_854e3],
];
#[rustfmt::skip]
const TAIL: [[f64; 8]; 2] = [
    [1.423_437_110_749_683_5, 4.630_337_846_156_546, 5.769_497_221_460_691, 3.647_848_324_763_204_5, 1.270_458_252_452_368_4, 2.417_807_251_774_506e-1, 2.272_384_498_926_918_4e-2, 7.745_450_142_783_414e-4],
    [1.0, 2.053_191_626_637_759, 1.676_384_830_183_803_8, 6.897_673_349_851e-1, 1.481_039_764_274_800_8e-1, 1.519_866_656_361_645_7e-2, 5.475_938_084_995_345e-4, 1.050_750_071_644_416_9e-9],
];
#[rustfmt::skip]
const FAR_TAIL: [[f64; 8]; 2] = [
    [6.657_904_643_501_103, 5.463_784_911_164_114, 1.784_826_539_917_291_3, 2.965_605_718_285_048_7e-1, 2.653_218_952_657_612_4e-2, 1.242_660_947_388_078_4e-3, 2.711_555_568_743_487_6e-5, 2.010_334_399_292_288_1e-7],
    [1.0, 5.998_322_065_558_88e-1, 1.369_298_809_227_358e-1, 1.487_536_129_085_061_5e-2, 7.868_691_311_456_133e-4, 1.846_318_317_510_054_8e-5, 1.421_511_758_316_446e-7, 2.044_263_103_389_939_7e-15],
];

/// Returns the logarithm of the factorial of a whole number that is not negative.
#[device(contract)]
fn ln_factorial(k: f64) -> f64 {
    // Stirling's series, from 10 on.
    let mut product = 1.0;
    let mut x = k + 1.0;
    while x < 10.0 {
        product = product * x;
        x += 1.0;
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let rest = inverse * horner(square, [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0]);
    (x - 0.5) * x.ln() - x + 0.918_938_533_204_672_8 + rest - product.ln()
}

#[cfg(test)]
#[path = "random_tests.rs"]
mod tests;
