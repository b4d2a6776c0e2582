// The order of queries: along a Morton curve, so that neighbouring threads read the same nodes.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/math/box.cuh>

namespace geom {
namespace bvh {

// Spreads ten bits, with two zeros between each and the next.
__device__ __forceinline__ unsigned spread(unsigned bits) {
    bits = (bits | bits << 16) & 0x030000ffu;
    bits = (bits | bits << 8) & 0x0300f00fu;
    bits = (bits | bits << 4) & 0x030c30c3u;
    return (bits | bits << 2) & 0x09249249u;
}

// The position of a point along a Morton curve through the bounds, in 30 bits. Any number is valid: it only
// determines the order of queries.
__device__ __forceinline__ unsigned morton(const aabb<float>& bounds, vec3<float> p) {
    const vec3<float> d = exact::sub(p, bounds.lower), size = extent(bounds);
    unsigned key = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const float part = exact::mul_saturate(exact::div(d[axis], size[axis]), 1.0f);
        key |= spread(static_cast<unsigned>(exact::floor_to_int(exact::mul(part, 1023.0f)))) << axis;
    }
    return key;
}

} // namespace bvh
} // namespace geom
