//! Coordinates of voxels, and where they are in nodes.
//!
//! A coordinate's low 3 bits say where it is in its leaf, the next 4 where that is in its lower
//! node, the next 5 where that is in its upper node, and the upper 20 name the entry of the root
//! ([Museth 2013](https://doi.org/10.1145/2487228.2487235)). x is the slowest axis everywhere.

use crate::error::Level;

/// The coordinates of a voxel.
pub type Coord = [i32; 3];

/// A box of voxels; both corners belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexBox {
    /// The least coordinates.
    pub min: Coord,
    /// The greatest coordinates.
    pub max: Coord,
}

impl IndexBox {
    /// The box without voxels, as NanoVDB has it.
    pub(crate) const EMPTY: Self = Self { min: [i32::MAX; 3], max: [i32::MIN; 3] };

    pub(crate) fn is_empty(&self) -> bool {
        self.min.iter().zip(&self.max).any(|(min, max)| min > max)
    }

    /// The least box with this one and another one in it.
    pub(crate) fn extend(&mut self, other: Self) {
        for axis in 0..3 {
            self.min[axis] = self.min[axis].min(other.min[axis]);
            self.max[axis] = self.max[axis].max(other.max[axis]);
        }
    }

    /// Returns the cube of a node, or of a tile of such a size.
    pub(crate) fn cube(origin: Coord, size_log2: u32) -> Self {
        Self { min: origin, max: origin.map(|c| c | low_bits(size_log2)) }
    }

    /// Returns how many voxels there are along the axes; 0 if the box is empty.
    #[must_use]
    pub fn dims(&self) -> [u64; 3] {
        [0, 1, 2].map(|axis| {
            let dim = i64::from(self.max[axis]) - i64::from(self.min[axis]) + 1;
            u64::try_from(dim).unwrap_or(0)
        })
    }

    /// Returns whether a voxel is in the box.
    #[must_use]
    pub fn contains(&self, ijk: Coord) -> bool {
        (0..3).all(|axis| (self.min[axis]..=self.max[axis]).contains(&ijk[axis]))
    }
}

impl Level {
    /// Of the length of a node along an axis in voxels, the logarithm. A root's entry covers as much as an
    /// upper node.
    pub(crate) fn size_log2(self) -> u32 {
        match self {
            Self::Leaf => 3,
            Self::Lower => 7,
            Self::Upper | Self::Root => 12,
        }
    }

    /// Returns the length of a node along an axis, in voxels.
    #[must_use]
    pub fn size(self) -> u32 {
        1 << self.size_log2()
    }

    /// Returns the length of its tiles.
    pub(crate) fn tile_log2(self) -> u32 {
        match self {
            Self::Leaf => 0,
            Self::Lower => 3,
            Self::Upper => 7,
            Self::Root => 12,
        }
    }

    /// Returns how many voxels a tile in a node covers.
    pub(crate) fn tile_voxels(self) -> u64 {
        1 << (3 * self.tile_log2())
    }
}

fn low_bits(count: u32) -> i32 {
    (1 << count) - 1
}

/// Returns the origin of the cube of a size that a voxel is in.
pub(crate) fn origin(ijk: Coord, size_log2: u32) -> Coord {
    ijk.map(|c| c & !low_bits(size_log2))
}

/// Returns which entry of a node's table a voxel is in.
pub(crate) fn entry(ijk: Coord, level: Level) -> usize {
    let (low, high) = (level.tile_log2(), level.size_log2());
    let bits = high - low;
    ijk.iter().fold(0, |n, c| n << bits | ((c & low_bits(high)) >> low) as usize)
}

/// Returns the origin of an entry of a node's table.
pub(crate) fn entry_origin(node: Coord, level: Level, n: usize) -> Coord {
    let (low, high) = (level.tile_log2(), level.size_log2());
    let bits = high - low;
    let place = |axis: u32| ((n >> (bits * (2 - axis))) as i32 & low_bits(bits)) << low;
    [node[0] | place(0), node[1] | place(1), node[2] | place(2)]
}

/// Returns the key of a voxel's entry in the root.
pub(crate) fn root_key(ijk: Coord) -> u64 {
    let [x, y, z] = ijk.map(|c| u64::from(c.cast_unsigned() >> 12));
    x << 42 | y << 21 | z
}

/// Returns the origin of the entry with a key.
pub(crate) fn root_origin(key: u64) -> Coord {
    [42, 21, 0].map(|shift| (((key >> shift & 0xf_ffff) as u32) << 12).cast_signed())
}

/// Returns the box of the set bits of a leaf's mask, whose words are planes of x and whose bytes are rows of
/// y; `None` without any.
pub(crate) fn leaf_box(origin: Coord, mask: &[u64; 8]) -> Option<IndexBox> {
    let x_bits = mask.iter().enumerate().fold(0u8, |bits, (x, w)| bits | u8::from(*w != 0) << x);
    let all = mask.iter().fold(0, |all, word| all | word);
    let (y_bits, z_bits) = all
        .to_le_bytes()
        .iter()
        .enumerate()
        .fold((0u8, 0u8), |(y, z), (i, b)| (y | u8::from(*b != 0) << i, z | b));
    let bits = [x_bits, y_bits, z_bits];
    let ends = |end: fn(u8) -> u32| [0, 1, 2].map(|a: usize| origin[a] | end(bits[a]) as i32);
    (all != 0).then(|| IndexBox {
        min: ends(u8::trailing_zeros),
        max: ends(|bits| 7 - bits.leading_zeros().min(7)),
    })
}
