// Markers for adjoints that are generated from kernels with queries. The headers of queries include it if GEOM_AD is
// defined: in the compilation that `OpSpec::differentiate` reads. geom/ad.cuh has the markers for kernels.
//
// A query searches with constants: `ad::stop` of its arguments. From its exact result, the headers compute numbers
// with the result's derivatives, and `ad::rule` combines the value of the former with the derivatives of the latter.
#pragma once

#include <geom/ad.cuh>
#include <geom/math/vec.cuh>

namespace geom {
namespace ad {

#define GEOM_AD_MARKER(name, word)                                                                  \
    __device__ __forceinline__ float name(float x) {                                                \
        float y;                                                                                    \
        asm("ad." word(f32) " %0, %1;" : "=f"(y) : "f"(x));                                         \
        return y;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ double name(double x) {                                              \
        double y;                                                                                   \
        asm("ad." word(f64) " %0, %1;" : "=d"(y) : "d"(x));                                         \
        return y;                                                                                   \
    }                                                                                               \
    template <class T>                                                                              \
    __device__ __forceinline__ vec3<T> name(const vec3<T>& x) {                                     \
        return vec3<T>(name(x.x), name(x.y), name(x.z));                                            \
    }                                                                                               \
    template <class T>                                                                              \
    __device__ __forceinline__ vec4<T> name(const vec4<T>& x) {                                     \
        return vec4<T>(name(x.x), name(x.y), name(x.z), name(x.w));                                 \
    }

// x, which was loaded through a pointer of an argument. It has a gradient if the specification declares that pointer
// as active, and is a constant if the specification does not declare the pointer. Types that are not real numbers are
// returned unchanged.
#define GEOM_AD_WORD(type) "loaded." #type
GEOM_AD_MARKER(loaded, GEOM_AD_WORD)
#undef GEOM_AD_WORD
template <class T>
__device__ __forceinline__ T loaded(const T& x) {
    return x;
}

// x with an unknown derivative, like `lost`. The last word of the marker selects the message: x comes from a grid's
// copy of its points; is the result of a search; is an attribute that was computed from a mesh.
#define GEOM_AD_WORD(type) "lost." #type ".grid"
GEOM_AD_MARKER(lost_copy, GEOM_AD_WORD)
#undef GEOM_AD_WORD
#define GEOM_AD_WORD(type) "lost." #type ".result"
GEOM_AD_MARKER(lost_result, GEOM_AD_WORD)
#undef GEOM_AD_WORD
#define GEOM_AD_WORD(type) "lost." #type ".normals"
GEOM_AD_MARKER(lost_normals, GEOM_AD_WORD)
#undef GEOM_AD_WORD
#undef GEOM_AD_MARKER

// The sum x plus a times b: of a differentiable number, and a constant.
__device__ __forceinline__ double plus(double x, double a, double b) { return exact::fma(a, b, x); }

// The sum of differentiable numbers with constant factors.
__device__ __forceinline__ double weighted(const vec3<double>& factors, const vec3<double>& x) {
    return plus(plus(exact::mul(x.x, factors.x), x.y, factors.y), x.z, factors.z);
}

// `value` with the derivative of x.
__device__ __forceinline__ float with_derivative_of(float value, double x) {
    return rule(value, exact::narrow(x), 1.0f);
}
__device__ __forceinline__ vec3<float> with_derivative_of(const vec3<float>& value, const vec3<double>& x) {
    return vec3<float>(with_derivative_of(value.x, x.x), with_derivative_of(value.y, x.y),
                       with_derivative_of(value.z, x.z));
}

} // namespace ad
} // namespace geom
