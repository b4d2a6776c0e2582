// Values of four f64 in arrays, sampled through volumes of indices.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_INDEXED(geom::VolumeIndex, geom::vec4<double>, index_vec4d_f64, double)
GEOM_VOLUME_INDEXED(geom::VolumeOnIndex, geom::vec4<double>, on_index_vec4d_f64, double)
