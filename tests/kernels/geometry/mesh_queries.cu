// A user's kernels that ask a mesh.
#include <geom/mesh.cuh>

using namespace geom;

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

} // namespace

extern "C" __global__ void ask_points(Mesh mesh, const vec3<float>* points, unsigned n, ClosestPoint* closest,
                                      float* distances, int* sides, unsigned* within) {
    if (thread() >= n) return;
    const vec3<float> q = points[thread()];
    ClosestPoint of_distance;
    closest[thread()] = closest_point(mesh, q);
    distances[thread()] = signed_distance(mesh, q, &of_distance);
    sides[thread()] = side_of(mesh, q);
    within[thread()] = is_within(mesh, q, 0.25f);
}

// What a ray hits first, and of all hits the sum of the faces' indices plus one.
extern "C" __global__ void ask_rays(Mesh mesh, const MeshRay* rays, unsigned n, RayHit* nearest,
                                    unsigned* sums) {
    if (thread() >= n) return;
    const MeshRay ray = rays[thread()];
    nearest[thread()] = nearest_hit(mesh, ray);
    unsigned sum = 0;
    for_each_hit(mesh, ray, [&](const RayHit& hit) {
        sum += hit.face + 1;
        return false;
    });
    sums[thread()] = sum;
}

extern "C" __global__ void ask_faces(Mesh mesh, const FacePoint* points, unsigned n, vec3<float>* positions,
                                     vec3<float>* normals) {
    if (thread() >= n) return;
    positions[thread()] = position_at(mesh, points[thread()]);
    normals[thread()] = face_normal(mesh, points[thread()].face);
}
