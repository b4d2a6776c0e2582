// Moves each point to the closest one of a mesh.
#include <geom/mesh.cuh>

extern "C" __global__ void project(geom::Mesh mesh, geom::vec3<float>* positions, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        positions[i] = geom::closest_point(mesh, positions[i]).position;
    }
}
