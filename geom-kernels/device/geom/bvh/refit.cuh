// Refitting a hierarchy: new boxes for the same items in the same nodes, from the leaves to the root.
//
// Exact, like builds.
#pragma once

#include <geom/bvh/build_state.cuh>

namespace geom {
namespace bvh {

// A hierarchy whose boxes are changed.
struct Refitted {
    BvhHeader* header;
    BvhNode* nodes;
    const unsigned* items;
    // For each node, how many children have arrived; zero before and after.
    unsigned* arrivals;
    // The capacities in nodes and items.
    unsigned nodes_capacity, items_capacity;
};

// The boxes in the order of leaves, from those of `n` items by index. The hierarchy may have other items if a graph
// has rebuilt it.
template <class Source>
struct ByPlace {
    Source boxes;
    const unsigned* items;
    unsigned n;

    __device__ __forceinline__ bool box(unsigned place, aabb<float>* out) const {
        unsigned item = __ldg(items + place);
        return item < n && boxes.box(item, out);
    }
};

// The union of the valid boxes in a leaf.
template <class Source>
__device__ __forceinline__ aabb<float> leaf_box(const Source& boxes, unsigned leaf, unsigned capacity) {
    aabb<float> all = aabb<float>::empty();
    const unsigned first = leaf_first(leaf), count = leaf_count(leaf);
    for (unsigned i = first; i < first + count && i < capacity; ++i) {
        aabb<float> b;
        if (boxes.box(i, &b) && is_valid(b))
            all = unite(all, b);
    }
    return all;
}

__device__ __forceinline__ void store_box(BvhNode& node, unsigned child, const aabb<float>& b) {
    node.lower[0][child] = b.lower.x;
    node.lower[1][child] = b.lower.y;
    node.lower[2][child] = b.lower.z;
    node.upper[0][child] = b.upper.x;
    node.upper[1][child] = b.upper.y;
    node.upper[2][child] = b.upper.z;
}
__device__ __forceinline__ float load_shared(const float* at) {
    return __uint_as_float(sort::load_word(reinterpret_cast<const unsigned*>(at)));
}
__device__ __forceinline__ aabb<float> load_box(const BvhNode& node, unsigned child) {
    return {
        {load_shared(&node.lower[0][child]), load_shared(&node.lower[1][child]),
         load_shared(&node.lower[2][child])},
        {load_shared(&node.upper[0][child]), load_shared(&node.upper[1][child]),
         load_shared(&node.upper[2][child])}};
}

// The union of the boxes of four neighbouring lanes; all four call it.
__device__ __forceinline__ aabb<float> unite_four(aabb<float> b, unsigned lanes) {
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
        aabb<float> other;
        other.lower.x = __shfl_xor_sync(lanes, b.lower.x, offset);
        other.lower.y = __shfl_xor_sync(lanes, b.lower.y, offset);
        other.lower.z = __shfl_xor_sync(lanes, b.lower.z, offset);
        other.upper.x = __shfl_xor_sync(lanes, b.upper.x, offset);
        other.upper.y = __shfl_xor_sync(lanes, b.upper.y, offset);
        other.upper.z = __shfl_xor_sync(lanes, b.upper.z, offset);
        b = unite(b, other);
    }
    return b;
}

// Four neighbouring lanes for each node within the capacity, one for each of its children. They compute the boxes of
// its leaves. The last thread to arrive at a node, of these four and those with the boxes of children, passes the
// union on to the node's parent. `Source` returns the box at a place in the order of leaves.
template <class Source>
__device__ __forceinline__ void refit(const Refitted& tree, const Source& boxes) {
    const unsigned nodes = min(tree.header->nodes, tree.nodes_capacity);
    unsigned index = thread() / 4;
    if (index >= nodes)
        return;
    const unsigned lane = threadIdx.x % 4, leader = threadIdx.x % 32 / 4 * 4, lanes = 0xfu << leader;
    BvhNode* node = tree.nodes + index;
    const unsigned child = node->child[lane];
    aabb<float> mine = aabb<float>::empty();
    if (is_leaf(child) && child != no_index) {
        mine = leaf_box(boxes, child, tree.items_capacity);
        store_box(*node, lane, mine);
    }
    unsigned inner = node->inner;
    for (;;) {
        if (inner != 0) {
            // The barrier orders the writes of the four lanes before the arrival of one of them.
            __syncwarp(lanes);
            unsigned last = 0;
            if (lane == 0)
                last = arrive(tree.arrivals + index) == inner;
            last = __shfl_sync(lanes, last, leader);
            if (!last)
                return;
            __syncwarp(lanes);
            if (lane == 0)
                tree.arrivals[index] = 0;
            mine = load_box(*node, lane);
        }
        mine = unite_four(mine, lanes);
        const unsigned parent = node->parent;
        if (parent == no_index) {
            if (lane == 0)
                tree.header->bounds = mine;
            return;
        }
        index = parent / 4;
        if (index >= nodes)
            return;
        node = tree.nodes + index;
        if (lane == 0)
            store_box(*node, parent % 4, mine);
        inner = node->inner;
    }
}

// The same for boxes by the items' indices, of which there are `n`.
template <class Source>
__device__ __forceinline__ void refit_items(const Refitted& tree, const Source& boxes, unsigned n) {
    refit(tree, ByPlace<Source>{boxes, tree.items, n});
}

// Writes the box of each item in the order of leaves, for queries. A thread for each item within the capacity. An
// item without a valid box gets the empty box.
template <class Boxes>
__device__ __forceinline__ void keep_boxes(
    const BvhHeader* header, const unsigned* items, const Boxes& boxes, unsigned n, aabb<float>* out,
    unsigned capacity
) {
    const unsigned place = thread();
    if (place >= min(header->items, capacity))
        return;
    aabb<float> b;
    if (!ByPlace<Boxes>{boxes, items, n}.box(place, &b) || !is_valid(b))
        b = aabb<float>::empty();
    // An item takes 24 bytes, and the first is aligned to 256.
    float2* to = reinterpret_cast<float2*>(out + place);
    to[0] = {b.lower.x, b.lower.y};
    to[1] = {b.lower.z, b.upper.x};
    to[2] = {b.upper.y, b.upper.z};
}

} // namespace bvh
} // namespace geom
