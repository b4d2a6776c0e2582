// Angles of vectors, for tests/suite/src/mesh_topology/angles.rs.
#include <geom/math/angle.cuh>

extern "C" __global__ void angles(const double* y, const double* x, double* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::exact::atan2(y[i], x[i]);
}

extern "C" __global__ void angles_f32(const float* y, const float* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::exact::atan2(y[i], x[i]);
}
