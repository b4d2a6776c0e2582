//! Kernels that are compiled side by side when a structure is made.
//!
//! A kernel is compiled at its first launch. The driver compiles one in 10 to 300 ms, and several at the same time on
//! several cores. So an operation that launches many first calls [`GeometryKernels::prepare_kernels`], which also loads them:
//! the operation may then be recorded. Tests compare the sets here with what is launched.

use std::sync::atomic::Ordering;

use cuda_safe::{Module, Result};

use crate::bvh::BuildMode;
use crate::geometry::{GeometryKernels, Source};

/// Something that launches several kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// A hash grid with bounds, of `f32` coordinates.
    BoundedGridF32,
    /// The same of `f64`.
    BoundedGridF64,
    /// A hash grid without bounds, of `f32` coordinates.
    UnboundedGridF32,
    /// The same of `f64`.
    UnboundedGridF64,
    /// A hierarchy from keys and bounds of its items, in [`BuildMode::Fast`].
    FastTree,
    /// The same in [`BuildMode::Quality`].
    QualityTree,
    /// The items of a hierarchy of boxes.
    Boxes,
    /// The items of a hierarchy of faces.
    Faces,
    /// The check of a mesh's indices.
    CheckedMesh,
    /// Neighbours and vertex normals of a mesh.
    MeshTopology,
    /// The report on a mesh.
    MeshReport,
    /// Nodes of a volume.
    VolumeNodes,
    /// Entries of a volume from voxels or leaves.
    IndexKeys,
    /// The same from points in the world.
    WorldKeys,
    /// Entries of a volume from an array.
    DenseKeys,
    /// Leaves of a volume with voxels.
    IndexLeaves,
    /// Leaves with voxels at points in the world.
    WorldLeaves,
    /// Leaves with all voxels active.
    TileLeaves,
    /// Leaves from an array.
    DenseLeaves,
    /// A field of blocks from a volume of `f32`.
    FieldF32,
    /// The same of `f64`.
    FieldF64,
    /// A surface in an array.
    DenseSurface,
    /// The same with normals.
    DenseSurfaceWithNormals,
    /// A surface in a field of blocks.
    BlockSurface,
    /// The same with normals.
    BlockSurfaceWithNormals,
}

/// Kernels of one source.
type Set = (Source, &'static [&'static str]);

const PAIRS_U32: Set = (Source::SORT_PAIRS_U32, &["sort_pairs_u32"]);
const PAIRS_U64: Set = (Source::SORT_PAIRS_U64, &["sort_pairs_u64"]);
const PLAN: Set = (Source::SORT_PAIRS_U64, &["sort_plan"]);

impl Operation {
    /// All of them.
    #[cfg(feature = "internals")]
    pub const ALL: [Self; 25] = [
        Self::BoundedGridF32,
        Self::BoundedGridF64,
        Self::UnboundedGridF32,
        Self::UnboundedGridF64,
        Self::FastTree,
        Self::QualityTree,
        Self::Boxes,
        Self::Faces,
        Self::CheckedMesh,
        Self::MeshTopology,
        Self::MeshReport,
        Self::VolumeNodes,
        Self::IndexKeys,
        Self::WorldKeys,
        Self::DenseKeys,
        Self::IndexLeaves,
        Self::WorldLeaves,
        Self::TileLeaves,
        Self::DenseLeaves,
        Self::FieldF32,
        Self::FieldF64,
        Self::DenseSurface,
        Self::DenseSurfaceWithNormals,
        Self::BlockSurface,
        Self::BlockSurfaceWithNormals,
    ];

    /// Returns the operation that makes a hierarchy.
    pub(crate) fn tree(builder: BuildMode) -> Self {
        match builder {
            BuildMode::Fast => Self::FastTree,
            BuildMode::Quality => Self::QualityTree,
        }
    }

