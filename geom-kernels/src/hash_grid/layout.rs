//! Types in device memory and of kernel arguments, as `device/geom/hash_grid/` declares them.

use bytemuck::{AnyBitPattern, Pod, Zeroable};
use cuda_safe::DeviceRepr;

use crate::layout::device_repr;
use crate::real::Real;

/// The kinds of lookup: `GridMode`.
pub(crate) const DENSE: u32 = 0;
pub(crate) const ROWS: u32 = 1;
pub(crate) const HASHED: u32 = 2;

/// `geom::GridHeader<T>`: written by the build, read by every query.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Header<T> {
    pub(crate) row_origin: [f64; 3],
    pub(crate) row_inverse: [f64; 3],
    pub(crate) row_cells: [i64; 3],
    pub(crate) no_key: u64,
    pub(crate) origin: [T; 3],
    pub(crate) inverse: [T; 3],
    pub(crate) size: [T; 3],
    pub(crate) margin: [T; 3],
    pub(crate) period: [T; 3],
    pub(crate) inverse_period: [T; 3],
    pub(crate) radius: T,
    pub(crate) cells: [u32; 3],
    pub(crate) cells_of_group: u32,
    pub(crate) groups: u32,
    pub(crate) mode: u32,
    pub(crate) periodic: u32,
    pub(crate) points: u32,
    pub(crate) left_out: u32,
    pub(crate) bits: [u32; 3],
}

// SAFETY: numbers, for which all zeros are valid.
unsafe impl<T: Real> Zeroable for Header<T> {}
// SAFETY: numbers, for which any bits are valid, and padding at most.
unsafe impl<T: Real> AnyBitPattern for Header<T> {}
// SAFETY: repr(C), and the fields of geom::GridHeader in the same order.
unsafe impl<T: Real> DeviceRepr for Header<T> {}

/// `geom::HashGrid<T>`: the kernel argument for a grid.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RawHashGrid {
    pub(crate) header: u64,
    pub(crate) points: u64,
    pub(crate) groups: u64,
    pub(crate) starts: u64,
    pub(crate) keys: u64,
    pub(crate) table: u64,
    pub(crate) table_mask: u32,
    pub(crate) length: u32,
}

/// `geom::grid::Queries<T>`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawQueries<T> {
    pub(crate) ordered: u64,
    pub(crate) data: u64,
    pub(crate) stride: u64,
    pub(crate) component: u64,
    pub(crate) radii: u64,
    pub(crate) groups: u64,
    pub(crate) radius: T,
    pub(crate) length: u32,
    pub(crate) groups_in_order: u32,
}

// SAFETY: repr(C), and the fields of geom::grid::Queries in the same order.
unsafe impl<T: Real> DeviceRepr for RawQueries<T> {}

/// `geom::grid::FrameRequest`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FrameRequest {
    pub(crate) cells_capacity: u32,
    pub(crate) groups: u32,
    pub(crate) x_split: u32,
    pub(crate) unused: u32,
}

/// Returns the size of a `geom::GridPoint<T>`.
pub(crate) const fn point_size<T: Real>() -> usize {
    4 * size_of::<T>()
}

const _: () = assert!(point_size::<f32>() == size_of::<GridPoint32>());
const _: () = assert!(point_size::<f64>() == size_of::<GridPoint64>());

/// A point as the grid keeps it, in cell order: `geom::GridPoint<float>`.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct GridPoint32 {
    /// The position; in a periodic box that of its image. NaN if the point was left out.
    pub position: [f32; 3],
    /// The index in the array that the grid was built from.
    pub index: u32,
}

/// A point as the grid keeps it, in cell order: `geom::GridPoint<double>`.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct GridPoint64 {
    /// The position; in a periodic box that of its image. NaN if the point was left out.
    pub position: [f64; 3],
    /// The index in the array that the grid was built from.
    pub index: u32,
    /// Padding.
    pub unused: u32,
}

device_repr!(RawHashGrid, FrameRequest, GridPoint32, GridPoint64);
