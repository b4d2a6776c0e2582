// Rays against a mesh, for arrays of rays. src/mesh/ray_queries.rs launches the kernels.
#include <geom/mesh/batch.cuh>

using namespace geom;

namespace {

__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

} // namespace

extern "C" __global__ void __launch_bounds__(128, 9)
    mesh_nearest_hits(Mesh mesh, const MeshRay* rays, unsigned n, RayHit* hits) {
    if (thread() < n) hits[thread()] = nearest_hit(mesh, load_ray(rays, thread()));
}

extern "C" __global__ void __launch_bounds__(128, 8)
    mesh_any_hits(Mesh mesh, const MeshRay* rays, unsigned n, unsigned char* hits) {
    if (thread() < n) hits[thread()] = any_hit(mesh, load_ray(rays, thread()));
}

extern "C" __global__ void __launch_bounds__(128, 8)
    mesh_count_hits(Mesh mesh, const MeshRay* rays, unsigned n, unsigned* counts) {
    if (thread() < n) counts[thread()] = count_hits(mesh, load_ray(rays, thread()));
}

// Writes the hits of each ray, nearest first, up to the capacity.
extern "C" __global__ void __launch_bounds__(128) mesh_list_hits(
    Mesh mesh, const MeshRay* rays, unsigned n, const unsigned long long* offsets, RayHit* hits,
    unsigned long long capacity
) {
    if (thread() >= n) return;
    const unsigned long long first = offsets[thread()], last = offsets[thread() + 1];
    const unsigned long long end = last < capacity ? last : capacity;
    unsigned long long count = 0;
    for_each_hit(mesh, load_ray(rays, thread()), [&](const RayHit& hit) {
        // The hit is inserted in order: if the list is full, the farthest hit is dropped.
        if (first >= end) return true;
        unsigned long long at = first + count;
        if (at >= end) {
            at = end - 1;
            if (!nearer(hit, hits[at])) return false;
        } else {
            ++count;
        }
        for (; at > first && nearer(hit, hits[at - 1]); --at) hits[at] = hits[at - 1];
        hits[at] = hit;
        return false;
    });
}
