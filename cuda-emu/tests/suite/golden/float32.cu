// Arithmetic of f32.
#include "prelude.cuh"

#define FLOATS THREAD float p = f32(x), q = f32(y), r = f32(z);

KERNEL(f32_add) {
    FLOATS
    OUT(bits(__fadd_rn(p, q))); OUT(bits(__fadd_rz(p, q))); OUT(bits(__fadd_rd(p, q)));
    OUT(bits(__fadd_ru(p, q))); OUT(bits(__fsub_rn(p, q))); OUT(bits(__fsub_rz(p, q)));
    OUT(bits(__fsub_rd(p, q))); OUT(bits(__fsub_ru(p, q))); OUT(bits(p + q)); OUT(bits(p - r));
}

KERNEL(f32_multiply) {
    FLOATS
    OUT(bits(__fmul_rn(p, q))); OUT(bits(__fmul_rz(p, q))); OUT(bits(__fmul_rd(p, q)));
    OUT(bits(__fmul_ru(p, q))); OUT(bits(p * r)); OUT(bits(p * q + r)); OUT(bits(p * 0.1f - q));
}

KERNEL(f32_fma) {
    FLOATS
    OUT(bits(__fmaf_rn(p, q, r))); OUT(bits(__fmaf_rz(p, q, r))); OUT(bits(__fmaf_rd(p, q, r)));
    OUT(bits(__fmaf_ru(p, q, r))); OUT(bits(fmaf(q, r, p)));
    // Nearly cancels.
    float product = __fmul_rn(p, q);
    float s = f32(number((u32)bits(product)) ^ 0x80000000u);
    OUT(bits(__fmaf_rn(p, q, s))); OUT(bits(__fmaf_rd(p, q, s)));
}

KERNEL(f32_divide) {
    FLOATS
    OUT(bits(__fdiv_rn(p, q))); OUT(bits(__fdiv_rz(p, q))); OUT(bits(__fdiv_rd(p, q)));
    OUT(bits(__fdiv_ru(p, q))); OUT(bits(r / p)); OUT(bits(r / 3.0f)); OUT(bits(1.0f / q));
}

KERNEL(f32_reciprocal) {
    FLOATS
    OUT(bits(__frcp_rn(p))); OUT(bits(__frcp_rz(p))); OUT(bits(__frcp_rd(p))); OUT(bits(__frcp_ru(p)));
    OUT(bits(__frcp_rn(q))); OUT(bits(__frcp_rn(r)));
}

KERNEL(f32_root) {
    FLOATS
    OUT(bits(__fsqrt_rn(p))); OUT(bits(__fsqrt_rz(p))); OUT(bits(__fsqrt_rd(p)));
    OUT(bits(__fsqrt_ru(p))); OUT(bits(sqrtf(fabsf(q)))); OUT(bits(sqrtf(r)));
}

KERNEL(f32_flush) {
    FLOATS
    F2("add.rn.ftz.f32", p, q); F2("sub.rz.ftz.f32", p, q); F2("mul.rn.ftz.f32", p, q);
    F2("mul.rp.ftz.f32", p, q);
    F3("fma.rn.ftz.f32", p, q, r); F3("fma.rp.ftz.f32", p, q, r); F2("div.rn.ftz.f32", p, q);
    F1("rcp.rn.ftz.f32", p); F1("sqrt.rn.ftz.f32", p); F1("sqrt.rm.ftz.f32", q);
    F2("min.ftz.f32", p, q); F2("max.ftz.f32", p, q); F1("cvt.rni.ftz.f32.f32", p);
}

KERNEL(f32_saturate) {
    FLOATS
    F2("add.rn.sat.f32", p, q); F2("sub.rz.sat.f32", p, q); F2("mul.rp.sat.f32", p, q);
    F3("fma.rn.sat.f32", p, q, r); F3("fma.rm.ftz.sat.f32", p, q, r); F2("add.rn.ftz.sat.f32", q, r);
    F1("cvt.sat.f32.f32", p); OUT(bits(__saturatef(q)));
}

