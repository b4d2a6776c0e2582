//! A grid's bytes, read by the description of the format alone: with the numbers that NanoVDB's C header has for
//! each type (`PNanoVDB.h`, `pnanovdb_grid_type_constants`), and nothing of the crates.

mod built;

use std::collections::HashMap;

pub(crate) use built::{Built, built};

pub(crate) type Coord = [i32; 3];

/// Numbers of types, as the format has them.
mod types {
    pub(super) const MASK: u32 = 8;
    pub(super) const BOOL: u32 = 11;
    pub(super) const INDEX: u32 = 19;
    pub(super) const ON_INDEX: u32 = 20;
}

/// Where things lie with a type of values: of the root its background and size, of an entry of it the value and
/// size; the tables of upper and lower nodes and their stride; the values of a leaf and its size; bytes of a
/// value outside of leaves.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    background: usize,
    root: usize,
    tile_value: usize,
    tile: usize,
    upper_table: usize,
    lower_table: usize,
    stride: usize,
    values: usize,
    leaf: usize,
    bytes: usize,
}

impl Numbers {
    /// By the number of the type.
    fn of(grid_type: u32) -> Self {
        let [
            background,
            root,
            tile_value,
            tile,
            upper_table,
            lower_table,
            stride,
            values,
            leaf,
            bytes,
        ] = match grid_type {
            1 | 4 | 10 | 12 => [28, 64, 20, 32, 8256, 1088, 8, 96, 2144, 4],
            2 | 5 => [32, 96, 24, 32, 8256, 1088, 8, 128, 4224, 8],
            3 => [28, 64, 20, 32, 8256, 1088, 8, 96, 1120, 2],
            6 => [28, 96, 20, 32, 8256, 1088, 16, 128, 6272, 12],
            7 => [32, 128, 24, 64, 8288, 1120, 24, 160, 12448, 24],
            types::MASK => [28, 64, 20, 32, 8256, 1088, 8, 96, 96, 1],
            // LeafData<bool> of NanoVDB.h has its values at 80; the table of PNanoVDB.h says 96, which is
            // where they would be with its padding in front.
            types::BOOL => [28, 64, 20, 32, 8256, 1088, 8, 80, 160, 1],
            17 => [28, 96, 20, 64, 8288, 1120, 16, 128, 8320, 16],
            18 => [32, 160, 24, 64, 8320, 1152, 32, 160, 16544, 32],
            26 => [28, 64, 20, 32, 8256, 1088, 8, 96, 608, 1],
            _ => [32, 96, 24, 32, 8256, 1088, 8, 80, 96, 8],
        };
        Self {
            background,
            root,
            tile_value,
            tile,
            upper_table,
            lower_table,
            stride,
            values,
            leaf,
            bytes,
        }
    }

    fn upper(&self) -> usize {
        self.upper_table + 32_768 * self.stride
    }

    fn lower(&self) -> usize {
        self.lower_table + 4096 * self.stride
    }
}

/// Nodes of a level: by origin, and in the order in which their parents have them.
#[derive(Debug, Clone, Default)]
struct Level {
    places: HashMap<Coord, usize>,
    order: Vec<(Coord, usize)>,
}

impl Level {
    fn add(&mut self, origin: Coord, at: usize) {
        self.places.insert(origin, at);
        self.order.push((origin, at));
    }
}

/// The nodes of a grid, by where they lie in space.
#[derive(Debug, Clone)]
pub(crate) struct Decoded {
    bytes: Vec<u8>,
    grid_type: u32,
    numbers: Numbers,
    root: usize,
    /// Entries of the root, with children and without.
    entries: Level,
    uppers: Level,
    lowers: Level,
    leaves: Level,
}

/// What holds a voxel: a leaf, a tile's value and whether it is active, or nothing.
enum Holder {
    Leaf(usize),
    Tile(usize, bool),
    Nothing,
}

