// Values of three f32 in arrays, sampled through volumes of indices.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_INDEXED(geom::VolumeIndex, geom::vec3<float>, index_vec3f_f32, float)
GEOM_VOLUME_INDEXED(geom::VolumeIndex, geom::vec3<float>, index_vec3f_f64, double)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, geom::vec3<float>, on_index_vec3f_f32, float)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, geom::vec3<float>, on_index_vec3f_f64, double)
