// Descents from coordinates to values: from the root to a leaf, or to a tile if there is none.
//
// A descent loads a tile of the root, a mask's word and an entry of an upper node, the same of a lower node, and the
// value: loads of one level do not wait for each other. Neighbours in the same lower node (128^3 voxels) cost one
// level. The directory of leaves (directory.cuh) replaces most descents.
#pragma once

#include <geom/volume/directory.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {
namespace volume {

// Loads a value, in words of a size that other threads write at once.
template <class T>
__device__ __forceinline__ T load(const unsigned char* at) {
    __builtin_assume(__isGlobal(at));
    return *reinterpret_cast<const T*>(at);
}
// Loads a value of the volume, which has a gradient if the specification of a recorded kernel declares one.
template <class T>
__device__ __forceinline__ T load_value(const unsigned char* at) {
#ifdef GEOM_AD
    return ad::loaded(load<T>(at));
#else
    return load<T>(at);
#endif
}
// Loads a word of the tree itself, which does not change while a kernel that reads it runs.
template <class T>
__device__ __forceinline__ T load_tree(const unsigned char* at) {
    return __ldg(reinterpret_cast<const T*>(at));
}

// The indices of a voxel's entry in nodes of the three levels.
__device__ __forceinline__ unsigned upper_place(int x, int y, int z) {
    return (x >> 7 & 31) << 10 | (y >> 7 & 31) << 5 | (z >> 7 & 31);
}
__device__ __forceinline__ unsigned lower_place(int x, int y, int z) {
    return (x >> 3 & 15) << 8 | (y >> 3 & 15) << 4 | (z >> 3 & 15);
}
__device__ __forceinline__ unsigned leaf_place(int x, int y, int z) {
    return (x & 7) << 6 | (y & 7) << 3 | (z & 7);
}
// The key of a root tile, of 4096^3 voxels.
__device__ __forceinline__ unsigned long long root_key(int x, int y, int z) {
    const unsigned i = static_cast<unsigned>(x) >> 12, j = static_cast<unsigned>(y) >> 12,
                   k = static_cast<unsigned>(z) >> 12;
    return static_cast<unsigned long long>(i) << 42 | static_cast<unsigned long long>(j) << 21 | k;
}

// The result of a descent: a leaf or, without one, the value of a tile or the background.
template <class T>
struct Found {
    const unsigned char* leaf;
    const unsigned char* value;

