// Maps between index space and the world. All of it is exact: see exact.cuh.
//
// Sums begin with the last component: fma(x, m0, fma(y, m1, m2 * z)). The map to index space subtracts the translation
// and applies the inverse that the grid stores, in the precision of the argument.
#pragma once

#include <geom/volume/types.cuh>

namespace geom {
namespace volume {

// The coefficients of a map in one precision.
template <class C>
struct MapOf;
template <>
struct MapOf<float> {
    static __device__ __forceinline__ const float* m(const VolumeMap& map) { return map.m; }
    static __device__ __forceinline__ const float* inverse(const VolumeMap& map) { return map.inverse; }
    static __device__ __forceinline__ const float* v(const VolumeMap& map) { return map.v; }
};
template <>
struct MapOf<double> {
    static __device__ __forceinline__ const double* m(const VolumeMap& map) { return map.m64; }
    static __device__ __forceinline__ const double* inverse(const VolumeMap& map) { return map.inverse64; }
    static __device__ __forceinline__ const double* v(const VolumeMap& map) { return map.v64; }
};

// A row of a matrix, or a column of its transpose, times a vector.
template <class C>
__device__ __forceinline__ C row(C a, C b, C c, const vec3<C>& d) {
    return exact::fma(d.x, a, exact::fma(d.y, b, exact::mul(d.z, c)));
}
template <class C>
__device__ __forceinline__ vec3<C> times(const C* m, const vec3<C>& d) {
    return vec3<C>(row(m[0], m[1], m[2], d), row(m[3], m[4], m[5], d), row(m[6], m[7], m[8], d));
}
template <class C>
__device__ __forceinline__ vec3<C> transposed_times(const C* m, const vec3<C>& d) {
    return vec3<C>(row(m[0], m[3], m[6], d), row(m[1], m[4], m[7], d), row(m[2], m[5], m[8], d));
}

} // namespace volume

// Maps positions.
template <class C>
__device__ __forceinline__ vec3<C> index_to_world(const VolumeMap& map, const vec3<C>& p) {
    using Of = volume::MapOf<C>;
    const C *m = Of::m(map), *v = Of::v(map);
    const auto one = [&](int i) {
        return exact::fma(p.x, m[3 * i],
                          exact::fma(p.y, m[3 * i + 1], exact::fma(p.z, m[3 * i + 2], v[i])));
    };
    return vec3<C>(one(0), one(1), one(2));
}
template <class C>
__device__ __forceinline__ vec3<C> world_to_index(const VolumeMap& map, const vec3<C>& p) {
    using Of = volume::MapOf<C>;
    const C* v = Of::v(map);
    return volume::times(Of::inverse(map), exact::sub(p, vec3<C>(v[0], v[1], v[2])));
}

// Maps directions: differences of positions.
template <class C>
__device__ __forceinline__ vec3<C> index_to_world_direction(const VolumeMap& map, const vec3<C>& d) {
    return volume::times(volume::MapOf<C>::m(map), d);
}
template <class C>
__device__ __forceinline__ vec3<C> world_to_index_direction(const VolumeMap& map, const vec3<C>& d) {
    return volume::times(volume::MapOf<C>::inverse(map), d);
}

// Maps gradients, by the transpose of the inverse.
template <class C>
__device__ __forceinline__ vec3<C> index_to_world_gradient(const VolumeMap& map, const vec3<C>& g) {
    return volume::transposed_times(volume::MapOf<C>::inverse(map), g);
}
template <class C>
__device__ __forceinline__ vec3<C> world_to_index_gradient(const VolumeMap& map, const vec3<C>& g) {
    return volume::transposed_times(volume::MapOf<C>::m(map), g);
}

} // namespace geom
