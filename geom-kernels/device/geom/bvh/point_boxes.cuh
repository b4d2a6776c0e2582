// A point against the boxes of nodes.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
#pragma once

#include <geom/bvh/traverse.cuh>

namespace geom {
namespace bvh {

// Keys of boxes by their distance from a point: never more than those of the boxes that they contain, as all
// roundings are monotonic. An absent child is infinitely far.
struct PointBoxes {
    vec3<float> q;

    __device__ __forceinline__ float beyond(float lower, float upper, float at) const {
        using namespace exact;
        return max(max(sub(lower, at), sub(at, upper)), 0.0f);
    }
    __device__ __forceinline__ unsigned key(float lx, float ly, float lz, float ux, float uy, float uz,
                                            unsigned child) const {
        const vec3<float> d(beyond(lx, ux, q.x), beyond(ly, uy, q.y), beyond(lz, uz, q.z));
        return make_key(exact::length_squared(d), child);
    }
    __device__ __forceinline__ void keys(const Boxes& boxes, unsigned (&key)[4]) const {
        const float4 lx = boxes.lower(0), ly = boxes.lower(1), lz = boxes.lower(2);
        const float4 ux = boxes.upper(0), uy = boxes.upper(1), uz = boxes.upper(2);
        key[0] = this->key(lx.x, ly.x, lz.x, ux.x, uy.x, uz.x, 0);
        key[1] = this->key(lx.y, ly.y, lz.y, ux.y, uy.y, uz.y, 1);
        key[2] = this->key(lx.z, ly.z, lz.z, ux.z, uy.z, uz.z, 2);
        key[3] = this->key(lx.w, ly.w, lz.w, ux.w, uy.w, uz.w, 3);
    }
};

} // namespace bvh
} // namespace geom
