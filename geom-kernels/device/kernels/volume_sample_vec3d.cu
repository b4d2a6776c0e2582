// Interpolated values of volumes of three f64.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_SAMPLE(geom::vec3<double>, vec3d_f64, double, 1, 1)
