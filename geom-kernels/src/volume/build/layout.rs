//! The arguments of kernels that build volumes, as `device/geom/volume/` declares them.

use bytemuck::{Pod, Zeroable};
use nanovdb::{Map, ValueType};

use crate::layout::device_repr;

/// `geom::volume::NodeLayout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RawNodes {
    pub(crate) value_bytes: u32,
    pub(crate) value_align: u32,
    pub(crate) entry_bytes: u32,
    pub(crate) root_background: u32,
    pub(crate) root_bytes: u32,
    pub(crate) tile_value: u32,
    pub(crate) tile_bytes: u32,
    pub(crate) upper_table: u32,
    pub(crate) upper_bytes: u32,
    pub(crate) lower_table: u32,
    pub(crate) lower_bytes: u32,
    pub(crate) leaf_values: u32,
    pub(crate) leaf_bytes: u32,
    pub(crate) leaf_keeps: u32,
    pub(crate) number: u32,
    pub(crate) numbers: u32,
}

impl RawNodes {
    pub(crate) fn of(value_type: ValueType) -> Self {
        use ValueType as V;
        let layout = value_type.layout();
        // The alignment of a value, the type of its numbers (`number_f32`, ...) and how many there are.
        let (align, number, numbers) = match value_type {
            V::F32 => (4, 0, 1),
            V::F64 => (8, 1, 1),
            V::I16 => (2, 2, 1),
            V::I32 => (4, 3, 1),
            V::I64 => (8, 4, 1),
            V::U8 | V::Bool | V::Mask => (1, 5, 1),
            V::U32 => (4, 6, 1),
            V::Vec3F => (4, 0, 3),
            V::Vec3D => (8, 1, 3),
            V::Vec4F => (4, 0, 4),
            V::Vec4D => (8, 1, 4),
            V::Rgba8 => (4, 5, 4),
            V::Index | V::OnIndex => (8, 4, 1),
        };
        let leaf_keeps = match value_type {
            V::Bool => 1,
            V::Mask => 2,
            V::Index => 3,
            V::OnIndex => 4,
            _ => 0,
        };
        // All sizes are below 2^21.
        Self {
            value_bytes: layout.value_size as u32,
            value_align: align,
            entry_bytes: layout.table_stride as u32,
            root_background: layout.root_background as u32,
            root_bytes: layout.root_size as u32,
            tile_value: layout.tile_value as u32,
            tile_bytes: layout.tile_size as u32,
            upper_table: layout.upper_table as u32,
            upper_bytes: layout.upper_size as u32,
            lower_table: layout.lower_table as u32,
            lower_bytes: layout.lower_size as u32,
            leaf_values: layout.leaf_values as u32,
            leaf_bytes: layout.leaf_size as u32,
            leaf_keeps,
            number,
            numbers,
        }
    }
}

/// `geom::volume::Build`; addresses of device memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawBuild {
    pub(crate) layout: RawNodes,
    pub(crate) state: u64,
    pub(crate) keys: [u64; 2],
    pub(crate) places: [u64; 2],
    pub(crate) which: u64,
    pub(crate) asks: u64,
    pub(crate) leaf_keys: u64,
    pub(crate) leaf_first: u64,
    pub(crate) leaf_active: u64,
    pub(crate) lower_keys: u64,
    pub(crate) lower_first: u64,
    pub(crate) lower_entry: u64,
    pub(crate) upper_keys: u64,
    pub(crate) upper_first: u64,
    pub(crate) constants: u64,
    pub(crate) head: u64,
    pub(crate) chains: u64,
    pub(crate) before: u64,
    pub(crate) scan: u64,
    pub(crate) grid: u64,
    pub(crate) grid_bytes: u64,
    pub(crate) upper_at: u64,
    pub(crate) lower_at: u64,
    pub(crate) leaf_at: u64,
    pub(crate) leaf_room: u32,
    pub(crate) lower_room: u32,
    pub(crate) upper_room: u32,
    pub(crate) n: u32,
    pub(crate) head_bytes: u32,
    pub(crate) unused: u32,
}

/// `geom::volume::WorldPoints`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawWorld {
    pub(crate) data: u64,
    pub(crate) inverse: [[f64; 3]; 3],
    pub(crate) origin: [f64; 3],
}

impl RawWorld {
    pub(crate) fn new(data: u64, map: &Map) -> Self {
        Self { data, inverse: map.inverse_matrix(), origin: map.translation() }
    }
}

/// `geom::volume::Tolerance`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawTolerance {
    pub(crate) real: f64,
    pub(crate) whole: u64,
}

/// `geom::volume::DenseField`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawDense {
    pub(crate) values: u64,
    pub(crate) origin: [i32; 3],
    pub(crate) size: [u32; 3],
    pub(crate) tolerance: RawTolerance,
    pub(crate) width: f64,
    pub(crate) keep: u32,
    pub(crate) by_leaves: u32,
}

/// `geom::volume::LeafLattice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RawLattice {
    pub(crate) first: [i32; 3],
    pub(crate) count: [u32; 3],
}

/// `geom::volume::Leaves`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawLeaves {
    pub(crate) grid: u64,
    pub(crate) bytes: u32,
    pub(crate) unused: u32,
}

/// `geom::volume::BuildState`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct BuildState {
    pub(crate) status: u32,
    pub(crate) invalid: u32,
    pub(crate) leaves: u32,
    pub(crate) lower: u32,
    pub(crate) upper: u32,
    pub(crate) entries: u32,
    pub(crate) voxels: u64,
    pub(crate) values: u64,
    pub(crate) unused: [u32; 6],
}

device_repr! {
    RawNodes, RawBuild, RawWorld, RawTolerance, RawDense, RawLattice, RawLeaves, BuildState,
}

/// The result of the last build in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildStatus {
    /// Whether more leaves are needed than the capacity.
    pub leaf_capacity_exceeded: bool,
    /// Whether more lower nodes are needed than the capacity.
    pub lower_capacity_exceeded: bool,
    /// Whether more upper nodes are needed than the capacity.
    pub upper_capacity_exceeded: bool,
    /// The entries that were left out: with a coordinate that is not finite, or not from -2^23 to below 2^23.
    pub invalid_entries: u32,
    /// The number of leaves that are needed, whether they fit or not.
    pub leaves: u32,
    /// The number of lower nodes that are needed.
    pub lower: u32,
    /// The number of upper nodes that are needed.
    pub upper: u32,
    /// The number of active voxels, if all nodes fit.
    pub active_voxels: u64,
}

impl BuildStatus {
    /// Returns whether all nodes fit. If not, the volume is unchanged.
    #[must_use]
    pub fn is_built(&self) -> bool {
        let Self { leaf_capacity_exceeded: leaf, lower_capacity_exceeded: lower, .. } = *self;
        !leaf && !lower && !self.upper_capacity_exceeded
    }
}

impl From<BuildState> for BuildStatus {
    fn from(state: BuildState) -> Self {
        Self {
            leaf_capacity_exceeded: state.status & 1 != 0,
            lower_capacity_exceeded: state.status & 2 != 0,
            upper_capacity_exceeded: state.status & 4 != 0,
            invalid_entries: state.invalid,
            leaves: state.leaves,
            lower: state.lower,
            upper: state.upper,
            active_voxels: state.voxels,
        }
    }
}
