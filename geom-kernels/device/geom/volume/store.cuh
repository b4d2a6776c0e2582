// Tests whether voxels are active, and writes the values of voxels that a volume stores.
#pragma once

#include <geom/volume/access.cuh>

namespace geom {
namespace volume {

// A bit of a mask of any length.
__device__ __forceinline__ bool mask_bit(const unsigned char* mask, unsigned place) {
    return (load<unsigned>(mask + 4 * (place >> 5)) >> (place & 31) & 1) != 0;
}

// Stores atomically: bits share words with those of other voxels.
__device__ __forceinline__ void store_bit(unsigned char* mask, unsigned place, bool value) {
    unsigned* word = reinterpret_cast<unsigned*>(mask + 4 * (place >> 5));
    const unsigned bit = 1u << (place & 31);
    if (value)
        atomicOr(word, bit);
    else
        atomicAnd(word, ~bit);
}

// Relaxed stores are strong operations: two threads may store the same word without a data race (PTX ISA, "Memory
// Consistency Model"), and its bytes are those of one of them.
__device__ __forceinline__ void store_word(unsigned char* at, unsigned char word) {
    asm volatile("st.relaxed.gpu.global.u8 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(at)), "h"(static_cast<unsigned short>(word))
                 : "memory");
}
__device__ __forceinline__ void store_word(unsigned char* at, unsigned short word) {
    asm volatile("st.relaxed.gpu.global.u16 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(at)), "h"(word)
                 : "memory");
}
__device__ __forceinline__ void store_word(unsigned char* at, unsigned word) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(at)), "r"(word)
                 : "memory");
}
__device__ __forceinline__ void store_word(unsigned char* at, unsigned long long word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(at)), "l"(word)
                 : "memory");
}

// The unsigned integer of the size of a value's alignment: a whole number, or one component of a vector.
template <unsigned bytes>
struct Word;
template <>
struct Word<1> {
    using type = unsigned char;
};
template <>
struct Word<2> {
    using type = unsigned short;
};
template <>
struct Word<4> {
    using type = unsigned;
};
template <>
struct Word<8> {
    using type = unsigned long long;
};

template <class T>
struct Write {
    static __device__ __forceinline__ void at(unsigned char* leaf, unsigned place, const T& value) {
        using W = typename Word<alignof(T)>::type;
        constexpr unsigned count = sizeof(T) / sizeof(W);
        static_assert(count * sizeof(W) == sizeof(T), "values consist of whole words");
        W words[count];
        memcpy(words, &value, sizeof(T));
        unsigned char* there = leaf + Format<T>::leaf_values + place * sizeof(T);
#pragma unroll
        for (unsigned i = 0; i < count; ++i) store_word(there + i * sizeof(W), words[i]);
    }
};
template <>
struct Write<VolumeMask> {
    static __device__ __forceinline__ void at(unsigned char* leaf, unsigned place, bool value) {
        store_bit(leaf + Format<VolumeMask>::leaf_values_mask, place, value);
    }
};
template <>
struct Write<VolumeBool> {
    static __device__ __forceinline__ void at(unsigned char* leaf, unsigned place, bool value) {
        store_bit(leaf + Format<VolumeBool>::leaf_values, place, value);
    }
};

} // namespace volume

// Whether voxel (x, y, z) is active: itself, or as part of a tile.
template <class T>
__device__ __forceinline__ bool is_active(const Volume<T>& volume, int x, int y, int z) {
    using F = volume::Format<T>;
    const volume::RootEntry in_root = volume::root_entry(volume, x, y, z);
    if (in_root.at == nullptr) return false;
    if (in_root.child == 0) return volume::load<unsigned>(in_root.at + F::tile_state) != 0;
    const unsigned char *upper = volume.root + in_root.child, *entry;
    const unsigned in_upper = volume::upper_place(x, y, z), in_lower = volume::lower_place(x, y, z);
    const unsigned char* lower =
        volume::child<F::upper_children, F::upper_table, F::entry_bytes>(upper, in_upper, &entry);
    if (lower == nullptr) return volume::mask_bit(upper + F::node_values, in_upper);
    const unsigned char* leaf =
        volume::child<F::lower_children, F::lower_table, F::entry_bytes>(lower, in_lower, &entry);
    if (leaf == nullptr) return volume::mask_bit(lower + F::node_values, in_lower);
    return volume::mask_bit(leaf + F::leaf_values_mask, volume::leaf_place(x, y, z));
}

// Writes the value of voxel (x, y, z) if it lies in a leaf, and returns whether it does; voxels of tiles and those
// outside stay unchanged. The voxel does not become active by that (except in a mask, which has no other value), and
// the grid's stored minima, maxima and averages are not updated.
//
// Threads may write voxels at the same time, even the same voxel: it then has the value of one of them. For a vector,
// each component has the value of one of them, not always of the same one. If a thread reads a voxel while another
// one writes it, that is a data race.
template <class T>
__device__ __forceinline__ bool store(const Volume<T>& volume, int x, int y, int z,
                                      const typename volume::Traits<T>::value& value) {
    static_assert(!volume::Traits<T>::is_index, "the values of index grids lie elsewhere");
    const unsigned char* leaf = volume::find(volume, x, y, z).leaf;
    if (leaf == nullptr) return false;
    // The distance is applied to the volume's own pointer, which is not const.
    unsigned char* there = volume.grid + (leaf - volume.grid);
    volume::Write<T>::at(there, volume::leaf_place(x, y, z), value);
    return true;
}

} // namespace geom
