// Values of three f64 in arrays, sampled through volumes of indices.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_INDEXED(geom::VolumeIndex, geom::vec3<double>, index_vec3d_f64, double)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, geom::vec3<double>, on_index_vec3d_f64, double)
