// The fast builder: the radix tree of the sorted keys, from the leaves to the root.
//
// C. Apetrei: Fast and Simple Agglomerative LBVH Construction. 2014: a range of leaves belongs to the neighbour with
// which it has more leading bits in common. The first of two threads that arrive at a node ends; the second has both
// children, and goes on.
#pragma once

#include <geom/bvh/build_state.cuh>

namespace geom {
namespace bvh {

// The distance of neighbouring leaves: the bits in which their keys differ, or for equal keys, the bits in which
// their indices differ.
struct Gap {
    unsigned long long keys;
    unsigned places;

    __device__ __forceinline__ bool operator<(const Gap& other) const {
        return keys < other.keys || (keys == other.keys && places < other.places);
    }
};

// The leaves from a sort: keys and indices of items in one of two buffers.
struct Leaves {
    const unsigned long long* keys;
    const unsigned* indices;
    unsigned count;

    __device__ __forceinline__ Leaves(
        const unsigned* which, const unsigned long long* first_keys,
        const unsigned long long* second_keys, const unsigned* first, const unsigned* second,
        unsigned count
    )
        : keys(*which ? second_keys : first_keys), indices(*which ? second : first), count(count) {}

    // The gap between leaf i and the next.
    __device__ __forceinline__ Gap gap(unsigned i) const {
        return {__ldg(keys + i) ^ __ldg(keys + i + 1), i ^ (i + 1)};
    }

    // Whether the parent of the range of leaves from `first` to `last`, not all leaves, has them on its left. Two
    // gaps beside a range are never equal: the highest bit of one is set in the keys of the range, and the highest
    // bit of the other is clear.
    __device__ __forceinline__ bool is_left(unsigned first, unsigned last) const {
        return first == 0 || (last + 1 != count && gap(last) < gap(first - 1));
    }
};

// Node i is the one that separates the leaves i and i + 1. `arrivals` are zero before. A thread for each item.
__device__ __forceinline__ void link_radix(
    const Leaves& leaves, const Cluster* items, BinaryNode* nodes, unsigned* arrivals, BuildState* state
) {
    unsigned first = thread(), last = first;
    if (first >= leaves.count) {
        if (leaves.count == 0 && first == 0)
            state->root = make_cluster(aabb<float>::empty(), 0, 0);
        return;
    }
    Cluster mine = load_cluster(items + __ldg(leaves.indices + first));
    while (mine.count != leaves.count) {
        bool left = leaves.is_left(first, last);
        unsigned parent = left ? last : first - 1;
        store_shared(&nodes[parent].child[left ? 0 : 1], mine);
        if (arrive(arrivals + parent) == 0)
            return;
        Cluster other = load_shared(&nodes[parent].child[left ? 1 : 0]);
        if (left)
            last += other.count;
        else
            first -= other.count;
        // The order does not matter for a box.
        mine = join(mine, other, parent);
    }
    state->root = mine;
}

} // namespace bvh
} // namespace geom
