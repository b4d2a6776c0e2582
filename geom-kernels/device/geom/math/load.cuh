// Loads of structures that no kernel writes while another reads them: trees, grids, and their sources.
//
// In a program that is differentiated, special instructions mark these loads, so that it may store to its outputs
// before a query.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {

template <class T>
__device__ __forceinline__ T load_unchanged(const T* at) {
#ifdef GEOM_AD
    return __ldg(at);
#else
    return *at;
#endif
}

template <class T>
__device__ __forceinline__ vec3<T> load_unchanged(const vec3<T>* at) {
#ifdef GEOM_AD
    return vec3<T>(__ldg(&at->x), __ldg(&at->y), __ldg(&at->z));
#else
    return *at;
#endif
}

} // namespace geom
