// What the derivatives of CUDA's functions are written with. Part of the copy that `OpSpec::differentiate` reads: see
// geom/ad/libm.cuh.
#pragma once

#include <geom/ad.cuh>

namespace geom {
namespace ad {
namespace libm {

using detail::rule;
using detail::stop;

// Variables would be in every image.
#define GEOM_AD_PI 3.14159265358979323846
#define GEOM_AD_LN2 0.693147180559945309417
#define GEOM_AD_LN10 2.30258509299404568402
#define GEOM_AD_SQRT_PI 1.77245385090551602730
#define GEOM_AD_SQRT_2 1.41421356237309504880

__device__ __forceinline__ float infinity(float) { return __int_as_float(0x7f800000); }
__device__ __forceinline__ double infinity(double) {
    return __longlong_as_double(0x7ff0000000000000LL);
}
__device__ __forceinline__ float smallest_normal(float) { return 1.17549435e-38f; }
__device__ __forceinline__ double smallest_normal(double) { return 2.2250738585072014e-308; }

template <typename Num>
__device__ __forceinline__ bool is_infinite(Num x) {
    return ::fabs(x) == infinity(x);
}
template <typename Num>
__device__ __forceinline__ bool is_normal(Num x) {
    return ::fabs(x) >= smallest_normal(x) && ::fabs(x) < infinity(x);
}

// The derivative d where the value y is a number.
template <typename Num>
__device__ __forceinline__ Num unless_nan(Num y, Num d) {
    return y == y ? d : y;
}

// Sum of c[k] x^k.
template <typename Num, int count>
__device__ __forceinline__ Num polynomial(Num x, const double (&c)[count]) {
    Num sum = Num(c[count - 1]);
#pragma unroll
    for (int k = count - 2; k >= 0; --k) sum = ::fma(sum, x, Num(c[k]));
    return sum;
}

}  // namespace libm
}  // namespace ad
}  // namespace geom

// Declares geom_ad_NAME, which is ::NAME with this derivative: an expression of x, of the value y, and of the type Num.
// Both are computed from a constant copy of x: the function itself may look at bits.
#define GEOM_AD_ONE_OF(type, name, ...)                                                             \
    __device__ __forceinline__ type geom_ad_##name(type active) {                                   \
        using namespace geom::ad::libm;                                                             \
        using Num = type;                                                                           \
        const Num x = stop(active);                                                                 \
        const Num y = ::name(x);                                                                    \
        return rule(y, active, __VA_ARGS__);                                                        \
    }
// The same for the names of float and of double.
#define GEOM_AD_ONE(name, ...)                                                                      \
    GEOM_AD_ONE_OF(float, name##f, __VA_ARGS__)                                                     \
    GEOM_AD_ONE_OF(float, name, __VA_ARGS__)                                                        \
    GEOM_AD_ONE_OF(double, name, __VA_ARGS__)
// The same for functions of a and b.
#define GEOM_AD_TWO_OF(type, name, by_a, by_b)                                                      \
    __device__ __forceinline__ type geom_ad_##name(type active_a, type active_b) {                  \
        using namespace geom::ad::libm;                                                             \
        using Num = type;                                                                           \
        const Num a = stop(active_a), b = stop(active_b);                                           \
        const Num y = ::name(a, b);                                                                 \
        return rule(y, active_a, by_a, active_b, by_b);                                             \
    }
#define GEOM_AD_TWO(name, by_a, by_b)                                                               \
    GEOM_AD_TWO_OF(float, name##f, by_a, by_b)                                                      \
    GEOM_AD_TWO_OF(float, name, by_a, by_b)                                                         \
    GEOM_AD_TWO_OF(double, name, by_a, by_b)

// Marks y as a value of this function, without a known derivative by x.
#define GEOM_AD_LOST_OF(type, constraint, suffix, name, function)                                   \
    __device__ __forceinline__ type name(type y, type x) {                                          \
        type z;                                                                                     \
        asm("ad.rule." suffix " %0, %1, %2, %1;" : "=" constraint(z) : constraint(y), constraint(x)); \
        asm("ad.lost." suffix "." #function " %0, %1;" : "=" constraint(y) : constraint(z));        \
        return y;                                                                                   \
    }
#define GEOM_AD_LOST(name)                                                                          \
    GEOM_AD_LOST_OF(float, "f", "f32", lost_##name##f, name##f)                                     \
    GEOM_AD_LOST_OF(float, "f", "f32", lost_##name, name)                                           \
    GEOM_AD_LOST_OF(double, "d", "f64", lost_##name, name)