KERNEL(f32_minimum) {
    FLOATS
    F2("min.f32", p, q); F2("max.f32", p, q); OUT(bits(fminf(p, r))); OUT(bits(fmaxf(q, r)));
    OUT(bits(fminf(p, 0.0f))); OUT(bits(fmaxf(p, -0.0f)));
}

#if __CUDA_ARCH__ >= 900
KERNEL(f32_minimum_nan) {
    FLOATS
    F2("min.NaN.f32", p, q); F2("max.NaN.f32", p, q); F2("min.ftz.NaN.f32", p, q);
    F2("max.NaN.xorsign.abs.f32", p, q); F2("min.xorsign.abs.f32", p, q);
}
#endif

// The classes of a float, a bit each.
#define CLASSES(ty, k, v) {                                                               \
    u32 r_;                                                                               \
    asm("{ .reg .pred p<6>; .reg .u32 t;\n\t"                                             \
        "testp.finite." ty " p0, %1;\n\ttestp.infinite." ty " p1, %1;\n\t"                \
        "testp.number." ty " p2, %1;\n\ttestp.notanumber." ty " p3, %1;\n\t"              \
        "testp.normal." ty " p4, %1;\n\ttestp.subnormal." ty " p5, %1;\n\t"               \
        "selp.u32 %0, 1, 0, p0;\n\tselp.u32 t, 2, 0, p1;\n\tor.b32 %0, %0, t;\n\t"        \
        "selp.u32 t, 4, 0, p2;\n\tor.b32 %0, %0, t;\n\t"                                  \
        "selp.u32 t, 8, 0, p3;\n\tor.b32 %0, %0, t;\n\t"                                  \
        "selp.u32 t, 16, 0, p4;\n\tor.b32 %0, %0, t;\n\t"                                 \
        "selp.u32 t, 32, 0, p5;\n\tor.b32 %0, %0, t; }" : "=r"(r_) : k(v));              \
    OUT(r_); }

KERNEL(float_classes) {
    FLOATS
    CLASSES("f32", "f", p) CLASSES("f32", "f", q) CLASSES("f64", "d", f64(a)) CLASSES("f64", "d", f64(b))
    F2("copysign.f32", p, q); D2("copysign.f64", f64(a), f64(b));
    OUT(isnan(p) | isinf(q) << 1 | signbit(r) << 2 | isfinite(p) << 3);
}

KERNEL(f32_sign) {
    FLOATS
    float s = f32(number(x)), t = f32(number(y));
    F1("neg.f32", s); F1("abs.f32", s); F1("neg.ftz.f32", s); F1("abs.ftz.f32", t);
    OUT(bits(fabsf(s) - fabsf(t))); OUT(bits(-s * t)); OUT(bits(copysignf(s, t)));
    OUT(bits(fabsf(t))); OUT(bits(-t));
}

KERNEL(f32_integral) {
    FLOATS
    float s = f32(number(x)), t = f32((x & 0x80ffffffu) | 0x43000000u);
    OUT(bits(rintf(s))); OUT(bits(truncf(s))); OUT(bits(floorf(s))); OUT(bits(ceilf(s)));
    OUT(bits(rintf(t))); OUT(bits(truncf(t))); OUT(bits(floorf(t))); OUT(bits(ceilf(t)));
    OUT(bits(roundf(t))); OUT(bits(nearbyintf(t)));
}

// A chain: an error in one place shows at the end.
KERNEL(f32_chain) {
    FLOATS
    float s = f32((x & 0x807fffffu) | 0x3f000000u), t = f32((y & 0x807fffffu) | 0x3f800000u);
    for (int k = 0; k < 40; k++) {
        float u = s * t + 0.3f;
        t = (t - s) / 1.7f;
        s = sqrtf(fabsf(u)) - t;
    }
    OUT(bits(s)); OUT(bits(t));
}
