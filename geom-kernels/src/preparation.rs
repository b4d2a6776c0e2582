//! Kernels that are compiled in parallel when a structure is created.
//!
//! A kernel is compiled at its first launch. The driver compiles one in 10 to 300 ms, and several at the same time on
//! several cores. So an operation that launches many first calls [`GeometryKernels::prepare_kernels`], which also loads
//! them: the operation may then be recorded. Tests compare the sets here with what is launched.

use std::sync::atomic::Ordering;

use cuda_safe::{Module, Result};

use crate::bvh::BuildMode;
use crate::geometry::{GeometryKernels, Source};

/// An operation that launches several kernels. Each has a separate constant, so that a program embeds only the
/// modules of the operations that it uses.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    bit: u32,
    kernels: &'static [Set],
}

/// A source and the names of kernels in it.
type Set = (Source, &'static [&'static str]);

/// Declares the constants of [`Operation`]: sources and the names of their kernels.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = [$(($source:ident, [$($kernel:literal),+ $(,)?])),+ $(,)?];)+) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "named after the constants")]
        enum Index {
            $($name,)+
        }

        impl Operation {
            $(
                $(#[$doc])*
                pub const $name: Self = Self {
                    bit: 1 << Index::$name as u32,
                    kernels: &[$((Source::$source, &[$($kernel),+])),+],
                };
            )+

            /// All operations: for tests only, since a program that uses this embeds all their modules.
            #[cfg(feature = "internals")]
            #[doc(hidden)]
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

operations! {
    /// A hash grid with bounds, of `f32` coordinates.
    BOUNDED_GRID_F32 = [
        (HASH_GRID_BUILD_F32, ["hash_grid_bounded_keys_f32", "hash_grid_bounded_finish_f32"]),
        (SORT_PAIRS_U32, ["sort_pairs_u32"]),
    ];
    /// The same of `f64`.
    BOUNDED_GRID_F64 = [
        (HASH_GRID_BUILD_F64, ["hash_grid_bounded_keys_f64", "hash_grid_bounded_finish_f64"]),
        (SORT_PAIRS_U32, ["sort_pairs_u32"]),
    ];
    /// A hash grid without bounds, of `f32` coordinates.
    UNBOUNDED_GRID_F32 = [
        (HASH_GRID_UNBOUNDED_F32, [
            "hash_grid_clear_f32", "hash_grid_bounds_f32", "hash_grid_frame_f32", "hash_grid_long_keys_f32",
            "hash_grid_finish_f32",
        ]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// The same of `f64`.
    UNBOUNDED_GRID_F64 = [
        (HASH_GRID_UNBOUNDED_F64, [
            "hash_grid_clear_f64", "hash_grid_bounds_f64", "hash_grid_frame_f64", "hash_grid_long_keys_f64",
            "hash_grid_finish_f64",
        ]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// A hierarchy from keys and bounds of its items, in [`BuildMode::Fast`].
    FAST_TREE = [
        (BVH_BUILD, ["bvh_keys", "bvh_radix", "bvh_collapse"]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// The same in [`BuildMode::Quality`].
    QUALITY_TREE = [
        (BVH_BUILD, ["bvh_keys", "bvh_collapse"]),
        (BVH_CLUSTER, ["bvh_cluster"]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// The items of a hierarchy of boxes.
    BOXES = [
        (BVH_BOXES, ["bvh_bound_boxes", "bvh_keep_boxes"]),
    ];
    /// The items of a hierarchy of faces.
    FACES = [
        (MESH_BUILD, ["mesh_bound", "mesh_triangles"]),
    ];
    /// The check of a mesh's indices.
    CHECKED_MESH = [
        (MESH_REPORT, ["mesh_validate"]),
    ];
    /// Neighbours and vertex normals of a mesh.
    MESH_TOPOLOGY = [
        (MESH_TOPOLOGY, [
            "mesh_vertex_normals", "mesh_edge_keys", "mesh_corner_keys", "mesh_neighbors", "mesh_closed",
        ]),
        (SORT_COUNT, ["sort_count_u64", "sort_count_u32"]),
        (SORT_PAIRS_U32, ["sort_pairs_u32"]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// The report on a mesh.
    MESH_REPORT = [
        (MESH_REPORT, ["mesh_measure_faces", "mesh_bound_points", "mesh_count_points", "mesh_count_edges"]),
        (MESH_TOPOLOGY, ["mesh_edge_keys"]),
        (SORT_COUNT, ["sort_count_u64"]),
        (REDUCE, ["reduce_add_f64"]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// Nodes of a volume.
    VOLUME_NODES = [
        (VOLUME_BUILD, ["volume_order", "volume_uppers", "volume_lowers", "volume_root"]),
        (SORT_COUNT, ["sort_count_u64"]),
        (VOLUME_DIRECTORY, ["volume_directory"]),
        (SORT_PAIRS_U64, ["sort_pairs_u64", "sort_plan"]),
    ];
    /// Entries of a volume from voxels or leaves.
    INDEX_KEYS = [
        (VOLUME_BUILD, ["volume_index_keys"]),
    ];
    /// The same from points in the world.
    WORLD_KEYS = [
        (VOLUME_BUILD, ["volume_world_keys"]),
    ];
    /// Entries of a volume from an array.
    DENSE_KEYS = [
        (VOLUME_DENSE, ["volume_judge"]),
    ];
    /// Leaves of a volume with voxels.
    INDEX_LEAVES = [
        (VOLUME_BUILD, ["volume_index_leaves"]),
    ];
    /// Leaves with voxels at points in the world.
    WORLD_LEAVES = [
        (VOLUME_BUILD, ["volume_world_leaves"]),
    ];
    /// Leaves with all voxels active.
    TILE_LEAVES = [
        (VOLUME_BUILD, ["volume_tile_leaves"]),
    ];
    /// Leaves from an array.
    DENSE_LEAVES = [
        (VOLUME_DENSE, ["volume_dense_leaves"]),
    ];
    /// A field of blocks from a volume of `f32`.
    FIELD_F32 = [
        (ISOSURFACE_VOLUME, [
            "isosurface_tile_borders_f32", "isosurface_list_root_f32", "isosurface_fill_blocks_f32",
            "isosurface_beside_leaves", "isosurface_link_blocks",
        ]),
        (VOLUME_LISTS, ["volume_list_leaves"]),
    ];
    /// The same of `f64`.
    FIELD_F64 = [
        (ISOSURFACE_VOLUME, [
            "isosurface_tile_borders_f64", "isosurface_list_root_f64", "isosurface_fill_blocks_f64",
            "isosurface_beside_leaves", "isosurface_link_blocks",
        ]),
        (VOLUME_LISTS, ["volume_list_leaves"]),
    ];
    /// A surface in an array.
    DENSE_SURFACE = [
        (ISOSURFACE_DENSE, ["isosurface_emit_dense", "isosurface_count_dense", "isosurface_signs_dense"]),
    ];
    /// The same with normals.
    DENSE_SURFACE_WITH_NORMALS = [
        (ISOSURFACE_DENSE, [
            "isosurface_emit_normals_dense", "isosurface_count_dense", "isosurface_signs_dense",
        ]),
    ];
    /// A surface in a field of blocks.
    BLOCK_SURFACE = [
        (ISOSURFACE_BLOCKS, ["isosurface_emit_blocks", "isosurface_count_blocks", "isosurface_signs_blocks"]),
    ];
    /// The same with normals.
    BLOCK_SURFACE_WITH_NORMALS = [
        (ISOSURFACE_BLOCKS, [
            "isosurface_emit_normals_blocks", "isosurface_count_blocks", "isosurface_signs_blocks",
        ]),
    ];
}

impl Operation {
    /// Returns the operation that makes a hierarchy.
    pub(crate) fn tree(builder: BuildMode) -> Self {
        match builder {
            BuildMode::Fast => Self::FAST_TREE,
            BuildMode::Quality => Self::QUALITY_TREE,
        }
    }
}

impl GeometryKernels {
    /// Compiles and loads the kernels of these operations, on all cores, unless they are loaded.
    ///
    /// # Errors
    /// As [`Module::prepare_kernels`].
    pub(crate) fn prepare_kernels(&self, operations: &[Operation]) -> Result<()> {
        let prepared = self.prepared();
        let wanted = operations.iter().fold(0, |bits, operation| bits | operation.bit);
        let done = prepared.load(Ordering::Acquire);
        if wanted & !done == 0 {
            return Ok(());
        }
        let mut modules = Vec::new();
        for operation in operations.iter().filter(|operation| operation.bit & !done != 0) {
            for (source, names) in operation.kernels {
                modules.push((self.module(*source)?, *names));
            }
        }
        Module::prepare_kernels(
            modules
                .iter()
                .flat_map(|(module, names)| names.iter().map(move |name| (module, *name))),
        )?;
        prepared.fetch_or(wanted, Ordering::Release);
        Ok(())
    }

    /// Returns kernels without preparation: each is compiled when it is launched. For this project's tests.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn unprepared(context: &cuda_safe::Context) -> Self {
        let kernels = Self::new(context);
        kernels.prepared().store(u32::MAX, Ordering::Release);
        kernels
    }

    /// Returns the names of the operation's kernels. For this project's tests.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn kernels_of(operation: Operation) -> impl Iterator<Item = &'static str> {
        operation.kernels.iter().flat_map(|(_, names)| names.iter().copied())
    }

    /// Returns the names of the compiled kernels, of modules that are loaded lazily. For this project's tests.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn compiled_kernels(&self) -> std::collections::BTreeSet<String> {
        self.loaded_modules().iter().flat_map(Module::compiled_kernels).collect()
    }
}
