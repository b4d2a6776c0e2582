// CUDA's mathematical functions with derivatives. `OpSpec::differentiate` includes this before the program in the copy
// that it reads; nothing else includes it.
//
// The compiler replaces sinf and its like by code that takes numbers apart bit by bit, of which no derivative is left.
// So each function gets a second name here, geom_ad_sinf: the function itself, marked with its derivative. Then macros
// give the second name to all that follows: ::sinf, std::sin and cuda::std::sin, whose headers come later, and also
// what the program itself calls so, wherever it says it: members, variables, parameters.
#pragma once

#include <geom/ad/bessel.cuh>
#include <geom/ad/elementary.cuh>
#include <geom/ad/intrinsics.cuh>
#include <geom/ad/rounding.cuh>
#include <geom/ad/special.cuh>

#undef GEOM_AD_ONE
#undef GEOM_AD_ONE_OF
#undef GEOM_AD_TWO
#undef GEOM_AD_TWO_OF
#undef GEOM_AD_LOST
#undef GEOM_AD_LOST_OF
#undef GEOM_AD_PI
#undef GEOM_AD_LN2
#undef GEOM_AD_LN10
#undef GEOM_AD_SQRT_PI
#undef GEOM_AD_SQRT_2

#define sin geom_ad_sin
#define sinf geom_ad_sinf
#define cos geom_ad_cos
#define cosf geom_ad_cosf
#define tan geom_ad_tan
#define tanf geom_ad_tanf
#define sinpi geom_ad_sinpi
#define sinpif geom_ad_sinpif
#define cospi geom_ad_cospi
#define cospif geom_ad_cospif
#define asin geom_ad_asin
#define asinf geom_ad_asinf
#define acos geom_ad_acos
#define acosf geom_ad_acosf
#define atan geom_ad_atan
#define atanf geom_ad_atanf
#define sinh geom_ad_sinh
#define sinhf geom_ad_sinhf
#define cosh geom_ad_cosh
#define coshf geom_ad_coshf
#define tanh geom_ad_tanh
#define tanhf geom_ad_tanhf
#define asinh geom_ad_asinh
#define asinhf geom_ad_asinhf
#define acosh geom_ad_acosh
#define acoshf geom_ad_acoshf
#define atanh geom_ad_atanh
#define atanhf geom_ad_atanhf
#define exp geom_ad_exp
#define expf geom_ad_expf
#define exp2 geom_ad_exp2
#define exp2f geom_ad_exp2f
#define exp10 geom_ad_exp10
#define exp10f geom_ad_exp10f
#define expm1 geom_ad_expm1
#define expm1f geom_ad_expm1f
#define log geom_ad_log
#define logf geom_ad_logf
#define log2 geom_ad_log2
#define log2f geom_ad_log2f
#define log10 geom_ad_log10
#define log10f geom_ad_log10f
#define log1p geom_ad_log1p
#define log1pf geom_ad_log1pf
#define cbrt geom_ad_cbrt
#define cbrtf geom_ad_cbrtf
#define rcbrt geom_ad_rcbrt
#define rcbrtf geom_ad_rcbrtf
#define rsqrt geom_ad_rsqrt
#define rsqrtf geom_ad_rsqrtf
#define atan2 geom_ad_atan2
#define atan2f geom_ad_atan2f
#define hypot geom_ad_hypot
#define hypotf geom_ad_hypotf
#define pow geom_ad_pow
#define powf geom_ad_powf
#define rhypot geom_ad_rhypot
#define rhypotf geom_ad_rhypotf
#define norm3d geom_ad_norm3d
#define norm3df geom_ad_norm3df
#define norm4d geom_ad_norm4d
#define norm4df geom_ad_norm4df
#define rnorm3d geom_ad_rnorm3d
#define rnorm3df geom_ad_rnorm3df
#define rnorm4d geom_ad_rnorm4d
#define rnorm4df geom_ad_rnorm4df
#define norm geom_ad_norm
#define normf geom_ad_normf
#define rnorm geom_ad_rnorm
#define rnormf geom_ad_rnormf
#define sincos geom_ad_sincos
#define sincosf geom_ad_sincosf
#define sincospi geom_ad_sincospi
#define sincospif geom_ad_sincospif
#define fmod geom_ad_fmod
#define fmodf geom_ad_fmodf
#define remainder geom_ad_remainder
#define remainderf geom_ad_remainderf
#define remquo geom_ad_remquo
#define remquof geom_ad_remquof
#define fdim geom_ad_fdim
#define fdimf geom_ad_fdimf
#define copysign geom_ad_copysign
#define copysignf geom_ad_copysignf
#define modf geom_ad_modf
#define modff geom_ad_modff
#define frexp geom_ad_frexp
#define frexpf geom_ad_frexpf
#define ldexp geom_ad_ldexp
#define ldexpf geom_ad_ldexpf
#define scalbn geom_ad_scalbn
#define scalbnf geom_ad_scalbnf
#define scalbln geom_ad_scalbln
#define scalblnf geom_ad_scalblnf
#define nextafter geom_ad_nextafter
#define nextafterf geom_ad_nextafterf
#define round geom_ad_round
#define roundf geom_ad_roundf
#define logb geom_ad_logb
#define logbf geom_ad_logbf
#define ilogb geom_ad_ilogb
#define ilogbf geom_ad_ilogbf
#define lround geom_ad_lround
#define lroundf geom_ad_lroundf
#define llround geom_ad_llround
#define llroundf geom_ad_llroundf
#define erf geom_ad_erf
#define erff geom_ad_erff
#define erfc geom_ad_erfc
#define erfcf geom_ad_erfcf
#define erfcx geom_ad_erfcx
#define erfcxf geom_ad_erfcxf
#define erfinv geom_ad_erfinv
#define erfinvf geom_ad_erfinvf
#define erfcinv geom_ad_erfcinv
#define erfcinvf geom_ad_erfcinvf
#define normcdf geom_ad_normcdf
#define normcdff geom_ad_normcdff
#define normcdfinv geom_ad_normcdfinv
#define normcdfinvf geom_ad_normcdfinvf
#define lgamma geom_ad_lgamma
#define lgammaf geom_ad_lgammaf
#define tgamma geom_ad_tgamma
#define tgammaf geom_ad_tgammaf
#define j0 geom_ad_j0
#define j0f geom_ad_j0f
#define j1 geom_ad_j1
#define j1f geom_ad_j1f
#define jn geom_ad_jn
#define jnf geom_ad_jnf
#define y0 geom_ad_y0
#define y0f geom_ad_y0f
#define y1 geom_ad_y1
#define y1f geom_ad_y1f
#define yn geom_ad_yn
#define ynf geom_ad_ynf
#define cyl_bessel_i0 geom_ad_cyl_bessel_i0
#define cyl_bessel_i0f geom_ad_cyl_bessel_i0f
#define cyl_bessel_i1 geom_ad_cyl_bessel_i1
#define cyl_bessel_i1f geom_ad_cyl_bessel_i1f
#define __sinf geom_ad___sinf
#define __cosf geom_ad___cosf
#define __tanf geom_ad___tanf
#define __sincosf geom_ad___sincosf
#define __expf geom_ad___expf
#define __exp10f geom_ad___exp10f
#define __logf geom_ad___logf
#define __log2f geom_ad___log2f
#define __log10f geom_ad___log10f
#define __powf geom_ad___powf
#define __frsqrt_rn geom_ad___frsqrt_rn
#define __fdividef geom_ad___fdividef
#define fdividef geom_ad_fdividef
#if __CUDACC_VER_MAJOR__ >= 13
#define __tanhf geom_ad___tanhf
#endif
