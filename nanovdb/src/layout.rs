//! Where things lie in the nodes of a grid, for each type of value.
//!
//! Numbers are those of NanoVDB's ABI 32, which C++ compilers make from structures: a value is
//! aligned to its own components, nodes and their tables to 32 bytes.

use crate::ValueType;

/// Sizes and offsets in the nodes of grids with one type of value, in bytes unless said otherwise.
/// Offsets count from the node's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLayout {
    /// Bytes of a value in the root, in tiles, minima and maxima.
    pub value_size: usize,
    /// Bytes of an average and of a standard deviation.
    pub stat_size: usize,

    /// The background in the root.
    pub root_background: usize,
    /// The least active value of all in the root.
    pub root_min: usize,
    /// The greatest.
    pub root_max: usize,
    /// Their average.
    pub root_average: usize,
    /// Their standard deviation.
    pub root_stddev: usize,
    /// Bytes of the root without its entries, which lie behind it.
    pub root_size: usize,
    /// Bytes of an entry of the root.
    pub tile_size: usize,
    /// The value in an entry of the root.
    pub tile_value: usize,

    /// The least active value in an upper node.
    pub upper_min: usize,
    /// The greatest.
    pub upper_max: usize,
    /// Their average.
    pub upper_average: usize,
    /// Their standard deviation.
    pub upper_stddev: usize,
    /// The table of 32^3 values or offsets of children.
    pub upper_table: usize,
    /// Bytes of an upper node.
    pub upper_size: usize,

    /// The least active value in a lower node.
    pub lower_min: usize,
    /// The greatest.
    pub lower_max: usize,
    /// Their average.
    pub lower_average: usize,
    /// Their standard deviation.
    pub lower_stddev: usize,
    /// The table of 16^3 values or offsets of children.
    pub lower_table: usize,
    /// Bytes of a lower node.
    pub lower_size: usize,

    /// Bytes from one entry of the tables to the next.
    pub table_stride: usize,

    /// The least active value in a leaf. Leaves of masks, bools and indices have no statistics.
    pub leaf_min: usize,
    /// The greatest.
    pub leaf_max: usize,
    /// Their average.
    pub leaf_average: usize,
    /// Their standard deviation.
    pub leaf_stddev: usize,
    /// The 512 values in a leaf. In leaves of indices the first index (u64) and behind it the packed
    /// counts of active voxels (u64).
    pub leaf_values: usize,
    /// Bits of a value in a leaf: 0 for masks and indices, 1 for bools.
    pub value_bits: usize,
    /// Bytes of a leaf.
    pub leaf_size: usize,
}

/// Returns the least multiple of `to` that is not below `n`.
const fn up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

/// The contents of a leaf.
enum Leaf {
    /// Statistics and values.
    Values,
    /// A second mask.
    Bits,
    /// Nothing more.
    Nothing,
    /// An index and counts.
    Indices,
}

/// Minimum, maximum, average, deviation, and what comes then.
const fn statistics(at: usize, value: [usize; 2], stat: usize) -> [usize; 5] {
    let min = up(at, value[1]);
    let max = min + value[0];
    let average = up(max + value[0], stat);
    let stddev = average + stat;
    [min, max, average, stddev, up(stddev + stat, 32)]
}

/// Returns the layout for values of a size and an alignment, and statistics of a size.
const fn layout(value: [usize; 2], stat: usize, leaf: Leaf) -> NodeLayout {
    let [value_size, alignment] = value;
    let background = up(28, alignment);
    let root = statistics(background + value_size, value, stat);
    let tile_value = up(20, alignment);
    let upper = statistics(8224, value, stat);
    let lower = statistics(1056, value, stat);
    let in_leaf = statistics(80, value, stat);
    let table_stride = if value_size > 8 { up(value_size, 8) } else { 8 };
    let (stats, leaf_values, value_bits, leaf_size) = match leaf {
        Leaf::Values => {
            (in_leaf, in_leaf[4], 8 * value_size, up(in_leaf[4] + 512 * value_size, 32))
        }
        Leaf::Bits => ([80; 5], 80, 1, 160),
        Leaf::Nothing | Leaf::Indices => ([80; 5], 80, 0, 96),
    };
    NodeLayout {
        value_size,
        stat_size: stat,
        root_background: background,
        root_min: root[0],
        root_max: root[1],
        root_average: root[2],
        root_stddev: root[3],
        root_size: root[4],
        tile_size: up(tile_value + value_size, 32),
        tile_value,
        upper_min: upper[0],
        upper_max: upper[1],
        upper_average: upper[2],
        upper_stddev: upper[3],
        upper_table: upper[4],
        upper_size: upper[4] + 32_768 * table_stride,
        lower_min: lower[0],
        lower_max: lower[1],
        lower_average: lower[2],
        lower_stddev: lower[3],
        lower_table: lower[4],
        lower_size: lower[4] + 4096 * table_stride,
        table_stride,
        leaf_min: stats[0],
        leaf_max: stats[1],
        leaf_average: stats[2],
        leaf_stddev: stats[3],
        leaf_values,
        value_bits,
        leaf_size,
    }
}

