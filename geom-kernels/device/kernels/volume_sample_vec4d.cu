// Interpolated values of volumes of four f64.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_SAMPLE(geom::vec4<double>, vec4d_f64, double, 1, 1)
