// Derivatives of powers, roots, exponentials, logarithms, trigonometric and hyperbolic functions. Part of the copy that
// `OpSpec::differentiate` reads: see geom/ad/libm.cuh.
//
// Each is accurate to a few units in the last place where it is a normal number, wherever the function has a value:
// nothing cancels, and nothing in between is out of range before the derivative is. Outside the domain, where the
// function is NaN, the derivative is NaN.
#pragma once

#include <geom/ad/mark.cuh>

namespace geom {
namespace ad {
namespace libm {

// sech² = 4e / (1 + e)² with e = exp(-2|x|): 1 - tanh² cancels.
template <typename Num>
__device__ __forceinline__ Num sech_squared(Num x) {
    Num e = ::exp(Num(-2) * ::fabs(x));
    Num s = Num(1) + e;
    return Num(4) * e / (s * s);
}

template <typename Num>
__device__ __forceinline__ Num d_tan(Num y) {
    return ::fma(y, y, Num(1));
}

// fma rounds 1 - x² once. Of |x| > 1 this is NaN.
template <typename Num>
__device__ __forceinline__ Num d_asin(Num x) {
    return Num(1) / ::sqrt(::fma(-x, x, Num(1)));
}

template <typename Num>
__device__ __forceinline__ Num d_atan(Num x) {
    return Num(1) / ::fma(x, x, Num(1));
}

template <typename Num>
__device__ __forceinline__ Num d_asinh(Num x) {
    return ::fabs(x) > Num(1e9) ? Num(1) / ::fabs(x) : Num(1) / ::sqrt(::fma(x, x, Num(1)));
}

template <typename Num>
__device__ __forceinline__ Num d_acosh(Num x) {
    return Num(1) / (::sqrt(x - Num(1)) * ::sqrt(x + Num(1)));
}

template <typename Num>
__device__ __forceinline__ Num d_atanh(Num x, Num y) {
    return unless_nan(y, Num(1) / ::fma(-x, x, Num(1)));
}

// Of logarithms: the factor / x, from the right at 0.
template <typename Num>
__device__ __forceinline__ Num d_log(Num x, Num y, Num factor) {
    return unless_nan(y, factor / ::fabs(x));
}

template <typename Num>
__device__ __forceinline__ Num d_log1p(Num x, Num y) {
    return unless_nan(y, Num(1) / (Num(1) + x));
}

// y / (3x) = 1 / (3y²). Infinite at 0.
template <typename Num>
__device__ __forceinline__ Num d_cbrt(Num y) {
    return Num(1) / (Num(3) * y * y);
}

template <typename Num>
__device__ __forceinline__ Num d_rcbrt(Num x, Num y) {
    return y / x * Num(-1.0 / 3.0);
}

template <typename Num>
__device__ __forceinline__ Num d_rsqrt(Num x, Num y) {
    return Num(-0.5) * (y / x);
}

// Of the length r of a vector by its component x: x / r. At the origin 0; an infinite component counts as a direction.
template <typename Num>
__device__ __forceinline__ Num d_norm(Num x, Num r) {
    return r == Num(0) ? Num(0) : is_infinite(x) ? ::copysign(Num(1), x) : x / r;
}

// Of y = 1 / r by x: -x y³. At the origin 0.
template <typename Num>
__device__ __forceinline__ Num d_rnorm(Num x, Num y) {
    return x == Num(0) || y == Num(0) ? Num(0) : -(x * y * y * y);
}

// Of atan2(y, x) by y, and with -y for x by x: x / (x² + y²). At the origin 0.
template <typename Num>
__device__ __forceinline__ Num d_atan2(Num x, Num y) {
    Num r = ::hypot(x, y);
    return r == Num(0) || is_infinite(r) ? Num(0) : x / r / r;
}

// Of p = x^y by x: y x^(y - 1). As y p / x where that is in range: it is accurate where y - 1 is not.
template <typename Num>
__device__ __forceinline__ Num d_pow_base(Num x, Num y, Num p) {
    Num q = p / x;
    Num d = ::fabs(y) <= Num(1) || !is_normal(q) ? p * y / x : y * q;
    d = is_normal(p) ? d : y * ::pow(x, y - Num(1));
    return y == Num(0) || (p == Num(0) && is_infinite(y)) ? Num(0) : d;
}

// Of p = x^y by y: p log x. NaN for a negative x. At x = 0: 0, or -inf for a negative y.
template <typename Num>
__device__ __forceinline__ Num d_pow_exponent(Num x, Num y, Num p) {
    if (x == Num(0) && y >= Num(0)) return Num(0);
    if (p == Num(0) && x > Num(0)) return Num(0);
    return ::fabs(p) * ::log(x);
}

}  // namespace libm
}  // namespace ad
}  // namespace geom

