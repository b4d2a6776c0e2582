// Floating-point operations whose result does not depend on how a program is compiled.
//
// The compiler may fuse `a * b + c` into one operation, and with --use_fast_math it flushes denormals even in
// __fmul_rn and in comparisons. Code with the same bits in every program uses these functions: one instruction each,
// with explicit rounding, none with .ftz. PTX ISA, "Floating Point Instructions".
#pragma once

namespace geom {
namespace exact {

#define GEOM_EXACT_BINARY(name, instruction)                                                        \
    __device__ __forceinline__ float name(float a, float b) {                                       \
        float d;                                                                                    \
        asm(instruction ".f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));                             \
        return d;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ double name(double a, double b) {                                    \
        double d;                                                                                   \
        asm(instruction ".f64 %0, %1, %2;" : "=d"(d) : "d"(a), "d"(b));                             \
        return d;                                                                                   \
    }

// Rounded to nearest (ties to even), up, and down.
GEOM_EXACT_BINARY(add, "add.rn")
GEOM_EXACT_BINARY(add_up, "add.rp")
GEOM_EXACT_BINARY(add_down, "add.rm")
GEOM_EXACT_BINARY(sub, "sub.rn")
GEOM_EXACT_BINARY(sub_up, "sub.rp")
GEOM_EXACT_BINARY(sub_down, "sub.rm")
GEOM_EXACT_BINARY(mul, "mul.rn")
GEOM_EXACT_BINARY(mul_up, "mul.rp")
GEOM_EXACT_BINARY(mul_down, "mul.rm")
GEOM_EXACT_BINARY(div, "div.rn")
// The result is the other operand if one is NaN.
GEOM_EXACT_BINARY(min, "min")
GEOM_EXACT_BINARY(max, "max")
#undef GEOM_EXACT_BINARY

#define GEOM_EXACT_UNARY(name, instruction)                                                         \
    __device__ __forceinline__ float name(float a) {                                                \
        float d;                                                                                    \
        asm(instruction ".f32 %0, %1;" : "=f"(d) : "f"(a));                                         \
        return d;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ double name(double a) {                                              \
        double d;                                                                                   \
        asm(instruction ".f64 %0, %1;" : "=d"(d) : "d"(a));                                         \
        return d;                                                                                   \
    }

GEOM_EXACT_UNARY(sqrt, "sqrt.rn")
GEOM_EXACT_UNARY(sqrt_up, "sqrt.rp")
GEOM_EXACT_UNARY(abs, "abs")
GEOM_EXACT_UNARY(neg, "neg")
#undef GEOM_EXACT_UNARY

// The product a * b, clamped to [0, 1]; 0 for a NaN.
__device__ __forceinline__ float mul_saturate(float a, float b) {
    float d;
    asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// The largest integer that is not greater; and the nearest, ties to even.
__device__ __forceinline__ float floor(float a) {
    float d;
    asm("cvt.rmi.f32.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}
__device__ __forceinline__ double floor(double a) {
    double d;
    asm("cvt.rmi.f64.f64 %0, %1;" : "=d"(d) : "d"(a));
    return d;
}
__device__ __forceinline__ float round(float a) {
    float d;
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
}
__device__ __forceinline__ double round(double a) {
    double d;
    asm("cvt.rni.f64.f64 %0, %1;" : "=d"(d) : "d"(a));
    return d;
}

// The same as integers. Out of range, they saturate; a NaN gives 0 (f32) or the smallest (f64).
__device__ __forceinline__ int floor_to_int(float a) {
    int d;
    asm("cvt.rmi.s32.f32 %0, %1;" : "=r"(d) : "f"(a));
    return d;
}
__device__ __forceinline__ int floor_to_int(double a) {
    int d;
    asm("cvt.rmi.s32.f64 %0, %1;" : "=r"(d) : "d"(a));
    return d;
}
__device__ __forceinline__ long long floor_to_long(double a) {
    long long d;
    asm("cvt.rmi.s64.f64 %0, %1;" : "=l"(d) : "d"(a));
    return d;
}

// a * b + c, rounded once.
__device__ __forceinline__ float fma(float a, float b, float c) {
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}
__device__ __forceinline__ double fma(double a, double b, double c) {
    double d;
    asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(d) : "d"(a), "d"(b), "d"(c));
    return d;
}

// Converts f32 to f64, denormals too; and back, to nearest.
__device__ __forceinline__ double widen(float a) {
    double d;
    asm("cvt.f64.f32 %0, %1;" : "=d"(d) : "f"(a));
    return d;
}
__device__ __forceinline__ double widen(double a) { return a; }
__device__ __forceinline__ float narrow(double a) {
    float d;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(d) : "d"(a));
    return d;
}

// Comparisons; with a NaN all are false.
#define GEOM_EXACT_COMPARE(name, instruction)                                                       \
    __device__ __forceinline__ bool name(float a, float b) {                                        \
        unsigned d;                                                                                 \
        asm("{ .reg .pred p; " instruction ".f32 p, %1, %2; selp.u32 %0, 1, 0, p; }"                \
            : "=r"(d)                                                                               \
            : "f"(a), "f"(b));                                                                      \
        return d != 0;                                                                              \
    }                                                                                               \
    __device__ __forceinline__ bool name(double a, double b) {                                      \
        unsigned d;                                                                                 \
        asm("{ .reg .pred p; " instruction ".f64 p, %1, %2; selp.u32 %0, 1, 0, p; }"                \
            : "=r"(d)                                                                               \
            : "d"(a), "d"(b));                                                                      \
        return d != 0;                                                                              \
    }

GEOM_EXACT_COMPARE(less, "setp.lt")
GEOM_EXACT_COMPARE(less_equal, "setp.le")
GEOM_EXACT_COMPARE(equal, "setp.eq")
#undef GEOM_EXACT_COMPARE

// These are functions, so that nvcc's pass for the host accepts them in default arguments.
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7fffffff); }

// Neither NaN nor infinite.
__device__ __forceinline__ bool is_finite(float a) {
    return (__float_as_uint(a) & 0x7f800000u) != 0x7f800000u;
}
__device__ __forceinline__ bool is_finite(double a) {
    return ((unsigned long long)__double_as_longlong(a) & 0x7ff0000000000000ull) !=
           0x7ff0000000000000ull;
}

} // namespace exact
} // namespace geom
