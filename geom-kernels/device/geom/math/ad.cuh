// Markers for adjoints that are generated from kernels with queries. The headers of queries include it where GEOM_AD
// is defined: in the copy of a program that `OpSpec::differentiate` reads. geom/ad.cuh has the markers for kernels.
//
// The search of a query runs on constants: `ad::stop` of what the caller gives. From its result, which is exact, the
// headers compute numbers with the derivatives of the result, and `ad::rule` joins the value of the one with the
// derivatives of the other.
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

// x, which was loaded by a pointer of an argument. It has a gradient if the specification declares that pointer as
// active, and is a constant if the specification does not declare the pointer. Other types than those of real numbers
// are left alone.
#define GEOM_AD_WORD(type) "loaded." #type
GEOM_AD_MARKER(loaded, GEOM_AD_WORD)
#undef GEOM_AD_WORD
template <class T>
__device__ __forceinline__ T loaded(const T& x) {
    return x;
}

// x with an unknown derivative, as `lost`. The last word of the marker chooses the message: x comes from the copy that
// a grid has of its points; is the result of a search; is an attribute that was computed from a mesh.
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

// x plus a times b: a number with a derivative, and a constant.
__device__ __forceinline__ double plus(double x, double a, double b) { return exact::fma(a, b, x); }

// The sum of numbers with constant factors.
__device__ __forceinline__ double weighted(const vec3<double>& factors, const vec3<double>& x) {
    return plus(plus(exact::mul(x.x, factors.x), x.y, factors.y), x.z, factors.z);
}

// The value with the derivative of a number.
__device__ __forceinline__ float with_derivative_of(float value, double x) {
    return rule(value, exact::narrow(x), 1.0f);
}
__device__ __forceinline__ vec3<float> with_derivative_of(const vec3<float>& value, const vec3<double>& x) {
    return vec3<float>(with_derivative_of(value.x, x.x), with_derivative_of(value.y, x.y),
                       with_derivative_of(value.z, x.z));
}

} // namespace ad
} // namespace geom
