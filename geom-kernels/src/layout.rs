//! What host and device both declare. Each layout is stated in three places: the device header asserts
//! it (`geom/layout.cuh`), [`layout!`] asserts it of the Rust type, and a test compiles what is listed
//! here against the headers. So neither side can change alone.

use bytemuck::{Pod, Zeroable};
use cuda_safe::DeviceRepr;

use crate::bvh::layout as bvh;
use crate::hash_grid::layout::{FrameRequest, Header, RawHashGrid, RawPoints, RawQueries};
use crate::hash_grid::{GridPoint32, GridPoint64};
use crate::isosurface::{Counts as IsosurfaceCounts, layout as isosurface};
use crate::mesh::layout::{MeshTriangle, RawMesh, RawPointQueries, RawSurface};
use crate::mesh::{ClosestPoint, Counts, FacePoint, RayHit, winding};
use crate::ray::Ray;
use crate::volume::build as volume;
use crate::volume::{RawIndexedValues, RawMap, RawSamples, RawVolume, VolumeHit};

/// A box along the axes, closed: its faces belong to it. `geom::aabb<T>` of `geom/math/box.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct Aabb<T> {
    /// The least coordinates.
    pub lower: [T; 3],
    /// The greatest coordinates. The box is empty if one is less than its `lower`.
    pub upper: [T; 3],
}

/// For one type of coordinates.
macro_rules! of {
    ($float:ty) => {
        impl Aabb<$float> {
            /// The empty box that grows to anything: from infinity to minus infinity.
            pub const EMPTY: Self =
                Self { lower: [<$float>::INFINITY; 3], upper: [<$float>::NEG_INFINITY; 3] };
        }
        // SAFETY: six numbers of which zero is one.
        unsafe impl Zeroable for Aabb<$float> {}
        // SAFETY: repr(C), six numbers without padding, of which any bits are one.
        unsafe impl Pod for Aabb<$float> {}
        // SAFETY: repr(C); LAYOUTS has it as geom::aabb.
        unsafe impl DeviceRepr for Aabb<$float> {}
    };
}
of!(f32);
of!(f64);

/// How a structure lies in memory, in bytes.
#[cfg_attr(
    not(feature = "internals"),
    expect(dead_code, reason = "its assertions are what counts")
)]
#[derive(Debug)]
pub struct Layout {
    /// In C++.
    pub name: &'static str,
    /// The header that declares it.
    pub header: &'static str,
    /// The size in bytes.
    pub size: usize,
    /// The alignment in bytes.
    pub align: usize,
    /// Names and offsets.
    pub fields: &'static [(&'static str, usize)],
}

/// The [`Layout`] of a Rust type, which has it or does not compile:
/// `layout!(Aabb<f32>, "geom::aabb<float>", "geom/math/box.cuh", 24, 4, { lower: 0, upper: 12 })`.
macro_rules! layout {
    ($rust:ty, $name:literal, $header:literal, $size:literal, $align:literal,
     { $($field:ident: $offset:literal),* $(,)? }) => {{
        const _: () = {
            assert!(size_of::<$rust>() == $size, concat!("the size of ", $name));
            assert!(align_of::<$rust>() == $align, concat!("the alignment of ", $name));
            $(assert!(
                std::mem::offset_of!($rust, $field) == $offset,
                concat!("where ", $name, "::", stringify!($field), " lies"),
            );)*
        };
        Layout {
            name: $name,
            header: $header,
            size: $size,
            align: $align,
            fields: &[$((stringify!($field), $offset)),*],
        }
    }};
}

