// Values of f64 in arrays, sampled through volumes of indices.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_INDEXED(geom::VolumeIndex, double, index_f64_f64, double)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, double, on_index_f64_f64, double)
