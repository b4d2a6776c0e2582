// Gradients through samples of volumes, and of arrays of values. src/tape/volume.rs launches the kernels. One module
// for each type of values: `sources!` in src/geometry.rs.
// inexact: tape_trilinear_voxels_* sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_index_* sums over the samples of a voxel depend on their order
// inexact: tape_trilinear_on_index_* sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_voxels_* sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_index_* sums over the samples of a voxel depend on their order
// inexact: tape_tricubic_on_index_* sums over the samples of a voxel depend on their order
#include <geom/volume/adjoint_batch.cuh>

#if defined(MODULE_tape_volume_f32)
GEOM_TAPE_SAMPLES(float, f32)
#elif defined(MODULE_tape_volume_f64)
GEOM_TAPE_SAMPLES(double, f64)
#elif defined(MODULE_tape_volume_vec3f)
GEOM_TAPE_SAMPLES(geom::vec3<float>, vec3f)
#elif defined(MODULE_tape_volume_vec3d)
GEOM_TAPE_SAMPLES(geom::vec3<double>, vec3d)
#elif defined(MODULE_tape_volume_vec4f)
GEOM_TAPE_SAMPLES(geom::vec4<float>, vec4f)
#elif defined(MODULE_tape_volume_vec4d)
GEOM_TAPE_SAMPLES(geom::vec4<double>, vec4d)
#else
#error "no module of this file is named"
#endif
