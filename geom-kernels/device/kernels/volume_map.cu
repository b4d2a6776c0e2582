// Maps between index space and the world.
#include <geom/volume/kernels.cuh>

GEOM_VOLUME_MAP(float, f32)
GEOM_VOLUME_MAP(double, f64)
