// Iteration over the leaves of a volume, for kernels that process all voxels: of a volume whose nodes are in
// breadth-first order, as builds of this library and NanoVDB's own tools write them.
#pragma once

#include <geom/volume/access.cuh>

namespace geom {
namespace volume {

// The number of leaves.
template <class T>
__device__ __forceinline__ unsigned leaf_count(const Volume<T>& volume) {
    return load_tree<unsigned>(volume.grid + tree_counts);
}

// Leaf i.
template <class T>
__device__ __forceinline__ unsigned char* leaf(const Volume<T>& volume, unsigned i) {
    unsigned char* tree = volume.grid + tree_at;
    return tree + load_tree<unsigned long long>(tree) +
           i * static_cast<unsigned long long>(Format<T>::leaf_bytes);
}

// The first voxel of a leaf, active or not.
__device__ __forceinline__ vec3<int> leaf_origin(const unsigned char* leaf) {
    const int* box = reinterpret_cast<const int*>(leaf);
    return {box[0] & ~7, box[1] & ~7, box[2] & ~7};
}

// The voxel at a place of a leaf: the inverse of `leaf_place`.
__device__ __forceinline__ vec3<int> leaf_voxel(const unsigned char* leaf, unsigned place) {
    const vec3<int> origin = leaf_origin(leaf);
    return {origin.x + static_cast<int>(place >> 6), origin.y + static_cast<int>(place >> 3 & 7),
            origin.z + static_cast<int>(place & 7)};
}

// Whether the voxel at a place of a leaf is active.
__device__ __forceinline__ bool leaf_active(const unsigned char* leaf, unsigned place) {
    return leaf_bit(leaf + Format<float>::leaf_values_mask, place);
}

// The address of a leaf's value at a place, for types whose leaves store values.
template <class T>
__device__ __forceinline__ T* leaf_value(unsigned char* leaf, unsigned place) {
    return reinterpret_cast<T*>(leaf + Format<T>::leaf_values) + place;
}

} // namespace volume
} // namespace geom
