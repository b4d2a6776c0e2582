// The side of a closed mesh that a point is on, without rounding errors.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options, and none
// on the tree.
#pragma once

#include <geom/bvh/traverse.cuh>
#include <geom/mesh/packed.cuh>
#include <geom/mesh/triangle/crossing.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {
namespace mesh {

// Faces that the ray from q towards +x crosses.
struct Crossings {
    static constexpr bool ordered = false, votes = true, repeatable = true;
    const MeshTriangle* triangles;
    vec3<float> q;
    unsigned count;
    bool on_surface;

    __device__ __forceinline__ void restart() { count = 0; }
    __device__ __forceinline__ void adopt(const Crossings& copy) { *this = copy; }
    __device__ __forceinline__ unsigned limit() const { return bvh::rejected - 1; }
    // The ray meets the box if none of these is greater than 0.
    __device__ __forceinline__ unsigned key(float ly, float lz, float ux, float uy, float uz,
                                            unsigned child) const {
        using namespace exact;
        const float beyond = max(max(max(sub(ly, q.y), sub(q.y, uy)), max(sub(lz, q.z), sub(q.z, uz))),
                                 sub(q.x, ux));
        return __float_as_int(beyond) > 0 ? bvh::rejected | child : child;
    }
    __device__ __forceinline__ void keys(const bvh::Boxes& boxes, unsigned (&key)[4]) const {
        const float4 ly = boxes.lower(1), lz = boxes.lower(2);
        const float4 ux = boxes.upper(0), uy = boxes.upper(1), uz = boxes.upper(2);
        key[0] = this->key(ly.x, lz.x, ux.x, uy.x, uz.x, 0);
        key[1] = this->key(ly.y, lz.y, ux.y, uy.y, uz.y, 1);
        key[2] = this->key(ly.z, lz.z, ux.z, uy.z, uz.z, 2);
        key[3] = this->key(ly.w, lz.w, ux.w, uy.w, uz.w, 3);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
        for (unsigned at = first; at < end; ++at) {
            const int crossed = crosses(Packed(triangles[at]).ordered(), q);
            on_surface = crossed == 2;
            if (on_surface) return true;
            count += unsigned(crossed != 0);
        }
        return false;
    }
};

} // namespace mesh

// -1 if q is inside a closed mesh, 1 if it is outside, 0 if it lies on it: without rounding errors, by the parity of
// the number of faces that a ray from q crosses. The orientation of faces does not matter. For a mesh that is not
// closed it is the parity of that ray, towards +x. 1 if q is invalid.
__device__ __forceinline__ int side_of(const Mesh& mesh, vec3<float> q) {
#ifdef GEOM_AD
    q = ad::stop(q);
#endif
    if (!is_valid(q)) return 1;
    mesh::Crossings query{mesh.triangles, q, 0, false};
    bvh::traverse(mesh.bvh, query);
    return query.on_surface ? 0 : (query.count & 1) != 0 ? -1 : 1;
}

} // namespace geom
