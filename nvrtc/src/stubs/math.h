// The functions are NVRTC's own. M_PI and its like are in the prelude.
#ifndef CUDA_SAFE_MATH_H
#define CUDA_SAFE_MATH_H
#ifndef INFINITY
#define INFINITY (__int_as_float(0x7f800000))
#endif
#ifndef NAN
#define NAN (__int_as_float(0x7fc00000))
#endif
#ifndef HUGE_VALF
#define HUGE_VALF (__int_as_float(0x7f800000))
#endif
#ifndef HUGE_VAL
#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000LL))
#endif
#ifndef MAXFLOAT
#define MAXFLOAT 3.40282346638528859811704183484516925e+38f
#endif
typedef float float_t;
typedef double double_t;
#endif
