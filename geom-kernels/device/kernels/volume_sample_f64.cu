// Interpolated values of volumes of f64.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_SAMPLE(double, f64_f64, double, 1, 1)
