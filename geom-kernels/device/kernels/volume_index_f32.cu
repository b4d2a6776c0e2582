// Values of f32 in arrays, sampled through volumes of indices.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_INDEXED(geom::VolumeIndex, float, index_f32_f32, float)
GEOM_VOLUME_INDEXED(geom::VolumeIndex, float, index_f32_f64, double)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, float, on_index_f32_f32, float)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, float, on_index_f32_f64, double)
