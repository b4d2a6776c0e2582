//! Values in the bytes of a grid. Offsets in a grid are checked when it is made; reads outside of it give zeros.

use bytemuck::AnyBitPattern;

use super::tree::{LEAF_MASK, bit};
use crate::volume::{Bool, Index, Mask, OnIndex, Rgba8};

/// The result of a descent: the offset of a leaf or, if that is 0, the offset of the value of a tile or of the
/// background.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    pub(crate) node: usize,
    pub(crate) value: usize,
}

/// Returns what lies at an offset.
#[inline(always)]
pub(super) fn at<T: AnyBitPattern>(bytes: &[u8], at: usize) -> T {
    match bytes.get(at..at.wrapping_add(size_of::<T>())) {
        Some(bytes) => bytemuck::pod_read_unaligned(bytes),
        None => T::zeroed(),
    }
}

/// Values as leaves and tiles store them.
pub trait Read: AnyBitPattern {
    /// The offset of the values in a leaf.
    const LEAF_VALUES: usize;

    /// Returns the value at a place of a leaf, or of a tile.
    #[inline(always)]
    fn read(bytes: &[u8], found: Found, place: usize) -> Self {
        let in_leaf = found.node.wrapping_add(Self::LEAF_VALUES + place * size_of::<Self>());
        at(bytes, if found.node == 0 { found.value } else { in_leaf })
    }

    /// Returns the values of a cell that lies in one leaf or tile, from its least corner on; x is the slowest.
    #[inline(always)]
    fn cell(bytes: &[u8], found: Found, place: usize) -> [Self; 8] {
        std::array::from_fn(|k| Self::read(bytes, found, place + CORNERS[k & 7]))
    }
}

/// The distances in a leaf of a cell's corners from the least one.
pub(super) const CORNERS: [usize; 8] = [0, 1, 8, 9, 64, 65, 72, 73];

/// Returns the offset of values in leaves after two values and two averages.
const fn behind_statistics(size: usize, align: usize) -> usize {
    let average = if align == 8 { 8 } else { 4 };
    ((80 + 2 * size).next_multiple_of(average) + 2 * average).next_multiple_of(32)
}

macro_rules! plain {
    ($($value:ty, $align:literal;)+) => {
        $(impl Read for $value {
            const LEAF_VALUES: usize = behind_statistics(size_of::<Self>(), $align);

            #[inline(always)]
            fn cell(bytes: &[u8], found: Found, place: usize) -> [Self; 8] {
                if found.node == 0 {
                    return [at(bytes, found.value); 8];
                }
                // One comparison with the length is enough for all corners.
                const SIZE: usize = size_of::<$value>();
                let first = found.node.wrapping_add(Self::LEAF_VALUES + place * SIZE);
                let cell = bytes.get(first..first.wrapping_add(74 * SIZE)).unwrap_or(&[]);
                CORNERS.map(|n| at(cell, n * SIZE))
            }
        })+
    };
}

plain! {
    f32, 4;
    f64, 8;
    i16, 2;
    i32, 4;
    i64, 8;
    u8, 1;
    u32, 4;
    [f32; 3], 4;
    [f64; 3], 8;
    [f32; 4], 4;
    [f64; 4], 8;
    Rgba8, 4;
}

impl Read for Mask {
    const LEAF_VALUES: usize = LEAF_MASK;

    fn read(bytes: &[u8], found: Found, place: usize) -> Self {
        Self(read_bit::<Self>(bytes, found, place))
    }
}

impl Read for Bool {
    const LEAF_VALUES: usize = 80;

    fn read(bytes: &[u8], found: Found, place: usize) -> Self {
        Self(read_bit::<Self>(bytes, found, place))
    }
}

fn read_bit<T: Read>(bytes: &[u8], found: Found, place: usize) -> u8 {
    let set = match found.node {
        0 => at::<u8>(bytes, found.value) != 0,
        leaf => bit(bytes, leaf.wrapping_add(T::LEAF_VALUES), place),
    };
    set.into()
}

impl Read for Index {
    const LEAF_VALUES: usize = 80;

    #[inline(always)]
    fn read(bytes: &[u8], found: Found, place: usize) -> Self {
        Self(match found.node {
            0 => at(bytes, found.value),
            leaf => {
                at::<u64>(bytes, leaf.wrapping_add(Self::LEAF_VALUES)).wrapping_add(place as u64)
            }
        })
    }
}

impl Read for OnIndex {
    const LEAF_VALUES: usize = 80;

    #[inline(always)]
    fn read(bytes: &[u8], found: Found, place: usize) -> Self {
        let leaf = found.node;
        if leaf == 0 {
            return Self(at(bytes, found.value));
        }
        let (word, bit) = (place / 64, 1u64 << (place % 64));
        let mask = at::<u64>(bytes, leaf.wrapping_add(LEAF_MASK + 8 * word));
        if mask & bit == 0 {
            return Self(0);
        }
        let [first, sums]: [u64; 2] = at(bytes, leaf.wrapping_add(Self::LEAF_VALUES));
        let before = if word == 0 { 0 } else { sums >> (9 * (word - 1)) & 511 };
        let in_word = (mask & (bit - 1)).count_ones();
        Self(first.wrapping_add(before).wrapping_add(in_word.into()))
    }
}
