// Arithmetic of f16 and pairs of them, without a header.
#include "prelude.cuh"

#define HALVES THREAD u16 p = (u16)a, q = (u16)b, r = (u16)c;

KERNEL(f16_arithmetic) {
    HALVES
    H2("add.rn.f16", p, q); H2("sub.rn.f16", p, q); H2("mul.rn.f16", p, q); H3("fma.rn.f16", p, q, r);
    H2("add.rn.ftz.f16", p, q); H2("sub.rn.sat.f16", p, q); H2("mul.rn.ftz.sat.f16", p, q);
    H3("fma.rn.ftz.f16", p, q, r); H3("fma.rn.sat.f16", p, q, r); H3("fma.rn.ftz.sat.f16", q, r, p);
    H1("neg.f16", number(p)); H1("abs.f16", number(p));
}

KERNEL(f16x2_arithmetic) {
    THREAD
    R2("add.rn.f16x2", x, y); R2("sub.rn.f16x2", x, y); R2("mul.rn.f16x2", x, y);
    R3("fma.rn.f16x2", x, y, z); R2("add.rn.ftz.f16x2", x, y); R2("sub.rn.ftz.sat.f16x2", x, y);
    R2("mul.rn.sat.f16x2", x, y); R3("fma.rn.ftz.f16x2", x, y, z); R3("fma.rn.sat.f16x2", x, y, z);
    u32 s = number((u16)x) | (u32)number((u16)(x >> 16)) << 16;
    R1("neg.f16x2", s); R1("abs.f16x2", s);
}

#define SETP_F16(op) { u32 r_;                                                            \
    asm("{ .reg .pred p; setp." op ".f16 p, %1, %2; selp.u32 %0, 1, 0, p; }"              \
        : "=r"(r_) : "h"(p), "h"(q)); set = set << 1 | r_; }

KERNEL(f16_compare) {
    HALVES
    (void)r;
    u64 set = 0;
    SETP_F16("eq") SETP_F16("ne") SETP_F16("lt") SETP_F16("le") SETP_F16("gt") SETP_F16("ge")
    SETP_F16("equ") SETP_F16("neu") SETP_F16("ltu") SETP_F16("leu") SETP_F16("gtu") SETP_F16("geu")
    SETP_F16("num") SETP_F16("nan") SETP_F16("lt.ftz")
    OUT(set);
    R2("set.lt.f16x2.f16x2", x, y); R2("set.neu.f16x2.f16x2", x, y); H2("set.ge.f16.f16", p, q);
    { u32 s; asm("{ .reg .pred p, q; .reg .u32 t; setp.gt.f16x2 p|q, %1, %2; selp.u32 %0, 1, 0, p; "
                 "selp.u32 t, 2, 0, q; or.b32 %0, %0, t; }" : "=r"(s) : "r"(x), "r"(y)); OUT(s); }
}

KERNEL(f16_from_floats) {
    THREAD
    float f = f32(x), near = f32((x & 0x807fffffu) | (100 + y % 46) << 23);
    double d = f64((a & 0x800fffffffffffffull) | (u64)(996 + y % 46) << 52);
    CVT(u16, "h", "f", "cvt.rn.f16.f32", f) CVT(u16, "h", "f", "cvt.rz.f16.f32", f)
    CVT(u16, "h", "f", "cvt.rm.f16.f32", f) CVT(u16, "h", "f", "cvt.rp.f16.f32", f)
    CVT(u16, "h", "f", "cvt.rn.f16.f32", near) CVT(u16, "h", "f", "cvt.rz.f16.f32", near)
    CVT(u16, "h", "f", "cvt.rm.f16.f32", near) CVT(u16, "h", "f", "cvt.rp.f16.f32", near)
    CVT(u16, "h", "d", "cvt.rn.f16.f64", f64(a)) CVT(u16, "h", "d", "cvt.rz.f16.f64", d)
    CVT(u16, "h", "d", "cvt.rn.f16.f64", d) CVT(u16, "h", "f", "cvt.rn.sat.f16.f32", near)
}

KERNEL(f16_to_others) {
    HALVES
    (void)q; (void)r;
    u16 s = number(p);
    CVT(float, "f", "h", "cvt.f32.f16", p) CVT(double, "d", "h", "cvt.f64.f16", s)
    CVT(float, "f", "h", "cvt.ftz.f32.f16", p) CVT(float, "f", "h", "cvt.sat.f32.f16", p)
    CVT(u32, "r", "h", "cvt.rni.s32.f16", p) CVT(u32, "r", "h", "cvt.rzi.u32.f16", p)
    CVT(u16, "h", "h", "cvt.rmi.s16.f16", p) CVT(u16, "h", "h", "cvt.rpi.u16.f16", p)
    CVT(u64, "l", "h", "cvt.rni.s64.f16", p) CVT(u64, "l", "h", "cvt.rzi.u64.f16", p)
    CVT(u16, "h", "h", "cvt.rni.f16.f16", s) CVT(u16, "h", "h", "cvt.rmi.f16.f16", s)
}

KERNEL(f16_from_integers) {
    THREAD
    u32 d = x >> (y & 31);
    CVT(u16, "h", "r", "cvt.rn.f16.s32", x) CVT(u16, "h", "r", "cvt.rz.f16.u32", d)
    CVT(u16, "h", "r", "cvt.rm.f16.s32", d) CVT(u16, "h", "r", "cvt.rp.f16.u32", d)
    CVT(u16, "h", "h", "cvt.rn.f16.s16", (u16)x) CVT(u16, "h", "h", "cvt.rn.f16.u16", (u16)x)
    CVT(u16, "h", "l", "cvt.rn.f16.s64", a) CVT(u16, "h", "l", "cvt.rz.f16.u64", a)
}

#if __CUDA_ARCH__ >= 800
KERNEL(f16_minimum) {
    HALVES
    H2("min.f16", p, q); H2("max.f16", p, q); H2("min.NaN.f16", p, q); H2("max.ftz.f16", p, r);
    R2("min.f16x2", x, y); R2("max.NaN.f16x2", x, y); H3("fma.rn.relu.f16", p, q, r);
    R3("fma.rn.relu.f16x2", x, y, z); R2("min.xorsign.abs.f16x2", x, y);
    { u32 s; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(f32(x)), "f"(f32(y))); OUT(s); }
    { u32 s; asm("cvt.rz.relu.f16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(f32(x)), "f"(f32(y))); OUT(s); }
}
#endif
