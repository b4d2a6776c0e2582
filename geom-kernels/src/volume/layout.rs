//! Types in device memory and of kernel arguments, as `device/geom/volume/` declares them.

use bytemuck::{Pod, Zeroable};
use cuda_safe::DeviceRepr;

/// The offsets of a grid's tree and of its numbers of nodes, and the end of its head: as in `geom/volume/types.cuh`.
pub(crate) const TREE: usize = 672;
pub(crate) const TREE_COUNTS: usize = TREE + 32;
pub(crate) const TREE_END: usize = TREE + 64;

/// `geom::VolumeMap`: the map of a grid, as stored from byte 296 of it on.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RawMap {
    pub m: [f32; 9],
    pub inverse: [f32; 9],
    pub v: [f32; 3],
    pub unused: u32,
    pub m64: [f64; 9],
    pub inverse64: [f64; 9],
    pub v64: [f64; 3],
}

impl From<&nanovdb::Map> for RawMap {
    fn from(map: &nanovdb::Map) -> Self {
        fn flat<T: Copy + Default>(rows: [[T; 3]; 3]) -> [T; 9] {
            let mut all = [T::default(); 9];
            for (to, from) in all.iter_mut().zip(rows.iter().flatten()) {
                *to = *from;
            }
            all
        }
        Self {
            m: flat(map.matrix_f32()),
            inverse: flat(map.inverse_matrix_f32()),
            v: map.translation_f32(),
            // The taper, which is 1 for all maps.
            unused: 1.0f32.to_bits(),
            m64: flat(map.matrix()),
            inverse64: flat(map.inverse_matrix()),
            v64: map.translation(),
        }
    }
}

/// `geom::Volume`: the kernel argument for a volume.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RawVolume {
    pub(crate) grid: u64,
    pub(crate) root: u64,
    pub(crate) directory: u64,
    pub(crate) map: RawMap,
}

// SAFETY: repr(C); LAYOUTS in src/layout/generated.rs has it as geom::Volume, and geom::VolumeMap.
unsafe impl DeviceRepr for RawVolume {}
