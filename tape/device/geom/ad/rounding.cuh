// Derivatives of remainders, of parts of numbers, and of functions that are constant between steps. Part of the copy
// that `OpSpec::differentiate` reads: see geom/ad/libm.cuh.
#pragma once

#include <geom/ad/mark.cuh>

namespace geom {
namespace ad {
namespace libm {

// Of the remainder r = a - n b by b: -n.
template <typename Num>
__device__ __forceinline__ Num d_modulus(Num a, Num b, Num r) {
    Num n = is_infinite(b) ? (a - r) / b : ::rint((a - r) / b);
    return unless_nan(r, -n);
}

// No function of real numbers.
GEOM_AD_LOST(nextafter)

}  // namespace libm
}  // namespace ad
}  // namespace geom

GEOM_AD_TWO(fmod, unless_nan(y, Num(1)), d_modulus(a, b, y))
GEOM_AD_TWO(remainder, unless_nan(y, Num(1)), d_modulus(a, b, y))
// At a tie, 0.
GEOM_AD_TWO(fdim, unless_nan(y, Num(a > b)), unless_nan(y, -Num(a > b)))
GEOM_AD_TWO(copysign, ::copysign(Num(1), a) * ::copysign(Num(1), b), Num(0))
__device__ __forceinline__ double geom_ad_copysign(double a, float b) {
    return geom_ad_copysign(a, (double)b);
}
__device__ __forceinline__ double geom_ad_copysign(float a, double b) {
    return geom_ad_copysign((double)a, b);
}

// Integers that come out beside the value are computed from constants: no derivative is lost in them.
#define GEOM_AD_PARTS(Num, f)                                                                       \
    __device__ __forceinline__ Num geom_ad_remquo##f(Num active_a, Num active_b, int* quotient) {   \
        using namespace geom::ad::libm;                                                             \
        const Num a = stop(active_a), b = stop(active_b);                                           \
        const Num y = ::remquo##f(a, b, quotient);                                                  \
        return rule(y, active_a, unless_nan(y, Num(1)), active_b, d_modulus(a, b, y));                             \
    }                                                                                               \
    __device__ __forceinline__ Num geom_ad_modf##f(Num x, Num* whole) {                             \
        using namespace geom::ad::libm;                                                             \
        return rule(::modf##f(stop(x), whole), x, Num(1));                                          \
    }                                                                                               \
    __device__ __forceinline__ Num geom_ad_frexp##f(Num x, int* exponent) {                         \
        using namespace geom::ad::libm;                                                             \
        const Num y = ::frexp##f(stop(x), exponent);                                                \
        return rule(y, x, ::ldexp(Num(1), -*exponent));                                             \
    }                                                                                               \
    GEOM_AD_SCALED(Num, ldexp##f, int)                                                              \
    GEOM_AD_SCALED(Num, scalbn##f, int)                                                             \
    GEOM_AD_SCALED(Num, scalbln##f, long)                                                           \
    GEOM_AD_STEPS(Num, round##f, Num)                                                               \
    GEOM_AD_STEPS(Num, logb##f, Num)                                                                \
    GEOM_AD_STEPS(int, ilogb##f, Num)                                                               \
    GEOM_AD_STEPS(long, lround##f, Num)                                                             \
    GEOM_AD_STEPS(long long, llround##f, Num)                                                       \
    __device__ __forceinline__ Num geom_ad_nextafter##f(Num a, Num b) {                             \
        using namespace geom::ad::libm;                                                             \
        return lost_nextafter##f(::nextafter##f(stop(a), stop(b)), a);                              \
    }
#define GEOM_AD_SCALED(Num, name, Int)                                                              \
    __device__ __forceinline__ Num geom_ad_##name(Num x, Int n) {                                   \
        using namespace geom::ad::libm;                                                             \
        return rule(::name(stop(x), n), x, ::name(Num(1), n));                                      \
    }
#define GEOM_AD_STEPS(Result, name, Num)                                                            \
    __device__ __forceinline__ Result geom_ad_##name(Num x) {                                       \
        return ::name(geom::ad::libm::stop(x));                                                     \
    }
GEOM_AD_PARTS(float, f)
GEOM_AD_PARTS(float, )
GEOM_AD_PARTS(double, )
#undef GEOM_AD_PARTS
#undef GEOM_AD_SCALED
#undef GEOM_AD_STEPS
