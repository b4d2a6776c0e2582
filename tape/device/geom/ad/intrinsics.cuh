// Derivatives of intrinsics, as of the functions that they approximate. Part of the copy that `OpSpec::differentiate`
// reads: see geom/ad/libm.cuh.
//
// __fadd_rn, __fmaf_rn, __frcp_rn, __fsqrt_rn, __fdiv_rn, __saturatef and the like are instructions, which have
// derivatives without a rule.
#pragma once

#include <geom/ad/elementary.cuh>

GEOM_AD_ONE_OF(float, __sinf, ::cosf(x))
GEOM_AD_ONE_OF(float, __cosf, -::sinf(x))
GEOM_AD_ONE_OF(float, __tanf, d_tan(::tanf(x)))
GEOM_AD_ONE_OF(float, __expf, y)
GEOM_AD_ONE_OF(float, __exp10f, Num(GEOM_AD_LN10) * y)
GEOM_AD_ONE_OF(float, __logf, d_log(x, y, 1.0f))
GEOM_AD_ONE_OF(float, __log2f, d_log(x, y, Num(1 / GEOM_AD_LN2)))
GEOM_AD_ONE_OF(float, __log10f, d_log(x, y, Num(1 / GEOM_AD_LN10)))
GEOM_AD_ONE_OF(float, __frsqrt_rn, d_rsqrt(x, y))
#if __CUDACC_VER_MAJOR__ >= 13
GEOM_AD_ONE_OF(float, __tanhf, sech_squared(x))
#endif
GEOM_AD_TWO_OF(float, __powf, b* ::powf(a, b - 1.0f), d_pow_exponent(a, b, y))
// Instructions, but for results of zero where b is so large that 1 / b is subnormal.
GEOM_AD_TWO_OF(float, __fdividef, 1.0f / b, -(a / b) / b)
GEOM_AD_TWO_OF(float, fdividef, 1.0f / b, -(a / b) / b)

__device__ __forceinline__ void geom_ad___sincosf(float active, float* sine, float* cosine) {
    using namespace geom::ad::libm;
    const float x = stop(active);
    float s, c, exact_s, exact_c;
    ::__sincosf(x, &s, &c);
    ::sincosf(x, &exact_s, &exact_c);
    *sine = rule(s, active, exact_c);
    *cosine = rule(c, active, -exact_s);
}
