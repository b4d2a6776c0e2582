// The leaves of a stencil: a box of up to 8 voxels along each axis, and so of at most eight leaves.
//
// One descent finds the leaf of the stencil's least voxel. Another leaf costs the last step of a descent, from the
// lower node, and a whole descent only if it is in another lower node. Lanes of a warp whose stencils cross different
// faces of their leaves take that step at the same time.
#pragma once

#include <geom/volume/access.cuh>

namespace geom {
namespace volume {

// The axes along which v and v + extent lie in different nodes of 2^bits voxels: 4 for x, 2 for y, 1 for z.
template <int extent>
__device__ __forceinline__ unsigned crossings(const vec3<int>& v, int bits) {
    const unsigned mask = (1u << bits) - 1, last = mask - extent;
    return ((v.x & mask) > last ? 4 : 0) | ((v.y & mask) > last ? 2 : 0) | ((v.z & mask) > last ? 1 : 0);
}

// Calls `use(side, split, found)` for each leaf of the voxels from `low` to `low + extent`. `side` has a bit for each
// axis along which the leaf is the far one, `split` for each along which there are two. The first call is for side 0,
// for all threads together. `first` is the result of a descent to the least voxel.
template <int extent, class T, class Use>
__device__ __forceinline__ void for_each_leaf(const Volume<T>& volume, const vec3<int>& low, const Lower& first,
                                              Use&& use) {
    const unsigned split = crossings<extent>(low, 3);
    unsigned side = 0, far = crossings<extent>(low, 7);
    // The assembly keeps `far` in one register, where the compiler would use three.
    asm("" : "+r"(far));
    // The loop visits all subsets of the bits of `split`, ascending.
#pragma unroll 1
    do {
        const int x = low.x + ((side & 4) != 0 ? extent : 0), y = low.y + ((side & 2) != 0 ? extent : 0),
                  z = low.z + ((side & 1) != 0 ? extent : 0);
        Lower lower = {first.node, nullptr};
        // The value in `first` is not kept in a register; without a lower node the descent is repeated.
        if (first.node == nullptr || (side & far) != 0) lower = find_lower(volume, x, y, z);
        use(side, split, find_below<T>(lower, x, y, z));
        side = (side - split) & split;
    } while (side != 0);
}

} // namespace volume
} // namespace geom
