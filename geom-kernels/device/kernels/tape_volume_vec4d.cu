// Gradients through samples of volumes of four f64, and of arrays of such. How they are launched: src/tape/volume.rs.
#include <geom/volume/adjoint_batch.cuh>

// inexact: tape_trilinear_voxels_vec4d_f32 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_index_vec4d_f32 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_on_index_vec4d_f32 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_voxels_vec4d_f32 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_index_vec4d_f32 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_on_index_vec4d_f32 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_voxels_vec4d_f64 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_index_vec4d_f64 sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_on_index_vec4d_f64 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_voxels_vec4d_f64 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_index_vec4d_f64 sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_on_index_vec4d_f64 sums over the samples of a voxel depend on their order

GEOM_TAPE_SAMPLES(geom::vec4<double>, vec4d)
