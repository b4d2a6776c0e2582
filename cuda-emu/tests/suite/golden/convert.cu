// Conversions, in all directions, roundings and saturations.
#include "prelude.cuh"

#define DIRECTIONS(T, to, from, ty, v) \
    CVT(T, to, from, "cvt.rn." ty, v) CVT(T, to, from, "cvt.rz." ty, v) \
    CVT(T, to, from, "cvt.rm." ty, v) CVT(T, to, from, "cvt.rp." ty, v)
#define TO_INTEGER(T, to, from, ty, v) \
    CVT(T, to, from, "cvt.rni." ty, v) CVT(T, to, from, "cvt.rzi." ty, v) \
    CVT(T, to, from, "cvt.rmi." ty, v) CVT(T, to, from, "cvt.rpi." ty, v)

KERNEL(integers_to_f32) {
    THREAD
    DIRECTIONS(float, "f", "r", "f32.s32", x) DIRECTIONS(float, "f", "r", "f32.u32", x)
    DIRECTIONS(float, "f", "l", "f32.s64", a) DIRECTIONS(float, "f", "l", "f32.u64", a)
}

KERNEL(integers_to_f64) {
    THREAD
    DIRECTIONS(double, "d", "l", "f64.s64", a) DIRECTIONS(double, "d", "l", "f64.u64", a)
    OUT(bits((double)(s32)x)); OUT(bits((double)x)); OUT(bits((double)(s16)x)); OUT(bits((double)(u8)x));
    OUT(bits((float)(s16)x)); OUT(bits((float)(u16)x)); OUT(bits((float)(s8)x)); OUT(bits((float)(u8)x));
}

KERNEL(f32_to_words) {
    THREAD
    float p = f32(x);
    TO_INTEGER(u32, "r", "f", "s32.f32", p) TO_INTEGER(u32, "r", "f", "u32.f32", p)
    TO_INTEGER(u64, "l", "f", "s64.f32", p) TO_INTEGER(u64, "l", "f", "u64.f32", p)
}

KERNEL(f64_to_words) {
    THREAD
    double p = f64(a);
    TO_INTEGER(u32, "r", "d", "s32.f64", p) TO_INTEGER(u32, "r", "d", "u32.f64", p)
    TO_INTEGER(u64, "l", "d", "s64.f64", p) TO_INTEGER(u64, "l", "d", "u64.f64", p)
}

// In the range where the result is not at an end.
KERNEL(floats_to_words_near) {
    THREAD
    float p = f32((x & 0x807fffffu) | 0x3f000000u + (y % 34 << 23));
    double q = f64((a & 0x800fffffffffffffull) | 0x3fe0000000000000ull + ((u64)(y % 66) << 52));
    TO_INTEGER(u32, "r", "f", "s32.f32", p) TO_INTEGER(u64, "l", "f", "u64.f32", p)
    TO_INTEGER(u32, "r", "d", "u32.f64", q) TO_INTEGER(u64, "l", "d", "s64.f64", q)
}

KERNEL(floats_to_small) {
    THREAD
    float p = f32(x), q = f32((x & 0x807fffffu) | 0x3f000000u + (y % 18 << 23));
    CVT(u16, "h", "f", "cvt.rni.s16.f32", p) CVT(u16, "h", "f", "cvt.rzi.u16.f32", p)
    CVT(u16, "h", "f", "cvt.rmi.s16.f32", q) CVT(u16, "h", "f", "cvt.rpi.u16.f32", q)
    CVT(u32, "r", "f", "cvt.rni.sat.s8.f32", q) CVT(u32, "r", "f", "cvt.rzi.sat.u8.f32", q)
    CVT(u16, "h", "d", "cvt.rni.s16.f64", f64(a)) CVT(u16, "h", "d", "cvt.rzi.u16.f64", f64(a))
    CVT(u32, "r", "f", "cvt.rni.ftz.s32.f32", p) CVT(u32, "r", "f", "cvt.rpi.ftz.u32.f32", p)
    CVT(u32, "r", "f", "cvt.rpi.u32.f32", p)
}

KERNEL(floats_to_floats) {
    THREAD
    double p = f64(a);
    DIRECTIONS(float, "f", "d", "f32.f64", p)
    CVT(float, "f", "d", "cvt.rn.ftz.f32.f64", p) CVT(float, "f", "d", "cvt.rz.sat.f32.f64", p)
    CVT(double, "d", "f", "cvt.f64.f32", f32(number(y))) CVT(double, "d", "f", "cvt.ftz.f64.f32", f32(number(y)))
    CVT(double, "d", "f", "cvt.sat.f64.f32", f32(y)) CVT(double, "d", "d", "cvt.sat.f64.f64", f64(b))
    // In the range of f32.
    double q = f64((a & 0x800fffffffffffffull) | (u64)(0x369 + y % 300) << 52);
    DIRECTIONS(float, "f", "d", "f32.f64", q)
}

KERNEL(floats_to_integral) {
    THREAD
    float p = f32(number(x));
    double q = f64(number(a));
    TO_INTEGER(float, "f", "f", "f32.f32", p) TO_INTEGER(double, "d", "d", "f64.f64", q)
    CVT(float, "f", "f", "cvt.rni.sat.f32.f32", f32(y)) CVT(float, "f", "f", "cvt.rpi.ftz.f32.f32", p)
}

KERNEL(integers_to_integers) {
    THREAD
    OUT((s8)x); OUT((u8)x); OUT((s16)x); OUT((u16)x); OUT((s64)(s32)x); OUT((u32)a); OUT((s32)(s8)(a >> 8));
    CVT(u32, "r", "l", "cvt.s32.s64", a) CVT(u64, "l", "r", "cvt.s64.s32", x) CVT(u64, "l", "r", "cvt.u64.u32", x)
    CVT(u64, "l", "h", "cvt.s64.s16", (u16)x) CVT(u32, "r", "h", "cvt.s32.s16", (u16)x)
}

KERNEL(integers_saturating) {
    THREAD
    CVT(u32, "r", "r", "cvt.sat.s8.s32", x) CVT(u32, "r", "r", "cvt.sat.u8.s32", x)
    CVT(u32, "r", "r", "cvt.sat.u8.u32", x) CVT(u16, "h", "r", "cvt.sat.s16.s32", x)
    CVT(u16, "h", "r", "cvt.sat.u16.u32", x) CVT(u32, "r", "l", "cvt.sat.s32.s64", a)
    CVT(u32, "r", "l", "cvt.sat.u32.u64", a) CVT(u32, "r", "l", "cvt.sat.u32.s64", a)
    CVT(u32, "r", "r", "cvt.sat.u32.s32", x) CVT(u32, "r", "r", "cvt.sat.s32.u32", x)
    CVT(u64, "l", "l", "cvt.sat.u64.s64", a) CVT(u64, "l", "l", "cvt.sat.s64.u64", a)
    R3("cvt.pack.sat.u8.s32.b32", x, y, z); R3("cvt.pack.sat.s8.s32.b32", x, y, z);
    R2("cvt.pack.sat.s16.s32", x, y); R2("cvt.pack.sat.u16.s32", x, y);
}
