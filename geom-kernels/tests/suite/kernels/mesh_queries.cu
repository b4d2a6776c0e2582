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

// Of the faces and of the boxes of faces in a box and in a ball, the sums of the indices plus one; and how many
// faces in the box were seen by one that stops at the second.
extern "C" __global__ void ask_overlaps(Mesh mesh, const aabb<float>* boxes, const vec3<float>* centers,
                                        const float* radii, unsigned n, unsigned* sums, unsigned* stopped) {
    if (thread() >= n) return;
    const aabb<float> box = boxes[thread()];
    const vec3<float> center = centers[thread()];
    const float radius = radii[thread()];
    unsigned sum[4] = {0, 0, 0, 0}, seen = 0;
    for_each_overlap(mesh, box, [&](unsigned face) { sum[0] += face + 1; });
    for_each_box_overlap(mesh, box, [&](unsigned face) { sum[1] += face + 1; });
    for_each_within(mesh, center, radius, [&](unsigned face) { sum[2] += face + 1; });
    for_each_box_within(mesh, center, radius, [&](unsigned face) { sum[3] += face + 1; });
    const bool ended = for_each_overlap(mesh, box, [&](unsigned) { return ++seen == 2; });
    for (unsigned k = 0; k < 4; ++k) sums[4 * thread() + k] = sum[k];
    stopped[thread()] = seen + (ended ? 100 : 0);
}

extern "C" __global__ void ask_faces(Mesh mesh, const FacePoint* points, unsigned n, vec3<float>* positions,
                                     vec3<float>* normals) {
    if (thread() >= n) return;
    positions[thread()] = position_at(mesh, points[thread()]);
    normals[thread()] = face_normal(mesh, points[thread()].face);
}
