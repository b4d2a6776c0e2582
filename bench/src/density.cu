// The density of smoothed particle hydrodynamics, as in geom-kernels/tests/suite/kernels/neighbor_sums.cu, of the
// array that the grid was built from: its adjoint is generated.
#include <geom/hash_grid.cuh>
using vec3 = geom::vec3<float>;

__device__ float weight(float square, float h) {
    float h2 = h * h, inside = h2 - square;
    return 1.5666814710608447f / (h2 * h2 * h2 * h2 * h) * inside * inside * inside; // 315 / (64 pi)
}

extern "C" __global__ void density(geom::HashGrid<float> grid, const vec3* x, const float* mass, float h,
                                   float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    vec3 p = x[i];
    float sum = 0.0f;
    geom::for_each_neighbor(grid, x, p, h, [&](const geom::Neighbor<float>& j) {
        if (j.index < n)
            sum += mass[j.index] * weight(j.distance_squared, h);
    });
    out[i] = sum;
}