GEOM_AD_ONE(sin, ::cos(x))
GEOM_AD_ONE(cos, -::sin(x))
GEOM_AD_ONE(tan, d_tan(y))
GEOM_AD_ONE(sinpi, Num(GEOM_AD_PI) * ::cospi(x))
GEOM_AD_ONE(cospi, Num(-GEOM_AD_PI) * ::sinpi(x))
GEOM_AD_ONE(asin, d_asin(x))
GEOM_AD_ONE(acos, -d_asin(x))
GEOM_AD_ONE(atan, d_atan(x))
GEOM_AD_ONE(sinh, ::cosh(x))
GEOM_AD_ONE(cosh, ::sinh(x))
GEOM_AD_ONE(tanh, sech_squared(x))
GEOM_AD_ONE(asinh, d_asinh(x))
GEOM_AD_ONE(acosh, d_acosh(x))
GEOM_AD_ONE(atanh, d_atanh(x, y))
GEOM_AD_ONE(exp, y)
GEOM_AD_ONE(exp2, Num(GEOM_AD_LN2) * y)
GEOM_AD_ONE(exp10, Num(GEOM_AD_LN10) * y)
GEOM_AD_ONE(expm1, ::exp(x))
GEOM_AD_ONE(log, d_log(x, y, Num(1)))
GEOM_AD_ONE(log2, d_log(x, y, Num(1 / GEOM_AD_LN2)))
GEOM_AD_ONE(log10, d_log(x, y, Num(1 / GEOM_AD_LN10)))
GEOM_AD_ONE(log1p, d_log1p(x, y))
GEOM_AD_ONE(cbrt, d_cbrt(y))
GEOM_AD_ONE(rcbrt, d_rcbrt(x, y))
GEOM_AD_ONE(rsqrt, d_rsqrt(x, y))

GEOM_AD_TWO(atan2, d_atan2(b, a), d_atan2(-a, b))
GEOM_AD_TWO(hypot, d_norm(a, y), d_norm(b, y))
GEOM_AD_TWO(pow, d_pow_base(a, b, y), d_pow_exponent(a, b, y))
GEOM_AD_TWO_OF(double, rhypot, d_rnorm(a, y), d_rnorm(b, y))
GEOM_AD_TWO_OF(float, rhypotf, d_rnorm(a, y), d_rnorm(b, y))

#define GEOM_AD_POWER(Num)                                                                          \
    __device__ __forceinline__ Num geom_ad_pow(Num active, int n) {                                 \
        using namespace geom::ad::libm;                                                             \
        const Num x = stop(active), y = ::pow(x, n);                                                \
        return rule(y, active, d_pow_base(x, Num(n), y));                                           \
    }
GEOM_AD_POWER(float)
GEOM_AD_POWER(double)
#undef GEOM_AD_POWER

// Lengths of vectors in three and four dimensions, and their reciprocals.
#define GEOM_AD_LENGTHS(Num, prefix, f, slope)                                                      \
    __device__ __forceinline__ Num geom_ad_##prefix##3d##f(Num a, Num b, Num c) {                   \
        using namespace geom::ad::libm;                                                             \
        const Num u = stop(a), v = stop(b), w = stop(c);                                            \
        const Num y = ::prefix##3d##f(u, v, w);                                                     \
        return rule(y, a, slope(u, y), b, slope(v, y), c, slope(w, y));                             \
    }                                                                                               \
    __device__ __forceinline__ Num geom_ad_##prefix##4d##f(Num a, Num b, Num c, Num d) {            \
        using namespace geom::ad::libm;                                                             \
        const Num u = stop(a), v = stop(b), w = stop(c), t = stop(d);                               \
        const Num y = ::prefix##4d##f(u, v, w, t);                                                  \
        return rule(y, a, slope(u, y), b, slope(v, y), c, slope(w, y), d, slope(t, y));             \
    }                                                                                               \
    __device__ __forceinline__ Num geom_ad_##prefix##f(int n, const Num* a) {                       \
        using namespace geom::ad::libm;                                                             \
        const Num y = stop(::prefix##f(n, a));                                                      \
        Num sum = y;                                                                                \
        for (int i = 0; i < n; ++i) sum = rule(sum, sum, Num(1), a[i], slope(a[i], y));             \
        return sum;                                                                                 \
    }
GEOM_AD_LENGTHS(float, norm, f, d_norm)
GEOM_AD_LENGTHS(float, rnorm, f, d_rnorm)
GEOM_AD_LENGTHS(double, norm, , d_norm)
GEOM_AD_LENGTHS(double, rnorm, , d_rnorm)
#undef GEOM_AD_LENGTHS

#define GEOM_AD_SINCOS(Num, name, factor)                                                           \
    __device__ __forceinline__ void geom_ad_##name(Num active, Num* sine, Num* cosine) {            \
        using namespace geom::ad::libm;                                                             \
        Num s, c;                                                                                   \
        ::name(stop(active), &s, &c);                                                               \
        *sine = rule(s, active, Num(factor) * c);                                                   \
        *cosine = rule(c, active, Num(-factor) * s);                                                \
    }
GEOM_AD_SINCOS(float, sincosf, 1)
GEOM_AD_SINCOS(float, sincos, 1)
GEOM_AD_SINCOS(double, sincos, 1)
GEOM_AD_SINCOS(float, sincospif, GEOM_AD_PI)
GEOM_AD_SINCOS(float, sincospi, GEOM_AD_PI)
GEOM_AD_SINCOS(double, sincospi, GEOM_AD_PI)
#undef GEOM_AD_SINCOS
