// Derivatives of error and gamma functions. Part of the copy that `OpSpec::differentiate` reads: see geom/ad/libm.cuh.
#pragma once

#include <geom/ad/mark.cuh>

namespace geom {
namespace ad {
namespace libm {

// The tables below are Chebyshev interpolants, computed with 50 digits, as sums of powers.

// exp(-x²): the rounding error of the square is put back.
template <typename Num>
__device__ __forceinline__ Num gaussian(Num x, Num factor) {
    Num square = x * x;
    Num error = is_infinite(square) ? Num(0) : ::fma(x, x, -square);
    Num e = ::exp(-factor * square);
    return e - e * factor * error;
}

// (1 / sqrt(pi) - x erfcx(x)) (1 + 2x²) for x >= 1/2, where s grows from -1 at 1/2 to 1 at infinity.
__device__ __forceinline__ float erfcx_tail(float s) {
    constexpr double coefficients[] = {
        0.5343278500251357, 0.08896126315518035, -0.09943942281454882, 0.04632418796683819,
        0.009435930008319066, -0.03302201766371692, 0.027628658927899764, -0.012962828659813044,
        0.0028393741534838606, 0.0005005592936398616, -0.00047928388576981974, 4.3477465312477484e-05,
        3.9994458296780304e-05, -8.158459226825971e-06,
    };
    return polynomial(s, coefficients);
}
__device__ __forceinline__ double erfcx_tail(double s) {
    constexpr double coefficients[] = {
        0.534327850567854, 0.08896126173184468, -0.09943947652524972, 0.04632424181701405, 0.009436800819456347,
        -0.03302260974337559, 0.027623335110681418, -0.012959937124948273, 0.002855026239060478,
        0.0004932159368120742, -0.0005033809549011424, 5.372538506885139e-05, 5.932613916528908e-05,
        -1.5910039290758152e-05, -7.307733167885505e-06, 2.9089365241759492e-06, 1.092963493807809e-06,
        -4.76990847899711e-07, -1.990172260539505e-07, 7.1347574280021e-08, 3.839684045962562e-08,
        -8.696803486202643e-09, -6.214141276314703e-09, 6.258360299633587e-10, 5.704824371599844e-10,
    };
    return polynomial(s, coefficients);
}

// 2xy - 2 / sqrt(pi), without its cancellation.
template <typename Num>
__device__ __forceinline__ Num d_erfcx(Num x, Num y) {
    if (!(x > Num(0.5))) return Num(2) * x * y - Num(2 / GEOM_AD_SQRT_PI);
    // s = 2 (t + 5/7) / (12/7) - 1 with t = (x - 3) / (x + 3).
    Num s = is_infinite(x) ? Num(1) : Num(1) - Num(7) / (x + Num(3));
    return Num(-2) * erfcx_tail(s) / ::fma(Num(2) * x, x, Num(1));
}

// Of the z with erfc(z) = p, by p, for z >= 0: exp(z²) is erfcx(z) / p.
template <typename Num>
__device__ __forceinline__ Num d_tail_inverse(Num z, Num p) {
    return is_infinite(z) ? z : Num(GEOM_AD_SQRT_PI / 2) * ::erfcx(z) / p;
}

// Each is symmetric about the middle of its domain, and 1 - x is exact in the upper half.
template <typename Num>
__device__ __forceinline__ Num d_erfinv(Num x, Num y) {
    Num p = Num(1) - ::fabs(x), z = ::fabs(y);
    return ::fabs(x) < Num(0.5) ? Num(GEOM_AD_SQRT_PI / 2) * ::exp(y * y) : d_tail_inverse(z, p);
}
template <typename Num>
__device__ __forceinline__ Num d_erfcinv(Num x, Num y) {
    return -d_tail_inverse(::fabs(y), x > Num(1) ? Num(2) - x : x);
}
template <typename Num>
__device__ __forceinline__ Num d_normcdfinv(Num x, Num y) {
    Num p = x > Num(0.5) ? Num(1) - x : x;
    return Num(2 * GEOM_AD_SQRT_2) * d_tail_inverse(::fabs(y) * Num(GEOM_AD_SQRT_2 / 2), Num(2) * p);
}

// psi of a number of 1 to 2: its distance from the root, which is a sum of two parts, times a polynomial.
__device__ __forceinline__ float digamma_near_root(float x) {
    constexpr double coefficients[] = {
        0.9510558754198685, -0.21181370928212218, 0.060135664668828505, -0.018550653007758756,
        0.005936293768405676, -0.0019347702134239469, 0.0006389825080534076, -0.00021174199105253354,
        6.605143475494368e-05, -2.166338893603302e-05, 1.096960477304805e-05, -3.761455020610743e-06,
    };
    return ((x - 1.4616321325302124f) - 1.243815006546356e-08f) * polynomial(2.0f * x - 3.0f, coefficients);
}
__device__ __forceinline__ double digamma_near_root(double x) {
    constexpr double coefficients[] = {
        0.951055876031833, -0.2118137106407303, 0.060135621060193475, -0.018550615381735008,
        0.005936795278436479, -0.0019350666648613071, 0.0006368880282849916, -0.00021074841138175561,
        6.995020506384849e-05, -2.3258242519113285e-05, 7.741156049273805e-06, -2.578093954045772e-06,
        8.59134317611421e-07, -2.863161166883193e-07, 9.500659034300503e-08, -3.162911147408454e-08,
        1.1039363482759935e-08, -3.7083753242807277e-09, 8.657533672812613e-10, -2.7580994814377e-10,
        2.478695345606839e-10, -8.50550766013261e-11,
    };
    return ((x - 1.4616321449683622) - 9.549995429965697e-17) * polynomial(2.0 * x - 3.0, coefficients);
}

// psi of a large number: its logarithm, and Bernoulli's numbers over powers.
__device__ __forceinline__ float digamma_of_large(float x) {
    float r = 1.0f / x, z = r * r;
    float sum = ::fmaf(z, ::fmaf(z, ::fmaf(z, -1.0f / 240, 1.0f / 252), -1.0f / 120), 1.0f / 12);
    return ::logf(x) - ::fmaf(z, sum, 0.5f * r);
}
__device__ __forceinline__ double digamma_of_large(double x) {
    constexpr double series[] = {1.0 / 12,         -1.0 / 120, 1.0 / 252,         -1.0 / 240,
                                 1.0 / 132,        -691.0 / 32760, 1.0 / 12,      -3617.0 / 8160,
                                 43867.0 / 14364};
    double r = 1.0 / x, z = r * r;
    return ::log(x) - ::fma(z, polynomial(z, series), 0.5 * r);
}

// psi of a positive number.
__device__ __forceinline__ float digamma_of_positive(float x) {
    if (x >= 4.0f) return digamma_of_large(x);
    // psi(x + 1) = psi(x) + 1 / x
    float rest = 0.0f;
    if (x < 1.0f) {
        rest = -1.0f / x;
        x += 1.0f;
    }
    if (x > 3.0f) {
        x -= 1.0f;
        rest = 1.0f / x;
    }
    if (x > 2.0f) {
        x -= 1.0f;
        rest += 1.0f / x;
    }
    return digamma_near_root(x) + rest;
}
__device__ __forceinline__ double digamma_of_positive(double x) {
    if (x >= 10.0) return digamma_of_large(x);
    if (x > 2.0) {
        // psi(x) = psi(x + 8) - q' / q with q = x (x + 1) ... (x + 7), where u = x (x + 7) makes four factors of q.
        double u = x * (x + 7.0), a = u + 6.0, b = u + 10.0, c = u + 12.0;
        double ua = u * a, bc = b * c;
        double slope = (a + u) * bc + (b + c) * ua;
        return digamma_of_large(x + 8.0) - (2.0 * x + 7.0) * slope / (ua * bc);
    }
    return x < 1.0 ? digamma_near_root(x + 1.0) - 1.0 / x : digamma_near_root(x);
}

// The derivative of the logarithm of |gamma|. NaN at the negative integers, infinite at 0.
template <typename Num>
__device__ __forceinline__ Num digamma(Num x) {
    if (!(x < Num(0))) return x == Num(0) ? -(Num(1) / x) : digamma_of_positive(x);
    Num sine = ::sinpi(x);
    Num reflected = digamma_of_positive(Num(1) - x) - Num(GEOM_AD_PI) * ::cospi(x) / sine;
    return sine == Num(0) ? sine / sine : reflected;
}

}  // namespace libm
}  // namespace ad
}  // namespace geom

GEOM_AD_ONE(erf, Num(2 / GEOM_AD_SQRT_PI) * gaussian(x, Num(1)))
GEOM_AD_ONE(erfc, Num(-2 / GEOM_AD_SQRT_PI) * gaussian(x, Num(1)))
GEOM_AD_ONE(erfcx, d_erfcx(x, y))
GEOM_AD_ONE(erfinv, d_erfinv(x, y))
GEOM_AD_ONE(erfcinv, d_erfcinv(x, y))
GEOM_AD_ONE(normcdf, Num(GEOM_AD_SQRT_2 / 2 / GEOM_AD_SQRT_PI) * gaussian(x, Num(0.5)))
GEOM_AD_ONE(normcdfinv, d_normcdfinv(x, y))
GEOM_AD_ONE(lgamma, digamma(x))
GEOM_AD_ONE(tgamma, y* digamma(x))