static LAYOUT_8: NodeLayout = layout([1, 1], 4, Leaf::Values);
static LAYOUT_16: NodeLayout = layout([2, 2], 4, Leaf::Values);
static LAYOUT_32: NodeLayout = layout([4, 4], 4, Leaf::Values);
static LAYOUT_64: NodeLayout = layout([8, 8], 8, Leaf::Values);
static LAYOUT_3X32: NodeLayout = layout([12, 4], 4, Leaf::Values);
static LAYOUT_3X64: NodeLayout = layout([24, 8], 8, Leaf::Values);
static LAYOUT_4X32: NodeLayout = layout([16, 4], 4, Leaf::Values);
static LAYOUT_4X64: NodeLayout = layout([32, 8], 8, Leaf::Values);
static LAYOUT_MASK: NodeLayout = layout([1, 1], 1, Leaf::Nothing);
static LAYOUT_BOOL: NodeLayout = layout([1, 1], 1, Leaf::Bits);
static LAYOUT_INDEX: NodeLayout = layout([8, 8], 8, Leaf::Indices);

pub(crate) fn of(value_type: ValueType) -> &'static NodeLayout {
    match value_type {
        ValueType::U8 => &LAYOUT_8,
        ValueType::I16 => &LAYOUT_16,
        ValueType::F32 | ValueType::I32 | ValueType::U32 | ValueType::Rgba8 => &LAYOUT_32,
        ValueType::F64 | ValueType::I64 => &LAYOUT_64,
        ValueType::Vec3F => &LAYOUT_3X32,
        ValueType::Vec3D => &LAYOUT_3X64,
        ValueType::Vec4F => &LAYOUT_4X32,
        ValueType::Vec4D => &LAYOUT_4X64,
        ValueType::Mask => &LAYOUT_MASK,
        ValueType::Bool => &LAYOUT_BOOL,
        ValueType::Index | ValueType::OnIndex => &LAYOUT_INDEX,
    }
}

/// Where the parts of a grid's head lie, which is the same for all types: 672 bytes of the grid,
/// then 64 of the tree.
pub(crate) mod head {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const CHECKSUM: usize = 8;
    pub(crate) const VERSION: usize = 16;
    pub(crate) const FLAGS: usize = 20;
    pub(crate) const GRID_INDEX: usize = 24;
    pub(crate) const GRID_COUNT: usize = 28;
    pub(crate) const GRID_SIZE: usize = 32;
    pub(crate) const NAME: usize = 40;
    pub(crate) const NAME_SIZE: usize = 256;
    pub(crate) const MAP: usize = 296;
    pub(crate) const WORLD_BOX: usize = 560;
    pub(crate) const VOXEL_SIZE: usize = 608;
    pub(crate) const CLASS: usize = 632;
    pub(crate) const TYPE: usize = 636;
    pub(crate) const BLIND_OFFSET: usize = 640;
    pub(crate) const BLIND_COUNT: usize = 648;
    /// How many values the indices of an index grid are for.
    pub(crate) const VALUE_COUNT: usize = 656;
    /// The tree; the offsets of nodes, from leaves to the root, count from here.
    pub(crate) const TREE: usize = 672;
    pub(crate) const NODE_COUNTS: usize = 704;
    pub(crate) const TILE_COUNTS: usize = 716;
    pub(crate) const VOXEL_COUNT: usize = 728;
    /// Bytes of the grid's and the tree's head.
    pub(crate) const SIZE: usize = 736;
    /// Bytes of the description of blind data.
    pub(crate) const BLIND_SIZE: usize = 288;
}

/// Where the parts of nodes lie that are the same for all types.
pub(crate) mod node {
    pub(crate) const TABLE_SIZE: usize = 24;
    pub(crate) const FLAGS: usize = 24;
    pub(crate) const VALUE_MASK: usize = 32;
    pub(crate) const UPPER_CHILDREN: usize = 4128;
    pub(crate) const LOWER_CHILDREN: usize = 544;
    pub(crate) const UPPER_ENTRIES: usize = 32_768;
    pub(crate) const LOWER_ENTRIES: usize = 4096;
    pub(crate) const LEAF_BOX: usize = 12;
    pub(crate) const LEAF_FLAGS: usize = 15;
    pub(crate) const LEAF_MASK: usize = 16;
    /// Node flag: the box bounds the active values.
    pub(crate) const HAS_BOX: u8 = 2;
    /// Leaf flag of index grids: four indices of statistics follow those of the values.
    pub(crate) const HAS_INDEXED_STATISTICS: u8 = 16;
    pub(crate) const TILE_CHILD: usize = 8;
    pub(crate) const TILE_STATE: usize = 16;
}

/// Flags of a grid.
pub(crate) mod flags {
    pub(crate) const LONG_NAME: u32 = 1;
    pub(crate) const BOX: u32 = 2;
    pub(crate) const MIN_MAX: u32 = 4;
    pub(crate) const AVERAGE: u32 = 8;
    pub(crate) const STDDEV: u32 = 16;
    pub(crate) const BREADTH_FIRST: u32 = 32;
}
