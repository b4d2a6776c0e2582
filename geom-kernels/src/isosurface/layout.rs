//! Types that host and device both declare: `device/geom/isosurface/{types,field,blocks,emit,volume_field}.cuh`.

use bytemuck::{Pod, Zeroable};

use crate::layout::device_repr;

/// `geom::isosurface::Signs`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Signs {
    pub(crate) inside: u32,
    pub(crate) known: u32,
}

/// `geom::isosurface::Edges`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Edges {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
    pub(crate) first: u32,
}

/// `geom::isosurface::Tile`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Tile {
    pub(crate) vertices_before: u64,
    pub(crate) faces_before: u64,
    pub(crate) vertices: u32,
    pub(crate) faces: u32,
}

/// `geom::isosurface::IndexMap`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct RawIndexMap {
    pub(crate) rows: [[f64; 4]; 3],
    pub(crate) normal_rows: [[f64; 3]; 3],
    pub(crate) mirrored: u32,
    pub(crate) unused: u32,
}

/// `geom::isosurface::DenseField`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawDenseField {
    pub(crate) values: u64,
    pub(crate) nx: u32,
    pub(crate) ny: u32,
    pub(crate) nz: u32,
    pub(crate) row_words: u32,
    pub(crate) words: u32,
    pub(crate) unused: u32,
}

/// `geom::isosurface::Findings`.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Findings {
    pub(crate) places: u64,
    pub(crate) status: u64,
    pub(crate) uppers: u64,
    pub(crate) has_tiles: u64,
}

/// `geom::isosurface::BlockField`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RawBlockField {
    pub(crate) values: u64,
    pub(crate) origins: u64,
    pub(crate) neighbors: u64,
    pub(crate) blocks: u32,
    pub(crate) stride: u32,
    pub(crate) words: u32,
    pub(crate) unused: u32,
}

/// `geom::isosurface::Output`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawOutput {
    pub(crate) vertices: u64,
    pub(crate) normals: u64,
    pub(crate) faces: u64,
    pub(crate) vertex_capacity: u32,
    pub(crate) face_capacity: u32,
}

device_repr!(RawIndexMap, RawDenseField, Findings, RawBlockField, RawOutput);
