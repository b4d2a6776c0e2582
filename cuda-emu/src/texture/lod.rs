//! Levels of mipmaps.

use super::Sampler;

/// Fraction bits of a level.
pub(crate) const FRACTION: u32 = 8;

/// The levels of a fetch and the weight of the second in units of 2^-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) first: u32,
    pub(crate) second: u32,
    pub(crate) fraction: u32,
}

/// Returns a level in fixed point. NaN is zero.
fn fixed(level: f32) -> i64 {
    if level.is_nan() {
        return 0;
    }
    (f64::from(level.clamp(-1e6, 1e6)) * f64::from(1 << FRACTION)).floor() as i64
}

/// Returns the levels of a level of detail, for an image of `count` levels. A fetch that names none has the level 0, without
/// a bias.
pub(crate) fn levels(level: Option<f32>, sampler: &Sampler, count: u32) -> Levels {
    let last = i64::from(count.saturating_sub(1)) << FRACTION;
    let biased = level.map_or(0, |level| fixed(level) + fixed(sampler.bias));
    let [low, high] = sampler.clamp.map(fixed);
    let chosen = biased.min(high).max(low).clamp(0, last);
    let (first, fraction) = (chosen >> FRACTION, chosen & ((1 << FRACTION) - 1));
    if sampler.linear_levels {
        let (first, fraction) = (first as u32, fraction as u32);
        Levels { first, second: (first + 1).min(count.saturating_sub(1)), fraction }
    } else {
        let nearest = (chosen + (1 << (FRACTION - 1))) >> FRACTION;
        let first = (nearest as u32).min(count.saturating_sub(1));
        Levels { first, second: first, fraction: 0 }
    }
}

/// Returns the level of detail of derivatives: the logarithm of the longer one, in texels.
pub(crate) fn of_gradient(dx: [f32; 3], dy: [f32; 3], size: [u32; 3], dimensions: u32) -> f32 {
    let length = |d: [f32; 3]| {
        let squares = d.iter().zip(size).take(dimensions as usize).map(|(&d, size)| {
            let texels = f64::from(d) * f64::from(size);
            texels * texels
        });
        squares.sum::<f64>().sqrt()
    };
    length(dx).max(length(dy)).log2() as f32
}
