// Comparisons and what they choose.
#include "prelude.cuh"

// One comparison, as a bit.
#define SETP(op, ty, k, p, q) { u32 r_;                                                    \
    asm("{ .reg .pred p; setp." op "." ty " p, %1, %2; selp.u32 %0, 1, 0, p; }"             \
        : "=r"(r_) : k(p), k(q)); set = set << 1 | r_; }
#define ORDERED(ty, k, p, q)                                                                \
    SETP("eq", ty, k, p, q) SETP("ne", ty, k, p, q) SETP("lt", ty, k, p, q)                 \
    SETP("le", ty, k, p, q) SETP("gt", ty, k, p, q) SETP("ge", ty, k, p, q)
#define UNORDERED(ty, k, p, q)                                                              \
    SETP("equ", ty, k, p, q) SETP("neu", ty, k, p, q) SETP("ltu", ty, k, p, q)              \
    SETP("leu", ty, k, p, q) SETP("gtu", ty, k, p, q) SETP("geu", ty, k, p, q)              \
    SETP("num", ty, k, p, q) SETP("nan", ty, k, p, q)

KERNEL(compare_integers) {
    THREAD
    u64 set = 0;
    ORDERED("s32", "r", x, y) ORDERED("u32", "r", x, y) ORDERED("s64", "l", a, b)
    ORDERED("u64", "l", a, b)
    OUT(set); set = 0;
    ORDERED("s16", "h", (u16)x, (u16)y) ORDERED("u16", "h", (u16)x, (u16)y)
    SETP("lo", "u32", "r", x, y) SETP("ls", "u32", "r", x, y) SETP("hi", "u64", "l", a, b)
    SETP("hs", "u64", "l", a, b) SETP("eq", "b16", "h", (u16)x, (u16)y) SETP("ne", "b64", "l", a, b)
    OUT(set);
}

KERNEL(compare_floats) {
    THREAD
    float p = f32(x), q = f32(y);
    u64 set = 0;
    ORDERED("f32", "f", p, q) UNORDERED("f32", "f", p, q) SETP("lt.ftz", "f32", "f", p, q)
    SETP("eq.ftz", "f32", "f", p, q) SETP("geu.ftz", "f32", "f", p, q)
    OUT(set); set = 0;
    ORDERED("f64", "d", f64(a), f64(b)) UNORDERED("f64", "d", f64(a), f64(b))
    OUT(set);
    OUT((p < q) | (p <= q) << 1 | (p > q) << 2 | (p >= q) << 3 | (p == q) << 4 | (p != q) << 5
        | !(p < q) << 6 | !(p >= q) << 7);
}

KERNEL(compare_and_combine) {
    THREAD
    u32 r;
    asm("{ .reg .pred p<8>; .reg .u32 t;\n\t"
        "setp.lt.s32 p0|p1, %1, %2;\n\t"
        "setp.gt.and.u32 p2|p3, %2, %3, p0;\n\t"
        "setp.le.or.s32 p4|p5, %1, %3, p2;\n\t"
        "setp.ne.xor.u32 p6|p7, %1, %3, !p5;\n\t"
        "selp.u32 %0, 1, 0, p1;\n\tselp.u32 t, 2, 0, p2;\n\tor.b32 %0, %0, t;\n\t"
        "selp.u32 t, 4, 0, p3;\n\tor.b32 %0, %0, t;\n\tselp.u32 t, 8, 0, p4;\n\tor.b32 %0, %0, t;\n\t"
        "selp.u32 t, 16, 0, p6;\n\tor.b32 %0, %0, t;\n\tselp.u32 t, 32, 0, p7;\n\tor.b32 %0, %0, t;\n\t"
        "xor.pred p0, p1, p6;\n\tnot.pred p0, p0;\n\tand.pred p1, p0, p4;\n\tor.pred p1, p1, p3;\n\t"
        "@p1 or.b32 %0, %0, 64;\n\t@!p0 or.b32 %0, %0, 128; }"
        : "=r"(r) : "r"(x), "r"(y), "r"(z));
    OUT(r);
}

#define CVT2(T, to, from, ins, p, q) \
    { T r_; asm(ins " %0, %1, %2;" : "=" to(r_) : from(p), from(q)); OUT(bits(r_)); }

KERNEL(set_words) {
    THREAD
    R2("set.lt.u32.s32", x, y); R2("set.ge.s32.u32", x, y);
    CVT2(u32, "r", "f", "set.leu.u32.f32", f32(x), f32(y)); CVT2(float, "f", "r", "set.gt.f32.s32", x, y);
    CVT2(float, "f", "f", "set.nan.ftz.f32.f32", f32(x), f32(y)); CVT2(u32, "r", "d", "set.ne.s32.f64", f64(a), f64(b));
    CVT2(u32, "r", "l", "set.hi.u32.u64", a, b);
}

KERNEL(selections) {
    THREAD
    { u32 r; asm("slct.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z)); OUT(r); }
    { u32 r; asm("slct.u32.f32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "f"(f32(z))); OUT(r); }
    { u32 r; asm("slct.ftz.u32.f32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "f"(f32(z))); OUT(r); }
    { u64 r; asm("slct.b64.s32 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "l"(b), "r"(z)); OUT(r); }
    { double r; asm("slct.f64.f32 %0, %1, %2, %3;" : "=d"(r) : "d"(f64(a)), "d"(f64(b)), "f"(f32(z))); OUT(bits(r)); }
    OUT(x < y ? a : b); OUT(bits(f32(x) < f32(y) ? f64(a) : f64(c))); OUT((u16)(z & 1 ? x : y));
    OUT((s32)x > 5 && y < 9u || z == 3 ? a ^ b : c); OUT(bits(z & 2 ? f32(x) : f32(y)));
}
