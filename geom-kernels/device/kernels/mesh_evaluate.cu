// Evaluation of a mesh at points of its faces. src/mesh/evaluate.rs launches the kernels.
#include <geom/mesh/evaluate.cuh>

using namespace geom;

namespace {

__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

} // namespace

extern "C" __global__ void __launch_bounds__(256)
    mesh_positions(Mesh mesh, const FacePoint* points, unsigned n, vec3<float>* positions) {
    if (thread() < n) positions[thread()] = position_at(mesh, points[thread()]);
}

extern "C" __global__ void __launch_bounds__(256)
    mesh_normals(Mesh mesh, const FacePoint* points, unsigned n, vec3<float>* normals) {
    if (thread() < n) normals[thread()] = face_normal(mesh, points[thread()].face);
}

// `attributes` has `width` numbers for each of `vertices` vertices.
extern "C" __global__ void __launch_bounds__(256) mesh_attributes(
    Mesh mesh, const FacePoint* points, unsigned n, const float* attributes, unsigned width, float* out
) {
    if (thread() >= n) return;
    for (unsigned i = 0; i < width; ++i)
        out[static_cast<unsigned long long>(thread()) * width + i] =
            attribute_at(mesh, attributes, width, i, points[thread()]);
}