    /// Returns the kernels that it launches.
    fn kernels(self) -> &'static [Set] {
        match self {
            Self::BoundedGridF32 => &[
                (
                    Source::HASH_GRID_BUILD_F32,
                    &["hash_grid_bounded_keys_f32", "hash_grid_bounded_finish_f32"],
                ),
                PAIRS_U32,
            ],
            Self::BoundedGridF64 => &[
                (
                    Source::HASH_GRID_BUILD_F64,
                    &["hash_grid_bounded_keys_f64", "hash_grid_bounded_finish_f64"],
                ),
                PAIRS_U32,
            ],
            Self::UnboundedGridF32 => &[
                (
                    Source::HASH_GRID_UNBOUNDED_F32,
                    &[
                        "hash_grid_clear_f32",
                        "hash_grid_bounds_f32",
                        "hash_grid_frame_f32",
                        "hash_grid_long_keys_f32",
                        "hash_grid_finish_f32",
                    ],
                ),
                PAIRS_U64,
                PLAN,
            ],
            Self::UnboundedGridF64 => &[
                (
                    Source::HASH_GRID_UNBOUNDED_F64,
                    &[
                        "hash_grid_clear_f64",
                        "hash_grid_bounds_f64",
                        "hash_grid_frame_f64",
                        "hash_grid_long_keys_f64",
                        "hash_grid_finish_f64",
                    ],
                ),
                PAIRS_U64,
                PLAN,
            ],
            Self::FastTree => {
                &[(Source::BVH_BUILD, &["bvh_keys", "bvh_radix", "bvh_collapse"]), PAIRS_U64, PLAN]
            }
            Self::QualityTree => &[
                (Source::BVH_BUILD, &["bvh_keys", "bvh_collapse"]),
                (Source::BVH_CLUSTER, &["bvh_cluster"]),
                PAIRS_U64,
                PLAN,
            ],
            Self::Boxes => &[(Source::BVH_BOXES, &["bvh_bound_boxes", "bvh_keep_boxes"])],
            Self::Faces => &[(Source::MESH_BUILD, &["mesh_bound", "mesh_triangles"])],
            Self::CheckedMesh => &[(Source::MESH_REPORT, &["mesh_validate"])],
            Self::MeshTopology => &[
                (
                    Source::MESH_TOPOLOGY,
                    &[
                        "mesh_vertex_normals",
                        "mesh_edge_keys",
                        "mesh_corner_keys",
                        "mesh_neighbors",
                        "mesh_closed",
                    ],
                ),
                (Source::SORT_COUNT, &["sort_count_u64", "sort_count_u32"]),
                PAIRS_U32,
                PAIRS_U64,
                PLAN,
            ],
            Self::MeshReport => &[
                (
                    Source::MESH_REPORT,
                    &[
                        "mesh_measure_faces",
                        "mesh_bound_points",
                        "mesh_count_points",
                        "mesh_count_edges",
                    ],
                ),
                (Source::MESH_TOPOLOGY, &["mesh_edge_keys"]),
                (Source::SORT_COUNT, &["sort_count_u64"]),
                (Source::REDUCE, &["reduce_add_f64"]),
                PAIRS_U64,
                PLAN,
            ],
            Self::VolumeNodes => &[
                (
                    Source::VOLUME_BUILD,
                    &["volume_order", "volume_uppers", "volume_lowers", "volume_root"],
                ),
                (Source::SORT_COUNT, &["sort_count_u64"]),
                (Source::VOLUME_DIRECTORY, &["volume_directory"]),
                PAIRS_U64,
                PLAN,
            ],
            Self::IndexKeys => &[(Source::VOLUME_BUILD, &["volume_index_keys"])],
            Self::WorldKeys => &[(Source::VOLUME_BUILD, &["volume_world_keys"])],
            Self::DenseKeys => &[(Source::VOLUME_DENSE, &["volume_judge"])],
            Self::IndexLeaves => &[(Source::VOLUME_BUILD, &["volume_index_leaves"])],
            Self::WorldLeaves => &[(Source::VOLUME_BUILD, &["volume_world_leaves"])],
            Self::TileLeaves => &[(Source::VOLUME_BUILD, &["volume_tile_leaves"])],
            Self::DenseLeaves => &[(Source::VOLUME_DENSE, &["volume_dense_leaves"])],
            Self::FieldF32 => &[
                (
                    Source::ISOSURFACE_VOLUME,
                    &[
                        "isosurface_tile_borders_f32",
                        "isosurface_list_root_f32",
                        "isosurface_fill_blocks_f32",
                        "isosurface_beside_leaves",
                        "isosurface_link_blocks",
                    ],
                ),
                (Source::VOLUME_LISTS, &["volume_list_leaves"]),
            ],
            Self::FieldF64 => &[
                (
                    Source::ISOSURFACE_VOLUME,
                    &[
                        "isosurface_tile_borders_f64",
                        "isosurface_list_root_f64",
                        "isosurface_fill_blocks_f64",
                        "isosurface_beside_leaves",
                        "isosurface_link_blocks",
                    ],
                ),
                (Source::VOLUME_LISTS, &["volume_list_leaves"]),
            ],
            Self::DenseSurface => &[(
                Source::ISOSURFACE_DENSE,
                &["isosurface_emit_dense", "isosurface_count_dense", "isosurface_signs_dense"],
            )],
            Self::DenseSurfaceWithNormals => &[(
                Source::ISOSURFACE_DENSE,
                &[
                    "isosurface_emit_normals_dense",
                    "isosurface_count_dense",
                    "isosurface_signs_dense",
                ],
            )],
            Self::BlockSurface => &[(
                Source::ISOSURFACE_BLOCKS,
                &["isosurface_emit_blocks", "isosurface_count_blocks", "isosurface_signs_blocks"],
            )],
            Self::BlockSurfaceWithNormals => &[(
                Source::ISOSURFACE_BLOCKS,
                &[
                    "isosurface_emit_normals_blocks",
                    "isosurface_count_blocks",
                    "isosurface_signs_blocks",
                ],
            )],
        }
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl GeometryKernels {
    /// Compiles and loads the kernels of these operations, on all cores, unless that was done.
    ///
    /// # Errors
    /// As [`Module::prepare_kernels`].
    pub(crate) fn prepare_kernels(&self, operations: &[Operation]) -> Result<()> {
        let prepared = self.prepared();
        let wanted = operations.iter().fold(0, |bits, operation| bits | operation.bit());
        let done = prepared.load(Ordering::Acquire);
        if wanted & !done == 0 {
            return Ok(());
        }
        let mut modules = Vec::new();
        for operation in operations.iter().filter(|operation| operation.bit() & !done != 0) {
            for (source, names) in operation.kernels() {
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

    /// Returns kernels of which none is prepared: each is compiled when it is launched. For this project's tests.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn unprepared(context: &cuda_safe::Context) -> Self {
        let kernels = Self::new(context);
        kernels.prepared().store(u32::MAX, Ordering::Release);
        kernels
    }

    /// Returns the names of the operation's kernels. For this project's tests.
    #[cfg(feature = "internals")]
    pub fn kernels_of(operation: Operation) -> impl Iterator<Item = &'static str> {
        operation.kernels().iter().flat_map(|(_, names)| names.iter().copied())
    }

    /// Returns the kernels that are compiled, as far as modules load them lazily. For this project's tests.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn compiled_kernels(&self) -> std::collections::BTreeSet<String> {
        self.loaded_modules().iter().flat_map(Module::compiled_kernels).collect()
    }
}
