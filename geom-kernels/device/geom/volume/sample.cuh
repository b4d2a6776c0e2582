// Values of volumes at positions in index space, where voxel (i, j, k) has its value at the point (i, j, k).
// All of it is exact: see exact.cuh and interpolate.cuh.
//
// Positions are float or double, and interpolated values are float, double, or three or four of them; if either is
// double, so is the arithmetic. The result has the value's type, rounded last. A position that is not finite, or has
// a coordinate beyond 2^30 in magnitude, has the background and a gradient of zeros.
//
// `world_to_index(volume.map, p)` converts world positions, and `index_to_world_gradient` gradients.
//
// The functions whose names contain `_index` read index grids (VolumeIndex, VolumeOnIndex), and the values from an
// array.
#pragma once

#include <geom/volume/interpolate.cuh>
#include <geom/volume/map.cuh>

namespace geom {
namespace volume {

// The voxel nearest to a position within reach; of two, the one on the far side. The sum is rounded down, so a sum
// below an integer stays below it.
template <class P>
__device__ __forceinline__ vec3<int> nearest_voxel(const vec3<P>& p) {
    const P half = P(0.5);
    return vec3<int>(exact::floor_to_int(exact::add_down(p.x, half)),
                     exact::floor_to_int(exact::add_down(p.y, half)),
                     exact::floor_to_int(exact::add_down(p.z, half)));
}

} // namespace volume

// The value of the nearest voxel: floor(p + 1/2), without rounding the sum. For any type of value.
template <class T, class P>
__device__ __forceinline__ typename volume::Traits<T>::value sample_nearest(const Volume<T>& volume,
                                                                            const vec3<P>& p) {
    if (!volume::in_reach(p)) return background(volume);
    const vec3<int> voxel = volume::nearest_voxel(p);
    return lookup(volume, voxel.x, voxel.y, voxel.z);
}
template <class T, class V, class P>
__device__ __forceinline__ V sample_nearest_index(const Volume<T>& volume, const vec3<P>& p,
                                                  const IndexedValues<V>& values) {
    return values.at(volume::in_reach(p) ? sample_nearest(volume, p) : 0);
}

#ifdef GEOM_AD
// The derivatives are those of the same function in f64, and the values keep their bits.
#define GEOM_SAMPLE_OF(interpolated, source, p)                                                            \
    volume::joined(interpolated(source, volume::converted<C>(p)),                                          \
                   interpolated(source, volume::converted<double>(p)))

namespace volume {

__device__ __forceinline__ float joined(float value, float x) { return ad::rule(value, x, 1.0f); }
__device__ __forceinline__ double joined(double value, double x) { return ad::rule(value, x, 1.0); }
template <class S>
__device__ __forceinline__ vec3<S> joined(const vec3<S>& value, const vec3<S>& x) {
    return vec3<S>(joined(value.x, x.x), joined(value.y, x.y), joined(value.z, x.z));
}
template <class S>
__device__ __forceinline__ vec4<S> joined(const vec4<S>& value, const vec4<S>& x) {
    return vec4<S>(joined(value.x, x.x), joined(value.y, x.y), joined(value.z, x.z), joined(value.w, x.w));
}
template <class S, int N>
__device__ __forceinline__ VectorGradient<S, N> joined(VectorGradient<S, N> value, const VectorGradient<S, N>& x) {
#pragma unroll
    for (int i = 0; i < N; ++i)
        value.of[i] = joined(value.of[i], x.of[i]);
    return value;
}
template <class V>
__device__ __forceinline__ Sample<V> joined(const Sample<V>& value, const Sample<V>& x) {
    return {joined(value.value, x.value), joined(value.gradient, x.gradient)};
}

} // namespace volume
#else
#define GEOM_SAMPLE_OF(interpolated, source, p) interpolated(source, volume::converted<C>(p))
#endif

#define GEOM_SAMPLE(name, what, interpolated)                                                              \
    template <class T, class P>                                                                            \
    __device__ __forceinline__ what(T) name(const Volume<T>& volume, const vec3<P>& p) {                   \
        using C = volume::Real<T, P>;                                                                      \
        const volume::Stored<T> source = {volume};                                                         \
        return GEOM_SAMPLE_OF(interpolated, source, p);                                                    \
    }                                                                                                      \
    template <class T, class V, class P>                                                                   \
    __device__ __forceinline__ what(V) name##_index(const Volume<T>& volume, const vec3<P>& p,             \
                                                    const IndexedValues<V>& values) {                      \
        using C = volume::Real<V, P>;                                                                      \
        const volume::Indexed<T, V> source = {volume, values};                                             \
        return GEOM_SAMPLE_OF(interpolated, source, p);                                                    \
    }
#define GEOM_SAMPLE_VALUE(V) V
#define GEOM_SAMPLE_BOTH(V) Sample<V>
#define GEOM_SAMPLE_TRICUBIC(source, p) volume::tricubic<false>(source, p).value

// Interpolated between the voxels around: see interpolate.cuh.
GEOM_SAMPLE(sample_trilinear, GEOM_SAMPLE_VALUE, volume::trilinear)
GEOM_SAMPLE(sample_trilinear_with_gradient, GEOM_SAMPLE_BOTH, volume::trilinear_with_gradient)
GEOM_SAMPLE(sample_tricubic, GEOM_SAMPLE_VALUE, GEOM_SAMPLE_TRICUBIC)
GEOM_SAMPLE(sample_tricubic_with_gradient, GEOM_SAMPLE_BOTH, volume::tricubic<true>)

#undef GEOM_SAMPLE
#undef GEOM_SAMPLE_OF
#undef GEOM_SAMPLE_VALUE
#undef GEOM_SAMPLE_BOTH
#undef GEOM_SAMPLE_TRICUBIC

} // namespace geom
