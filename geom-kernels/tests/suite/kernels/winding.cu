// Winding numbers by the headers, for tests/suite/src/winding/.
#include <geom/mesh/winding.cuh>

extern "C" __global__ void
numbers(geom::Mesh mesh, const geom::vec3<float>* points, const float* betas, unsigned n, float* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::winding_number(mesh, points[i], betas[i]);
}

extern "C" __global__ void
signed_distances(geom::Mesh mesh, const geom::vec3<float>* points, float threshold, unsigned n, float* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    geom::ClosestPoint closest;
    const float infinity = geom::exact::infinity();
    out[i] = geom::signed_distance_by_winding(mesh, points[i], &closest, infinity, 3.0f, threshold);
}
