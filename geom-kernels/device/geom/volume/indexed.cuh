// Index grids: the values of their voxels are in separate arrays, and one grid may have several.
#pragma once

#include <geom/volume/entries.cuh>

namespace geom {

// An array with a value for each index from 1 on: `data[index - 1]`. Index 0, the background's, and indices beyond
// the array have the value `background`.
template <class V>
struct IndexedValues {
    const V* data;
    unsigned long long count;
    V background;

    __device__ __forceinline__ V at(unsigned long long index) const {
        // The subtraction turns 0 into the greatest number.
        const unsigned long long place = index - 1;
        return place < count ? data[place] : background;
    }
};

namespace volume {

// The sources of values for interpolation: a volume itself, or an index grid and an array.
template <class T>
struct Stored {
    using grid = T;
    using value = T;
    const Volume<T>& volume;

    __device__ __forceinline__ T fetch(const unsigned char* entry) const { return load_value<T>(entry); }
    __device__ __forceinline__ T outside() const { return background(volume); }
};
template <class T, class V>
struct Indexed {
    using grid = T;
    using value = V;
    const Volume<T>& volume;
    const IndexedValues<V>& values;

    __device__ __forceinline__ V fetch(unsigned long long index) const { return values.at(index); }
    __device__ __forceinline__ V outside() const { return values.background; }
};

} // namespace volume
} // namespace geom
