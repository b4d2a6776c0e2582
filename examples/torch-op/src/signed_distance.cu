// The distance of each point from a closed mesh, negative inside. Its adjoint is generated from this text.
#include <geom/mesh.cuh>

extern "C" __global__ void signed_distance(geom::Mesh mesh, const geom::vec3<float>* points, float* distances,
                                           unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    geom::ClosestPoint closest;
    if (i < n) distances[i] = geom::signed_distance(mesh, points[i], &closest);
}
