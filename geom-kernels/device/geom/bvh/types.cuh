// The types of a hierarchy of boxes in device memory. The Rust side of these layouts is src/bvh/layout.rs.
#pragma once

#include <geom/math/box.cuh>
#include <geom/math/load.cuh>

namespace geom {

// The index of no node, item or face.
constexpr unsigned no_index = 0xffffffffu;

// A node with up to four children: their boxes, axis by axis, and their words. It has 128 bytes: one cache line.
//
// A child is a node (its index), a leaf, or absent (`no_index`, with the empty box). A leaf has bit 31 set, the
// number of its items less one in bits 28 to 30, and in the bits below the place of the first of them in the order of
// leaves. So a leaf has at most 8 items, and there are at most 2^28 - 1 items.
struct alignas(128) BvhNode {
    float lower[3][4], upper[3][4];
    unsigned child[4];
    // The parent's index times 4, plus the index of this child in it; `no_index` for the root.
    unsigned parent;
    // The number of children that are nodes.
    unsigned inner;
    // The items below this node are `count` items from place `first` on.
    unsigned first, count;
};

// The encoding of leaves.
constexpr unsigned leaf_bit = 0x80000000u;
__device__ __forceinline__ bool is_leaf(unsigned child) { return (child & leaf_bit) != 0; }
__device__ __forceinline__ unsigned leaf_first(unsigned leaf) { return leaf & 0x0fffffffu; }
__device__ __forceinline__ unsigned leaf_count(unsigned leaf) { return (leaf >> 28 & 7u) + 1; }
__device__ __forceinline__ unsigned make_leaf(unsigned first, unsigned count) {
    return leaf_bit | (count - 1) << 28 | first;
}

// Written by the build, read by every query.
struct BvhHeader {
    // The box of all items; empty without items.
    aabb<float> bounds;
    // The number of nodes, at least one: the root, which is node 0.
    unsigned nodes;
    // Items in the tree, and items that are skipped because their box is empty or not finite.
    unsigned items, skipped;
    // The largest number of nodes on a path from the root to a leaf.
    unsigned depth;
};

// A hierarchy as a kernel argument. All of it is read only while the kernel runs.
struct Bvh {
    const BvhHeader* header;
    const BvhNode* nodes;
    // The index of each item, in the order of leaves.
    const unsigned* items;
    // The box of each item, in the order of leaves; null in meshes, which have triangles.
    const aabb<float>* boxes;
    // The number of boxes that it was built from, including skipped ones.
    unsigned length;
    unsigned unused;
};

// The box of all items.
#ifdef GEOM_AD
__device__ __forceinline__ aabb<float> bounds_of(const Bvh& bvh) {
    const aabb<float>& bounds = bvh.header->bounds;
    return aabb<float>(load_unchanged(&bounds.lower), load_unchanged(&bounds.upper));
}
#else
__device__ __forceinline__ const aabb<float>& bounds_of(const Bvh& bvh) { return bvh.header->bounds; }
#endif

} // namespace geom
