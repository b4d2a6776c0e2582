// Derivatives of Bessel functions. Part of the copy that `OpSpec::differentiate` reads: see geom/ad/libm.cuh.
//
// They are combinations of Bessel functions. CUDA's are accurate relative to the amplitude below 8; above, those of
// double have errors of some 1e-12 of it, so they are computed here from Hankel's expansion
//     J(x) = sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)),
//     Y(x) = sqrt(2 / (pi x)) (P sin(x - phase) + Q cos(x - phase)).
#pragma once

#include <geom/ad/mark.cuh>

namespace geom {
namespace ad {
namespace libm {

// Functions of orders 0 and 1.
template <typename Num>
struct Orders {
    Num zero, one;
};

// J of a number of at least 8, and Y.
__device__ __forceinline__ void hankel(double x, Orders<double>& j, Orders<double>& y) {
    // P and x Q of orders 0 and 1: Chebyshev interpolants, computed with 50 digits, as sums of powers.
    constexpr double p0_table[] = {
        0.9994572757882519, -0.0005363673192129672, 6.137416080109497e-06, -2.0527448261170675e-07,
        1.280376144080092e-08, -1.2121098178951377e-09, 1.5500565496632596e-10, -2.491146535471666e-11,
        4.786995821368028e-12, -1.0157485021065676e-12, 2.4531772967345006e-13, -1.0251790052831013e-13,
        3.339452259070809e-14,
    };
    constexpr double q0_table[] = {
        -0.12444091103610815, 0.0005466519279475266, -1.1817110661200976e-05, 5.684971881753781e-07,
        -4.534972837363434e-08, 5.146231602705606e-09, -7.5763304988972e-10, 1.3623497617833053e-10,
        -2.8707211071105146e-11, 6.951785915752245e-12, -1.873640743543296e-12, 4.605060470396763e-13,
        -1.3137515498826537e-13, 1.0185094098694355e-13, -4.0574096424030336e-14,
    };
    constexpr double p1_table[] = {
        1.0009070262780821, 0.0008988049416705183, -7.9596946984383e-06, 2.453676633366693e-07,
        -1.4708512991275258e-08, 1.3602969253877949e-09, -1.713107485294131e-10, 2.72345126828134e-11,
        -5.191158004646548e-12, 1.0954826479277623e-12, -2.6335760672461096e-13, 1.0923713653079462e-13,
        -3.5455617466606254e-14,
    };
    constexpr double q1_table[] = {
        0.3742149922195918, -0.0007697167057643706, 1.4569614809851411e-05, -6.633568561050814e-07,
        5.136105997071193e-08, -5.720890888840857e-09, 8.316077350038262e-10, -1.4816588916791194e-10,
        3.100364837230575e-11, -7.465104477698295e-12, 2.002728774766585e-12, -4.91574062967655e-13,
        1.3996264453471973e-13, -1.0759215471978615e-13, 4.275621822194818e-14,
    };
    double z = 8.0 / x, s = ::fma(2.0 * z, z, -1.0);
    double p0 = polynomial(s, p0_table), q0 = polynomial(s, q0_table) / x;
    double p1 = polynomial(s, p1_table), q1 = polynomial(s, q1_table) / x;
    double sine, cosine;
    ::sincos(x, &sine, &cosine);
    double plus = sine + cosine, minus = sine - cosine, scale = 1.0 / ::sqrt(GEOM_AD_PI * x);
    j.zero = scale * (p0 * plus - q0 * minus);
    j.one = scale * (p1 * minus + q1 * plus);
    y.zero = scale * (p0 * minus + q0 * plus);
    y.one = scale * (q1 * minus - p1 * plus);
}

__device__ __forceinline__ Orders<double> bessel_j(double x) {
    Orders<double> j, y;
    double size = ::fabs(x);
    if (size < 8.0) {
        j.zero = ::j0(x);
        j.one = ::j1(x);
    } else {
        hankel(size, j, y);
        j.one = ::copysign(1.0, x) * j.one;
    }
    return j;
}
__device__ __forceinline__ Orders<double> bessel_y(double x) {
    Orders<double> j, y;
    if (x >= 8.0) {
        hankel(x, j, y);
    } else {
        y.zero = ::y0(x);
        y.one = ::y1(x);
    }
    return y;
}
__device__ __forceinline__ Orders<float> bessel_j(float x) { return {::j0f(x), ::j1f(x)}; }
__device__ __forceinline__ Orders<float> bessel_y(float x) { return {::y0f(x), ::y1f(x)}; }

template <typename Num>
__device__ __forceinline__ Num d_j0(Num x) {
    return is_infinite(x) ? Num(0) : -bessel_j(x).one;
}
template <typename Num>
__device__ __forceinline__ Num d_j1(Num x) {
    Orders<Num> j = bessel_j(x);
    return is_infinite(x) ? Num(0) : x == Num(0) ? Num(0.5) : j.zero - j.one / x;
}
template <typename Num>
__device__ __forceinline__ Num d_y0(Num x) {
    return x == infinity(x) ? Num(0) : -bessel_y(x).one;
}
template <typename Num>
__device__ __forceinline__ Num d_y1(Num x) {
    Orders<Num> y = bessel_y(x);
    return x == infinity(x) ? Num(0) : x == Num(0) ? infinity(x) : y.zero - y.one / x;
}
// Where I0 overflows, infinite.
template <typename Num>
__device__ __forceinline__ Num d_i1(Num x) {
    Num zero = ::cyl_bessel_i0(x);
    return x == Num(0) ? Num(0.5) : is_infinite(zero) ? zero : zero - ::cyl_bessel_i1(x) / x;
}

// Of orders n >= 2: (J of n - 1, minus that of n + 1) / 2, for a positive x.
__device__ __forceinline__ double d_jn_of_positive(int n, double x) {
    if (x < 1e-8) {
        double product = 0.5;
        for (int k = 1; k < n; ++k) product *= 0.5 * x / k;
        return product;
    }
    Orders<double> j = bessel_j(x);
    if (n < x) {
        double below = j.zero, at = j.zero, above = j.one;
        for (int k = 1; k <= n; ++k) {
            below = at;
            at = above;
            above = 2.0 * k / x * at - below;
        }
        return 0.5 * (below - above);
    }
    // Up from order x on, rounding errors grow. So down: first the ratio of orders n + 1 and n, by a continued fraction.
    double ratio = 0.0;
    for (int k = n + 32 + (int)(16.0 * ::cbrt((double)n)); k > n; --k) ratio = 1.0 / (2.0 * k / x - ratio);
    double above = ratio, at = 1.0, below = 0.0, difference = 0.0;
    for (int k = n; k > 0; --k) {
        below = 2.0 * k / x * at - above;
        if (k == n) difference = 0.5 * (below - above);
        above = at;
        at = below;
        if (::fabs(at) > 1e150) {
            at *= 1e-150;
            above *= 1e-150;
            difference *= 1e-150;
        }
    }
    return difference * (::fabs(at) > ::fabs(above) ? j.zero / at : j.one / above);
}
template <typename Num>
__device__ __forceinline__ Num d_jn(int n, Num x, Num y) {
    if (n == 0) return d_j0(x);
    if (n == 1) return d_j1(x);
    // Of a small x, CUDA's value may be NaN.
    if (n < 0 || x != x || is_infinite(x)) return n < 0 ? y : is_infinite(x) ? Num(0) : x;
    Num d = Num(d_jn_of_positive(n, ::fabs((double)x)));
    return n % 2 == 0 && x < Num(0) ? -d : d;
}
// Of Y, where steps up are stable.
template <typename Num>
__device__ __forceinline__ Num d_yn(int n, Num x, Num y) {
    if (n == 0) return d_y0(x);
    if (n == 1) return d_y1(x);
    if (n < 0 || !(x >= Num(0))) return y;
    if (x == Num(0) || is_infinite(x)) return x == Num(0) ? infinity(x) : Num(0);
    Orders<double> start = bessel_y((double)x);
    double below = start.zero, at = start.zero, above = start.one;
    for (int k = 1; k <= n && !is_infinite(above); ++k) {
        below = at;
        at = above;
        above = 2.0 * k / x * at - below;
    }
    return is_infinite(above) ? Num(-above) : Num(0.5 * (below - above));
}

}  // namespace libm
}  // namespace ad
}  // namespace geom

GEOM_AD_ONE(j0, d_j0(x))
GEOM_AD_ONE(j1, d_j1(x))
GEOM_AD_ONE(y0, d_y0(x))
GEOM_AD_ONE(y1, d_y1(x))
GEOM_AD_ONE(cyl_bessel_i0, ::cyl_bessel_i1(x))
GEOM_AD_ONE(cyl_bessel_i1, d_i1(x))

#define GEOM_AD_ORDER(type, name, slope)                                                            \
    __device__ __forceinline__ type geom_ad_##name(int n, type active) {                            \
        using namespace geom::ad::libm;                                                             \
        const type x = stop(active), y = ::name(n, x);                                              \
        return rule(y, active, slope(n, x, y));                                                     \
    }
GEOM_AD_ORDER(float, jnf, d_jn)
GEOM_AD_ORDER(float, jn, d_jn)
GEOM_AD_ORDER(double, jn, d_jn)
GEOM_AD_ORDER(float, ynf, d_yn)
GEOM_AD_ORDER(float, yn, d_yn)
GEOM_AD_ORDER(double, yn, d_yn)
#undef GEOM_AD_ORDER
