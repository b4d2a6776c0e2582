// Interpolated values of volumes of f32.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_SAMPLE(float, f32_f32, float, 10, 10)
GEOM_VOLUME_SAMPLE(float, f32_f64, double, 1, 1)
