// Interpolated values of volumes of four f32.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_SAMPLE(geom::vec4<float>, vec4f_f32, float, 1, 1)
GEOM_VOLUME_SAMPLE(geom::vec4<float>, vec4f_f64, double, 1, 1)
