//! From a coordinate to the texels along one axis, and the weight of the second.

use super::Address;
use super::filter::FRACTION;

/// The texels along an axis: columns, rows or slices. `None` is the border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taps {
    pub(crate) first: Option<u32>,
    pub(crate) second: Option<u32>,
    /// The weight of the second, in units of 2^-8; that of the first is the rest.
    pub(crate) fraction: u32,
}

/// A coordinate as a kernel gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Coordinate {
    /// In texels.
    Integer(i32),
    /// In texels.
    Texels(f64),
    /// In sizes of the image.
    Normalized(f64),
}

/// Fraction bits of a normalized coordinate: a GPU cuts it off there before it multiplies it with the size.
const NORMALIZED: u32 = 21;
/// Fraction bits of a coordinate in texels.
const TEXELS: u32 = 21;
/// Coordinates in texels of larger magnitude are read as this one.
const FAR: f64 = 1_099_511_627_776.0;
/// The same of normalized ones, which are all even integers from there on. Times an extent it fits in 64 bits.
const FAR_NORMALIZED: f64 = 16_777_216.0;

/// Returns a coordinate in fixed point, rounded down. NaN is zero.
fn fixed(value: f64, far: f64, bits: u32) -> i64 {
    let scaled = value.clamp(-far, far) * f64::from(1_u32 << bits);
    let cut = scaled as i64;
    cut - i64::from(cut as f64 > scaled)
}

/// Returns the texels of a coordinate along an axis of `extent` texels.
#[inline]
pub(crate) fn locate(at: Coordinate, extent: u32, address: Address, linear: bool) -> Taps {
    let (texels, bits) = match at {
        Coordinate::Integer(index) => {
            // Outside there is nothing, whatever the addressing mode says.
            let first = u32::try_from(index).ok().filter(|index| *index < extent);
            return Taps { first, second: first, fraction: 0 };
        }
        Coordinate::Texels(value) => (fixed(value, FAR, TEXELS), TEXELS),
        Coordinate::Normalized(value) => {
            let value = fixed(value, FAR_NORMALIZED, NORMALIZED);
            (value.wrapping_mul(extent.into()), NORMALIZED)
        }
    };
    if linear {
        let drop = bits - FRACTION;
        let rounded = (texels + (1 << (drop - 1))) >> drop;
        let moved = rounded - (1 << (FRACTION - 1));
        let (index, fraction) = (moved >> FRACTION, moved & ((1 << FRACTION) - 1));
        let taps = [index, index + 1].map(|index| index_of(index, extent, address));
        // A clamped coordinate is the centre of the first or last texel.
        let alone = address == Address::Clamp && taps[0] == taps[1];
        let fraction = if alone { 0 } else { fraction as u32 };
        Taps { first: taps[0], second: taps[1], fraction }
    } else {
        let first = index_of(texels >> bits, extent, address);
        Taps { first, second: first, fraction: 0 }
    }
}

/// Returns the texel of an index; `None` for the border.
#[inline]
fn index_of(index: i64, extent: u32, address: Address) -> Option<u32> {
    let size = i64::from(extent.max(1));
    let inside = match address {
        Address::Wrap => index.rem_euclid(size),
        Address::Clamp => index.clamp(0, size - 1),
        Address::Mirror => {
            let at = index.rem_euclid(2 * size);
            if at < size { at } else { 2 * size - 1 - at }
        }
        Address::Border if index < 0 || index >= size => return None,
        Address::Border => index,
    };
    u32::try_from(inside).ok()
}
