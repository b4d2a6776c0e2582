// The addresses of values: the result of a descent.
#pragma once

#include <geom/volume/stencil.cuh>

namespace geom {
namespace volume {

// A leaf, or the tile or background that replaces it. `entry` returns the address of a value: in a leaf by its place,
// in a tile always the same.
template <class T>
struct Leaf {
    using entry_type = const unsigned char*;
    const unsigned char* values;
    unsigned step;

    Leaf() = default;
    __device__ __forceinline__ explicit Leaf(const Found<T>& found)
        : values(found.leaf != nullptr ? found.leaf + Format<T>::leaf_values : found.value),
          step(found.leaf != nullptr ? static_cast<unsigned>(sizeof(T)) : 0) {}
    __device__ __forceinline__ entry_type entry(unsigned place) const { return values + place * step; }
};
// For index grids, the entry is the index.
template <class T>
struct IndexLeaf {
    using entry_type = unsigned long long;
    const unsigned char* leaf;
    unsigned long long value;

    IndexLeaf() = default;
    __device__ __forceinline__ explicit IndexLeaf(const Found<T>& found)
        : leaf(found.leaf),
          value(found.leaf != nullptr ? 0 : load<unsigned long long>(found.value)) {}
    __device__ __forceinline__ entry_type entry(unsigned place) const {
        return leaf != nullptr ? leaf_index(leaf, place, static_cast<T*>(nullptr)) : value;
    }
};
template <>
struct Leaf<VolumeIndex> : IndexLeaf<VolumeIndex> {
    using IndexLeaf<VolumeIndex>::IndexLeaf;
};
template <>
struct Leaf<VolumeOnIndex> : IndexLeaf<VolumeOnIndex> {
    using IndexLeaf<VolumeOnIndex>::IndexLeaf;
};

template <class T>
using Entry = typename Leaf<T>::entry_type;

// The type of offsets within the directory's reach, in units.
template <unsigned unit>
struct Number {
    using type = unsigned;
};
template <>
struct Number<1> {
    using type = unsigned long long;
};

// The entries of the eight voxels of a cell, in the order of voxels: x is the slowest.
template <class T>
struct Corners {
    static __device__ __forceinline__ void find(const Volume<T>& volume, const vec3<int>& v,
                                                Entry<T> (&entries)[8]) {
        // The leaves of all voxels are loaded at the same time from the directory. A single leaf is loaded eight
        // times, because that costs less than a test. So does loading an unused entry.
        const unsigned dx = (v.x & 7) == 7, dy = (v.y & 7) == 7, dz = (v.z & 7) == 7;
        const DirectoryPlace place(volume, v.x, v.y, v.z);
        bool all = place.has(dx, dy, dz);
        const unsigned x = all && dx != 0 ? place.ny * place.nz : 0, y = all && dy != 0 ? place.nz : 0,
                       z = all ? dz : 0;
        const unsigned number = all ? place.number() : 0;
        unsigned leaves[8];
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            leaves[k] = __ldg(place.entries + (number + (k & 4 ? x : 0) + (k & 2 ? y : 0) + (k & 1 ? z : 0)));
            all &= leaves[k] != 0;
        }
        if (!all) {
            find_each(volume, v, entries);
            return;
        }
        // The offsets are in units that divide the sizes of values and leaves.
        constexpr unsigned unit = sizeof(T) % 4 == 0 ? 4 : 1, size = sizeof(T) / unit;
        using number_type = typename Number<unit>::type;
        const int ox = dx != 0 ? -448 : 64, oy = dy != 0 ? -56 : 8, oz = dz != 0 ? -7 : 1;
        const int at = leaf_place(v.x, v.y, v.z);
        const unsigned char* const values = volume.grid + Format<T>::leaf_values;
#pragma unroll
        for (unsigned k = 0; k < 8; ++k) {
            const unsigned in_leaf = size * (at + (k & 4 ? ox : 0) + (k & 2 ? oy : 0) + (k & 1 ? oz : 0));
            const number_type n = number_type(32 / unit) * leaves[k] + in_leaf;
            entries[k] = values + static_cast<unsigned long long>(n) * unit;
        }
    }

    // Finds one leaf after the other by descents.
    static __device__ __forceinline__ void find_each(const Volume<T>& volume, const vec3<int>& v,
                                                     Entry<T> (&entries)[8]) {
        const Lower lower = find_lower(volume, v.x, v.y, v.z);
        for_each_leaf<1>(volume, v, lower, [&](unsigned side, unsigned split, const Found<T>& found) {
            const Leaf<T> leaf(found);
#pragma unroll
            for (unsigned k = 0; k < 8; ++k)
                if ((k & split) == side)
                    entries[k] = leaf.entry(leaf_place(v.x + (k >> 2), v.y + (k >> 1 & 1), v.z + (k & 1)));
        });
    }
};
// Leaves of index grids store only the start of their indices, so values have no address there.
template <>
__device__ __forceinline__ void Corners<VolumeIndex>::find(const Volume<VolumeIndex>& volume, const vec3<int>& v,
                                                           Entry<VolumeIndex> (&entries)[8]) {
    find_each(volume, v, entries);
}
template <>
__device__ __forceinline__ void Corners<VolumeOnIndex>::find(const Volume<VolumeOnIndex>& volume,
                                                             const vec3<int>& v,
                                                             Entry<VolumeOnIndex> (&entries)[8]) {
    find_each(volume, v, entries);
}

} // namespace volume
} // namespace geom
