// Gradients through samples of volumes of f32, and of arrays of such. How they are launched: src/tape/volume.rs.
#include <geom/volume/adjoint_batch.cuh>

// inexact: tape_trilinear_voxels_f32_f32 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_index_f32_f32 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_on_index_f32_f32 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_voxels_f32_f32 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_index_f32_f32 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_on_index_f32_f32 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_voxels_f32_f64 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_index_f32_f64 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_on_index_f32_f64 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_voxels_f32_f64 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_index_f32_f64 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_on_index_f32_f64 sums over the samples of a voxel depend on their order

GEOM_TAPE_SAMPLES(float, f32)
