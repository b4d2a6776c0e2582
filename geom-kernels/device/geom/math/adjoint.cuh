// Helpers for adjoints: vectors in f64, and conversions back to the original type.
//
// An adjoint maps the gradient of a result (of a loss, with respect to it) to the gradients of its inputs. Those of
// geometry are returned, never accumulated: the kernel adds them. All of them are written in exact arithmetic
// (exact.cuh): no bit depends on a program's options.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {
namespace adjoint {

template <class T>
__device__ __forceinline__ vec3<double> wide(vec3<T> a) {
    return vec3<double>(exact::widen(a.x), exact::widen(a.y), exact::widen(a.z));
}

// Converts to the type of the second argument, which is not used otherwise.
__device__ __forceinline__ float rounded(double a, float) { return exact::narrow(a); }
__device__ __forceinline__ double rounded(double a, double) { return a; }

template <class T>
__device__ __forceinline__ T rounded(double a) {
    return rounded(a, T(0));
}
template <class T>
__device__ __forceinline__ vec3<T> rounded(vec3<double> a) {
    return vec3<T>(rounded<T>(a.x), rounded<T>(a.y), rounded<T>(a.z));
}

// a + s b, rounded once.
__device__ __forceinline__ vec3<double> plus_times(vec3<double> a, double s, vec3<double> b) {
    using exact::fma;
    return vec3<double>(fma(s, b.x, a.x), fma(s, b.y, a.y), fma(s, b.z, a.z));
}

// The gradient of v for that of the unit vector v / |v|. The subgradient of the zero vector is 0.
__device__ __forceinline__ vec3<double> of_unit(vec3<double> v, vec3<double> g) {
    using namespace exact;
    const double length = exact::length(v);
    if (!less(0.0, length)) return vec3<double>(0.0);
    const double inverse = div(1.0, length);
    const vec3<double> unit = exact::mul(v, inverse);
    return exact::mul(plus_times(g, neg(exact::dot(unit, g)), unit), inverse);
}

} // namespace adjoint

// Three corners, or the gradients of three corners.
template <class T>
struct Corners3 {
    vec3<T> a, b, c;
};

} // namespace geom