impl Decoded {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let grid_type = u32_at(bytes, 636);
        let root = 672 + u64_at(bytes, 672 + 24) as usize;
        let mut decoded = Self {
            bytes: bytes.to_vec(),
            grid_type,
            numbers: Numbers::of(grid_type),
            root,
            entries: Level::default(),
            uppers: Level::default(),
            lowers: Level::default(),
            leaves: Level::default(),
        };
        for t in 0..u32_at(bytes, root + 24) as usize {
            let at = root + decoded.numbers.root + t * decoded.numbers.tile;
            let key = u64_at(bytes, at);
            // 21 bits each, of coordinates shifted by 12 as numbers without a sign.
            let origin = [42, 21, 0].map(|shift| (((key >> shift) as u32) << 12).cast_signed());
            decoded.entries.add(origin, at);
            let child = u64_at(bytes, at + 8) as usize;
            if child != 0 {
                decoded.upper(bytes, origin, root + child);
            }
        }
        decoded
    }

    fn upper(&mut self, bytes: &[u8], origin: Coord, at: usize) {
        self.uppers.add(origin, at);
        for n in (0..32_768).filter(|n| bit(bytes, at + 32 + 4096, *n)) {
            let entry = at + self.numbers.upper_table + n * self.numbers.stride;
            let child = at + u64_at(bytes, entry) as usize;
            self.lower(bytes, step(origin, n, 5, 7), child);
        }
    }

    fn lower(&mut self, bytes: &[u8], origin: Coord, at: usize) {
        self.lowers.add(origin, at);
        for n in (0..4096).filter(|n| bit(bytes, at + 32 + 512, *n)) {
            let entry = at + self.numbers.lower_table + n * self.numbers.stride;
            self.leaves.add(step(origin, n, 4, 3), at + u64_at(bytes, entry) as usize);
        }
    }

    fn holder(&self, ijk: Coord) -> Holder {
        let of = &self.numbers;
        let node =
            |level: &Level, log2: u32| level.places.get(&ijk.map(|x| (x >> log2) << log2)).copied();
        if let Some(leaf) = node(&self.leaves, 3) {
            return Holder::Leaf(leaf);
        }
        let in_table = |node: usize, table: usize, n: usize| {
            Holder::Tile(node + table + n * of.stride, bit(&self.bytes, node + 32, n))
        };
        if let Some(lower) = node(&self.lowers, 7) {
            return in_table(lower, of.lower_table, place(ijk, 3, 4));
        }
        if let Some(upper) = node(&self.uppers, 12) {
            return in_table(upper, of.upper_table, place(ijk, 7, 5));
        }
        match node(&self.entries, 12) {
            Some(tile) => Holder::Tile(tile + of.tile_value, u32_at(&self.bytes, tile + 16) != 0),
            None => Holder::Nothing,
        }
    }

    /// The bytes of a voxel's value; a bit is a byte of 0 or 1.
    pub(crate) fn value(&self, ijk: Coord) -> Vec<u8> {
        let leaf = match self.holder(ijk) {
            Holder::Leaf(leaf) => leaf,
            Holder::Tile(_, active) if self.grid_type == types::MASK => return vec![active.into()],
            Holder::Tile(at, _) => return self.stored(at),
            Holder::Nothing => return self.background(),
        };
        let n = place(ijk, 0, 3);
        let values = leaf + self.numbers.values;
        match self.grid_type {
            types::MASK => vec![u8::from(bit(&self.bytes, leaf + 16, n))],
            types::BOOL => vec![u8::from(bit(&self.bytes, values, n))],
            types::INDEX => (u64_at(&self.bytes, values) + n as u64).to_le_bytes().to_vec(),
            types::ON_INDEX => {
                let active = |n: &usize| bit(&self.bytes, leaf + 16, *n);
                let before = (0..n).filter(active).count() as u64;
                let index = u64_at(&self.bytes, values) + before;
                (if active(&n) { index } else { 0 }).to_le_bytes().to_vec()
            }
            _ => self.stored(values + n * self.numbers.bytes),
        }
    }

    pub(crate) fn background(&self) -> Vec<u8> {
        match self.grid_type {
            types::MASK => vec![0],
            _ => self.stored(self.root + self.numbers.background),
        }
    }

    pub(crate) fn is_active(&self, ijk: Coord) -> bool {
        match self.holder(ijk) {
            Holder::Leaf(leaf) => bit(&self.bytes, leaf + 16, place(ijk, 0, 3)),
            Holder::Tile(_, active) => active,
            Holder::Nothing => false,
        }
    }

    pub(crate) fn is_in_leaf(&self, ijk: Coord) -> bool {
        matches!(self.holder(ijk), Holder::Leaf(_))
    }

    fn stored(&self, at: usize) -> Vec<u8> {
        let bytes = self.bytes[at..at + self.numbers.bytes].to_vec();
        match self.grid_type {
            types::BOOL => vec![u8::from(bytes[0] != 0)],
            _ => bytes,
        }
    }
}

/// Bit n of a mask.
fn bit(bytes: &[u8], mask: usize, n: usize) -> bool {
    (bytes[mask + n / 8] >> (n % 8)) & 1 != 0
}

/// The place of a voxel in a table of 2^bits entries along each axis, each of 2^shift voxels.
fn place(ijk: Coord, shift: u32, bits: u32) -> usize {
    let [x, y, z] = ijk.map(|x| ((x >> shift) & ((1 << bits) - 1)) as usize);
    (((x << bits) | y) << bits) | z
}

/// Where entry n of such a table lies in space.
fn step(origin: Coord, n: usize, bits: u32, shift: u32) -> Coord {
    let mask = (1 << bits) - 1;
    let along = [n >> (2 * bits), (n >> bits) & mask, n & mask];
    std::array::from_fn(|a| origin[a] + ((along[a] as i32) << shift))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytemuck::pod_read_unaligned(&bytes[at..at + 4])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytemuck::pod_read_unaligned(&bytes[at..at + 8])
}

fn coord_at(bytes: &[u8], at: usize) -> Coord {
    bytemuck::pod_read_unaligned(&bytes[at..at + 12])
}
