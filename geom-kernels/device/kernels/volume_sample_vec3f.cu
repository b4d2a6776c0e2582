// Interpolated values of volumes of three f32.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_SAMPLE(geom::vec3<float>, vec3f_f32, float, 1, 1)
GEOM_VOLUME_SAMPLE(geom::vec3<float>, vec3f_f64, double, 1, 1)
