//! Offsets in grids, as constants: independent of those that the library computes.

/// Fields of a grid's head.
pub mod head {
    pub const CHECKSUM: usize = 8;
    pub const VERSION: usize = 16;
    pub const GRID_SIZE: usize = 32;
    pub const NAME: usize = 40;
    pub const MAP: usize = 296;
    pub const CLASS: usize = 632;
    pub const TYPE: usize = 636;
    pub const BLIND_OFFSET: usize = 640;
    pub const BLIND_COUNT: usize = 648;
    pub const VALUE_COUNT: usize = 656;
    /// Offsets count from here: of leaves, lower nodes, upper nodes and the root.
    pub const TREE: usize = 672;
    pub const NODE_COUNTS: usize = 704;
    pub const TILE_COUNTS: usize = 716;
    pub const VOXEL_COUNT: usize = 728;
    pub const SIZE: usize = 736;
}

/// Bytes of the description of blind data.
pub const BLIND_SIZE: usize = 288;
pub const VALUE_MASK: usize = 32;
pub const UPPER_CHILDREN: usize = 4128;
pub const LOWER_CHILDREN: usize = 544;

pub const INDEX: u32 = 19;
pub const ON_INDEX: u32 = 20;

/// Sizes and offsets of nodes with one type of value.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub code: u32,
    pub root_size: usize,
    pub tile_value: usize,
    pub tile_size: usize,
    pub upper_table: usize,
    pub upper_size: usize,
    pub lower_table: usize,
    pub lower_size: usize,
    pub stride: usize,
    pub leaf_values: usize,
    pub leaf_size: usize,
}

/// The numbers of PNanoVDB.h, version 32.8, in the order of [`Layout`].
#[rustfmt::skip]
const TABLE: [[usize; 11]; 16] = [
    [1, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 2144],
    [2, 96, 24, 32, 8256, 270_400, 1088, 33_856, 8, 128, 4224],
    [3, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 1120],
    [4, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 2144],
    [5, 96, 24, 32, 8256, 270_400, 1088, 33_856, 8, 128, 4224],
    [6, 96, 20, 32, 8256, 532_544, 1088, 66_624, 16, 128, 6272],
    [7, 128, 24, 64, 8288, 794_720, 1120, 99_424, 24, 160, 12_448],
    [8, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 96],
    [10, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 2144],
    [11, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 160],
    [12, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 2144],
    [17, 96, 20, 64, 8288, 532_576, 1120, 66_656, 16, 128, 8320],
    [18, 160, 24, 64, 8320, 1_056_896, 1152, 132_224, 32, 160, 16_544],
    [19, 96, 24, 32, 8256, 270_400, 1088, 33_856, 8, 80, 96],
    [20, 96, 24, 32, 8256, 270_400, 1088, 33_856, 8, 80, 96],
    [26, 64, 20, 32, 8256, 270_400, 1088, 33_856, 8, 96, 608],
];

pub fn all() -> impl Iterator<Item = Layout> {
    TABLE.into_iter().map(|row| {
        let [code, root_size, tile_value, tile_size, upper_table, upper_size, rest @ ..] = row;
        let [lower_table, lower_size, stride, leaf_values, leaf_size] = rest;
        let code = code as u32;
        Layout {
            code,
            root_size,
            tile_value,
            tile_size,
            upper_table,
            upper_size,
            lower_table,
            lower_size,
            stride,
            leaf_values,
            leaf_size,
        }
    })
}

pub fn of(code: u32) -> Option<Layout> {
    all().find(|layout| layout.code == code)
}