#[cfg_attr(
    not(feature = "internals"),
    expect(dead_code, reason = "its assertions are what counts")
)]
const LAYOUTS: &[Layout] = &[
    layout!(Aabb<f32>, "geom::aabb<float>", "geom/math/box.cuh", 24, 4, { lower: 0, upper: 12 }),
    layout!(Aabb<f64>, "geom::aabb<double>", "geom/math/box.cuh", 48, 8, { lower: 0, upper: 24 }),
    layout!([f32; 2], "geom::vec2<float>", "geom/math/vec.cuh", 8, 4, {}),
    layout!([f32; 3], "geom::vec3<float>", "geom/math/vec.cuh", 12, 4, {}),
    layout!([f32; 4], "geom::vec4<float>", "geom/math/vec.cuh", 16, 4, {}),
    layout!([f64; 3], "geom::vec3<double>", "geom/math/vec.cuh", 24, 8, {}),
    layout!([u32; 3], "geom::vec3<unsigned>", "geom/math/vec.cuh", 12, 4, {}),
    layout!([i32; 3], "geom::vec3<int>", "geom/math/vec.cuh", 12, 4, {}),
    layout!([[f32; 3]; 3], "geom::Triangle", "geom/mesh/triangle/types.cuh", 36, 4, {}),
    layout!(Header<f32>, "geom::GridHeader<float>", "geom/hash_grid/types.cuh", 208, 8, { row_origin: 0, row_inverse: 24, row_cells: 48, no_key: 72, origin: 80, inverse: 92, size: 104, margin: 116, period: 128, inverse_period: 140, radius: 152, cells: 156, cells_of_group: 168, groups: 172, mode: 176, periodic: 180, points: 184, left_out: 188, bits: 192 }),
    layout!(RawHashGrid, "geom::HashGrid<float>", "geom/hash_grid/types.cuh", 56, 8, { header: 0, points: 8, groups: 16, starts: 24, keys: 32, table: 40, table_mask: 48, length: 52 }),
    layout!(RawPoints, "geom::grid::Points<float>", "geom/hash_grid/build.cuh", 40, 8, { data: 0, stride: 8, component: 16, groups: 24, length: 32, unused: 36 }),
    layout!(RawQueries<f32>, "geom::grid::Queries<float>", "geom/hash_grid/batch.cuh", 64, 8, { ordered: 0, data: 8, stride: 16, component: 24, radii: 32, groups: 40, radius: 48, length: 52, groups_in_order: 56 }),
    layout!(Header<f64>, "geom::GridHeader<double>", "geom/hash_grid/types.cuh", 280, 8, { row_origin: 0, row_inverse: 24, row_cells: 48, no_key: 72, origin: 80, inverse: 104, size: 128, margin: 152, period: 176, inverse_period: 200, radius: 224, cells: 232, cells_of_group: 244, groups: 248, mode: 252, periodic: 256, points: 260, left_out: 264, bits: 268 }),
    layout!(RawHashGrid, "geom::HashGrid<double>", "geom/hash_grid/types.cuh", 56, 8, { header: 0, points: 8, groups: 16, starts: 24, keys: 32, table: 40, table_mask: 48, length: 52 }),
    layout!(RawPoints, "geom::grid::Points<double>", "geom/hash_grid/build.cuh", 40, 8, { data: 0, stride: 8, component: 16, groups: 24, length: 32, unused: 36 }),
    layout!(RawQueries<f64>, "geom::grid::Queries<double>", "geom/hash_grid/batch.cuh", 64, 8, { ordered: 0, data: 8, stride: 16, component: 24, radii: 32, groups: 40, radius: 48, length: 56, groups_in_order: 60 }),
    layout!(GridPoint32, "geom::GridPoint<float>", "geom/hash_grid/types.cuh", 16, 16, { index: 12 }),
    layout!(GridPoint64, "geom::GridPoint<double>", "geom/hash_grid/types.cuh", 32, 16, { index: 24, unused: 28 }),
    layout!(bvh::BvhNode, "geom::BvhNode", "geom/bvh/types.cuh", 128, 128, { lower: 0, upper: 48, child: 96, parent: 112, inner: 116, first: 120, count: 124 }),
    layout!(bvh::Header, "geom::BvhHeader", "geom/bvh/types.cuh", 40, 4, { bounds: 0, nodes: 24, items: 28, skipped: 32, depth: 36 }),
    layout!(bvh::RawBvh, "geom::Bvh", "geom/bvh/types.cuh", 40, 8, { header: 0, nodes: 8, items: 16, boxes: 24, length: 32, unused: 36 }),
    layout!(bvh::RawQueries, "geom::bvh::Queries", "geom/bvh/batch.cuh", 48, 8, { data: 0, stride: 8, component: 16, radii: 24, radius: 32, length: 36, order: 40 }),
    layout!(Ray, "geom::MeshRay", "geom/bvh/ray_boxes.cuh", 32, 16, { origin: 0, t_min: 12, direction: 16, t_max: 28 }),
    layout!(bvh::Cluster, "geom::bvh::Cluster", "geom/bvh/build_state.cuh", 32, 16, { lower: 0, id: 12, upper: 16, count: 28 }),
    layout!(bvh::BinaryNode, "geom::bvh::BinaryNode", "geom/bvh/build_state.cuh", 64, 16, { child: 0 }),
    layout!(bvh::BuildState, "geom::bvh::BuildState", "geom/bvh/build_state.cuh", 144, 16, { progress: 0, ticket: 8, skipped: 12, bounds: 16, centers: 40, root: 64, done: 128 }),
    layout!(bvh::Task, "geom::bvh::Task", "geom/bvh/build_collapse.cuh", 16, 8, { node_first: 0, parent_level: 8 }),
    layout!(bvh::Refitted, "geom::bvh::Refitted", "geom/bvh/refit.cuh", 40, 8, { header: 0, nodes: 8, items: 16, arrivals: 24, nodes_capacity: 32, items_capacity: 36 }),
    layout!(FrameRequest, "geom::grid::FrameRequest", "geom/hash_grid/build.cuh", 16, 4, { cells_capacity: 0, groups: 4, x_split: 8, unused: 12 }),
    layout!(Counts, "geom::mesh::Counts", "geom/mesh/report.cuh", 96, 8, { first_out_of_range: 0, first_not_finite: 8, twice_area: 16, six_volumes: 24, out_of_range: 32, not_finite: 36, collapsed: 40, degenerate: 44, edges: 48, boundary_edges: 52, non_manifold_edges: 56, inconsistent_edges: 60, used_points: 64, bounds: 68, unused: 92 }),
    layout!(winding::ChildMoments, "geom::ChildMoments", "geom/mesh/moments.cuh", 80, 16, { radius: 12, child: 28 }),
    layout!(winding::NodeMoments, "geom::NodeMoments", "geom/mesh/moments.cuh", 320, 16, { child: 0 }),
    layout!(winding::RawMomentsBuild, "geom::mesh::MomentsBuild", "geom/mesh/moments_build.cuh", 48, 8, { header: 0, tree: 8, triangles: 16, nodes: 24, arrivals: 32, nodes_capacity: 40, triangles_capacity: 44 }),
    layout!(MeshTriangle, "geom::MeshTriangle", "geom/mesh/types.cuh", 64, 16, { face: 12, inverse_01: 28, inverse_12: 44, nx: 48, inverse_02: 60 }),
    layout!(RawMesh, "geom::Mesh", "geom/mesh/types.cuh", 104, 8, { bvh: 0, triangles: 40, points: 48, faces: 56, topology: 64, moments: 88, point_count: 96, face_count: 100 }),
    layout!(RawSurface, "geom::mesh::Surface", "geom/mesh/faces.cuh", 24, 8, { points: 0, faces: 8, point_count: 16, face_count: 20 }),
    layout!(RawPointQueries, "geom::mesh::PointQueries", "geom/mesh/batch.cuh", 32, 8, { points: 0, distances: 8, order: 16, distance: 24, length: 28 }),
    layout!(ClosestPoint, "geom::ClosestPoint", "geom/mesh/closest.cuh", 32, 4, { position: 0, distance_squared: 12, face: 16, u: 20, v: 24, feature: 28 }),
    layout!(RayHit, "geom::RayHit", "geom/mesh/rays.cuh", 20, 4, { t: 0, face: 4, u: 8, v: 12, front: 16 }),
    layout!(RawMap, "geom::VolumeMap", "geom/volume/types.cuh", 256, 8, { m: 0, inverse: 36, v: 72, unused: 84, m64: 88, inverse64: 160, v64: 232 }),
    layout!(RawVolume, "geom::Volume<float>", "geom/volume/types.cuh", 280, 8, { grid: 0, root: 8, directory: 16, map: 24 }),
    layout!(RawIndexedValues<f32>, "geom::IndexedValues<float>", "geom/volume/indexed.cuh", 24, 8, { data: 0, count: 8, background: 16 }),
    layout!(RawIndexedValues<f64>, "geom::IndexedValues<double>", "geom/volume/indexed.cuh", 24, 8, { data: 0, count: 8, background: 16 }),
    layout!(RawIndexedValues<[f32; 3]>, "geom::IndexedValues<geom::vec3<float>>", "geom/volume/indexed.cuh", 32, 8, { data: 0, count: 8, background: 16 }),
    layout!(RawIndexedValues<[f64; 3]>, "geom::IndexedValues<geom::vec3<double>>", "geom/volume/indexed.cuh", 40, 8, { data: 0, count: 8, background: 16 }),
    layout!(RawIndexedValues<[f32; 4]>, "geom::IndexedValues<geom::vec4<float>>", "geom/volume/indexed.cuh", 32, 8, { data: 0, count: 8, background: 16 }),
    layout!(RawIndexedValues<[f64; 4]>, "geom::IndexedValues<geom::vec4<double>>", "geom/volume/indexed.cuh", 48, 8, { data: 0, count: 8, background: 16 }),
    layout!(RawSamples, "geom::volume::Samples", "geom/volume/batch.cuh", 16, 8, { points: 0, length: 8, of_f64: 12, maps: 14 }),
    layout!(volume::RawNodes, "geom::volume::NodeLayout", "geom/volume/build_types.cuh", 64, 4, { value_bytes: 0, value_align: 4, entry_bytes: 8, root_background: 12, root_bytes: 16, tile_value: 20, tile_bytes: 24, upper_table: 28, upper_bytes: 32, lower_table: 36, lower_bytes: 40, leaf_values: 44, leaf_bytes: 48, leaf_keeps: 52, number: 56, numbers: 60 }),
    layout!(volume::BuildState, "geom::volume::BuildState", "geom/volume/build_types.cuh", 64, 8, { status: 0, invalid: 4, leaves: 8, lower: 12, upper: 16, entries: 20, voxels: 24, values: 32, unused: 40 }),
    layout!(volume::RawBuild, "geom::volume::Build", "geom/volume/build_types.cuh", 288, 8, { layout: 0, state: 64, keys: 72, places: 88, which: 104, asks: 112, leaf_keys: 120, leaf_first: 128, leaf_active: 136, lower_keys: 144, lower_first: 152, lower_entry: 160, upper_keys: 168, upper_first: 176, constants: 184, head: 192, chains: 200, before: 208, scan: 216, grid: 224, grid_bytes: 232, upper_at: 240, lower_at: 248, leaf_at: 256, leaf_room: 264, lower_room: 268, upper_room: 272, n: 276, head_bytes: 280, unused: 284 }),
    layout!(volume::RawWorld, "geom::volume::WorldPoints", "geom/volume/build_keys.cuh", 104, 8, { data: 0, inverse: 8, origin: 80 }),
    layout!(volume::RawTolerance, "geom::volume::Tolerance", "geom/volume/build_values.cuh", 16, 8, { real: 0, whole: 8 }),
    layout!(volume::RawDense, "geom::volume::DenseField", "geom/volume/dense.cuh", 64, 8, { values: 0, origin: 8, size: 20, tolerance: 32, width: 48, keep: 56, by_leaves: 60 }),
    layout!(volume::RawLattice, "geom::volume::LeafLattice", "geom/volume/dense.cuh", 24, 4, { first: 0, count: 12 }),
    layout!(volume::RawLeaves, "geom::volume::Leaves", "geom/volume/lists.cuh", 16, 8, { grid: 0, bytes: 8, unused: 12 }),
    layout!(VolumeHit, "geom::VolumeHit", "geom/volume/march.cuh", 44, 4, { t: 0, enters: 4, cell: 8, place: 20, normal: 32 }),
    layout!(FacePoint, "geom::FacePoint", "geom/mesh/evaluate.cuh", 12, 4, { face: 0, u: 4, v: 8 }),
    layout!(isosurface::Signs, "geom::isosurface::Signs", "geom/isosurface/types.cuh", 8, 8, { inside: 0, known: 4 }),
    layout!(isosurface::Edges, "geom::isosurface::Edges", "geom/isosurface/types.cuh", 16, 16, { x: 0, y: 4, z: 8, first: 12 }),
    layout!(isosurface::Tile, "geom::isosurface::Tile", "geom/isosurface/types.cuh", 24, 8, { vertices_before: 0, faces_before: 8, vertices: 16, faces: 20 }),
    layout!(IsosurfaceCounts, "geom::isosurface::Counts", "geom/isosurface/types.cuh", 24, 8, { vertices: 0, faces: 8, status: 16 }),
    layout!(isosurface::RawIndexMap, "geom::isosurface::IndexMap", "geom/isosurface/types.cuh", 176, 8, { rows: 0, normal_rows: 96, mirrored: 168, unused: 172 }),
    layout!(isosurface::RawDenseField, "geom::isosurface::DenseField", "geom/isosurface/field.cuh", 32, 8, { values: 0, nx: 8, ny: 12, nz: 16, row_words: 20, words: 24, unused: 28 }),
    layout!(isosurface::RawBlockField, "geom::isosurface::BlockField", "geom/isosurface/blocks.cuh", 40, 8, { values: 0, origins: 8, neighbors: 16, blocks: 24, stride: 28, words: 32, unused: 36 }),
    layout!(isosurface::Findings, "geom::isosurface::Findings", "geom/isosurface/volume_field.cuh", 32, 8, { places: 0, status: 8, uppers: 16, has_tiles: 24 }),
    layout!(isosurface::RawOutput, "geom::isosurface::Output", "geom/isosurface/emit.cuh", 32, 8, { vertices: 0, normals: 8, faces: 16, vertex_capacity: 24, face_capacity: 28 }),
];

/// Every structure that kernels and the host share. For this project's tests.
#[cfg(feature = "internals")]
#[must_use]
pub fn layouts() -> &'static [Layout] {
    LAYOUTS
}