    // The value at a place of the leaf; without a leaf, all places have the same value.
    __device__ __forceinline__ typename Traits<T>::value at(unsigned place) const;
};

// The result of a descent above leaves: a lower node or, without one, a value.
struct Lower {
    const unsigned char* node;
    const unsigned char* value;
};

// A word of a mask and the entry of the same place, which is the distance of a child if the mask says so.
template <unsigned mask, unsigned table, unsigned entry_bytes>
__device__ __forceinline__ const unsigned char*
child(const unsigned char* node, unsigned place, const unsigned char** value) {
    const unsigned word = load_tree<unsigned>(node + mask + 4 * (place >> 5));
    const unsigned char* entry = node + table + place * entry_bytes;
    const long long distance = load_tree<long long>(entry);
    *value = entry;
    return (word >> (place & 31) & 1) != 0 ? node + distance : nullptr;
}

// An entry of the root, and its node's distance from the root, 0 without one. Null if there is no entry.
struct RootEntry {
    const unsigned char* at;
    unsigned long long child;
};

// The order of a root's entries: by signed coordinates, x first. The format requires no order.
__device__ __forceinline__ unsigned long long root_order(unsigned long long key) {
    return key ^ (1ull << 61 | 1ull << 40 | 1ull << 19);
}

// Reading this many entries costs no more than a binary search.
constexpr unsigned few_entries = 8;

// The entry with a key, among `left` entries of `bytes` each. If there are many and `in_order` is true, a binary
// search reduces them until few are left. Otherwise all of them are read.
template <class InOrder>
__device__ __forceinline__ RootEntry find_entry(const unsigned char* entry, unsigned left, unsigned bytes,
                                                unsigned long long key, const InOrder& in_order) {
    if (left > few_entries && in_order()) {
#pragma unroll 1
        while (left > few_entries) {
            const unsigned half = left / 2;
            const unsigned char* middle = entry + half * static_cast<unsigned long long>(bytes);
            const bool behind = root_order(load_tree<unsigned long long>(middle)) <= root_order(key);
            entry = behind ? middle : entry;
            left = behind ? left - half : half;
        }
    }
    for (; left != 0; --left) {
        const ulonglong2 key_child = load_tree<ulonglong2>(entry);
        if (key_child.x == key) return {entry, key_child.y};
        entry += bytes;
    }
    return {nullptr, 0};
}

// The root's entry for a voxel.
template <class T>
__device__ __forceinline__ RootEntry root_entry(const Volume<T>& volume, int x, int y, int z) {
    using F = Format<T>;
    const auto in_order = [&] {
        return __ldg(&reinterpret_cast<const Directory*>(volume.directory)->in_order) != 0;
    };
    return find_entry(volume.root + F::root_bytes, load_tree<unsigned>(volume.root + F::root_tiles),
                      F::tile_bytes, root_key(x, y, z), in_order);
}

template <class T>
__device__ __forceinline__ Lower find_lower(const Volume<T>& volume, int x, int y, int z) {
    using F = Format<T>;
    const RootEntry entry = root_entry(volume, x, y, z);
    if (entry.at == nullptr) return {nullptr, volume.root + F::root_background};
    Lower found = {nullptr, entry.at + F::tile_value};
    if (entry.child != 0)
        found.node = child<F::upper_children, F::upper_table, F::entry_bytes>(
            volume.root + entry.child, upper_place(x, y, z), &found.value);
    return found;
}

template <class T>
__device__ __forceinline__ Found<T> find_below(const Lower& lower, int x, int y, int z) {
    using F = Format<T>;
    Found<T> found = {nullptr, lower.value};
    if (lower.node != nullptr)
        found.leaf = child<F::lower_children, F::lower_table, F::entry_bytes>(
            lower.node, lower_place(x, y, z), &found.value);
    return found;
}

template <class T>
__device__ __forceinline__ Found<T> find(const Volume<T>& volume, int x, int y, int z) {
    const DirectoryPlace place(volume, x, y, z);
    const bool has = place.has();
    const unsigned entry = __ldg(place.entries + (has ? place.number() : 0));
    if (has && entry != 0) {
        const unsigned char* leaf = volume.grid + 32ull * entry;
        // The value is not used with a leaf, but some code reads it.
        return {leaf, leaf};
    }
    return find_below<T>(find_lower(volume, x, y, z), x, y, z);
}

// The index of a leaf's value. It is 0 for inactive voxels, which have none in grids that index only active ones.
__device__ __forceinline__ unsigned long long leaf_index(const unsigned char* leaf, unsigned place,
                                                         VolumeIndex*) {
    return load_tree<unsigned long long>(leaf + Format<VolumeIndex>::leaf_offset) + place;
}
__device__ __forceinline__ unsigned long long leaf_index(const unsigned char* leaf, unsigned place,
                                                         VolumeOnIndex*) {
    using F = Format<VolumeOnIndex>;
    const unsigned word = place >> 6, bit = place & 63;
    const auto mask = load_tree<unsigned long long>(leaf + F::leaf_values_mask + 8 * word);
    const auto offset_sums = load_tree<ulonglong2>(leaf + F::leaf_offset);
    if ((mask >> bit & 1) == 0) return 0;
    const unsigned before = word == 0 ? 0 : offset_sums.y >> (9 * (word - 1)) & 511;
    return offset_sums.x + before + __popcll(mask & ((1ull << bit) - 1));
}

// A bit of a mask of 512 bits.
__device__ __forceinline__ bool leaf_bit(const unsigned char* mask, unsigned place) {
    return (load<unsigned>(mask + 4 * (place >> 5)) >> (place & 31) & 1) != 0;
}

template <class T>
struct Read {
    static __device__ __forceinline__ T at(const Found<T>& found, unsigned place) {
        const unsigned char* in_leaf = found.leaf + Format<T>::leaf_values + place * sizeof(T);
        return load_value<T>(found.leaf != nullptr ? in_leaf : found.value);
    }
};
template <>
struct Read<VolumeMask> {
    // The value of a voxel is whether it is active; for a tile this is stored as its value.
    static __device__ __forceinline__ bool at(const Found<VolumeMask>& found, unsigned place) {
        return found.leaf != nullptr ? leaf_bit(found.leaf + Format<VolumeMask>::leaf_values_mask, place)
                                     : load<unsigned char>(found.value) != 0;
    }
};
template <>
struct Read<VolumeBool> {
    static __device__ __forceinline__ bool at(const Found<VolumeBool>& found, unsigned place) {
        return found.leaf != nullptr ? leaf_bit(found.leaf + Format<VolumeBool>::leaf_values, place)
                                     : load<unsigned char>(found.value) != 0;
    }
};
template <class T>
struct ReadIndex {
    static __device__ __forceinline__ unsigned long long at(const Found<T>& found, unsigned place) {
        return found.leaf != nullptr ? leaf_index(found.leaf, place, static_cast<T*>(nullptr))
                                     : load<unsigned long long>(found.value);
    }
};
template <>
struct Read<VolumeIndex> : ReadIndex<VolumeIndex> {};
template <>
struct Read<VolumeOnIndex> : ReadIndex<VolumeOnIndex> {};

template <class T>
__device__ __forceinline__ typename Traits<T>::value Found<T>::at(unsigned place) const {
    return Read<T>::at(*this, place);
}

} // namespace volume

// The value of voxel (x, y, z), also of an inactive one; the background where nothing is stored.
template <class T>
__device__ __forceinline__ typename volume::Traits<T>::value lookup(const Volume<T>& volume, int x, int y,
                                                                     int z) {
    return volume::find(volume, x, y, z).at(volume::leaf_place(x, y, z));
}

// The value where nothing is stored.
template <class T>
__device__ __forceinline__ typename volume::Traits<T>::value background(const Volume<T>& volume) {
    volume::Found<T> found = {nullptr, volume.root + volume::Format<T>::root_background};
    return found.at(0);
}

} // namespace geom
