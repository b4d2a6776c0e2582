// Integer arithmetic of 8 to 64 bits.
#include "prelude.cuh"

KERNEL(int8_arithmetic) {
    THREAD
    s8 p = (s8)x, q = (s8)y;
    u8 r = (u8)x, s = (u8)y;
    OUT((s8)(p + q)); OUT((s8)(p - q)); OUT((s8)(p * q)); OUT((s8)-p);
    OUT((u8)(r + s)); OUT((u8)(r - s)); OUT((u8)(r * s)); OUT((u8)~r);
    OUT((s8)(p / (q | 1))); OUT((s8)(p % (q | 1))); OUT(r / (s | 1)); OUT(r % (s | 1));
    OUT((s8)(p >> (s & 7))); OUT((u8)(r << (s & 7))); OUT(r >> (s & 7)); OUT(p < q ? p : q);
}

KERNEL(int16_arithmetic) {
    THREAD
    s16 p = (s16)x, q = (s16)y;
    u16 r = (u16)x, s = (u16)y;
    OUT((s16)(p + q)); OUT((s16)(p - q)); OUT((s16)(p * q)); OUT((s16)(p / (q | 1)));
    OUT((s16)(p % (q | 1))); OUT((u16)(r / (s | 1))); OUT((u16)(r % (s | 1)));
    H2("add.s16", r, s); H2("sub.u16", r, s); H2("mul.lo.s16", r, s); H2("mul.hi.s16", r, s);
    H2("mul.hi.u16", r, s); H3("mad.lo.u16", r, s, (u16)z); H2("min.s16", r, s);
    H2("max.u16", r, s); H1("neg.s16", r);
}

KERNEL(int32_arithmetic) {
    THREAD
    s32 p = (s32)x, q = (s32)y;
    OUT(x + y); OUT(x - y); OUT(x * y); OUT(x * y + z);
    OUT(__mulhi(p, q)); OUT(__umulhi(x, y)); OUT((s64)p * q); OUT((u64)x * y);
    OUT(p < q ? p : q); OUT(x > y ? x : y); OUT(0u - x); R1("abs.s32", x);
    OUT((s64)p * q + (s64)c); OUT((u64)x * y + c); OUT((s64)__hadd(p, q)); OUT(__urhadd(x, y));
}

KERNEL(int64_arithmetic) {
    THREAD
    s64 p = (s64)a, q = (s64)b;
    OUT(a + b); OUT(a - b); OUT(a * b); OUT(a * b + c);
    OUT(__mul64hi(p, q)); OUT(__umul64hi(a, b)); OUT(p < q ? p : q); OUT(p > q ? p : q);
    OUT(a < b ? a : b); OUT(a > b ? a : b); OUT(0ull - a); L1("abs.s64", a);
    L3("mad.hi.s64", a, b, c); L3("mad.hi.u64", a, b, c); L3("mad.lo.s64", a, b, c); OUT(~a);
}

KERNEL(int32_division) {
    THREAD
    u32 d = y ? y : 7;
    s32 q = (s32)(y >> (z & 31)), p = (s32)x;
    if (q == 0 || q == -1) q = -3;
    OUT(x / d); OUT(x % d); OUT(p / q); OUT(p % q);
    OUT(x / 7); OUT(x % 1000003); OUT(p / -13); OUT(p % 64); OUT(p / 8);
    R2("div.u32", z, d); R2("rem.u32", z, d); R2("div.s32", z, q); R2("rem.s32", z, q);
}

KERNEL(int64_division) {
    THREAD
    u64 d = b ? b : 7, small = (b >> (z & 63)) | 1;
    s64 q = (s64)b >> (z & 63), p = (s64)a;
    if (q == 0 || q == -1) q = -3;
    OUT(a / d); OUT(a % d); OUT(a / small); OUT(a % small); OUT(p / q); OUT(p % q);
    OUT(a / 10); OUT(a % 1000000007ull); OUT(p / -13); OUT(p % 4096);
    L2("div.u64", c, d); L2("rem.u64", c, small); L2("div.s64", c, q); L2("rem.s64", c, q);
}

KERNEL(multiply_add) {
    THREAD
    R3("mad.lo.s32", x, y, z); R3("mad.hi.s32", x, y, z); R3("mad.hi.u32", x, y, z);
    // Not mad.hi.sat of these, which `saturation` has: ptxas 13.0 takes it for the mad.hi before.
    { u64 r; asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(r) : "r"(x), "r"(y), "l"(c)); OUT(r); }
    { u64 r; asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(r) : "r"(x), "r"(y), "l"(c)); OUT(r); }
    { u32 r; asm("mad.wide.s16 %0, %1, %2, %3;" : "=r"(r) : "h"((u16)x), "h"((u16)y), "r"(z)); OUT(r); }
    { u32 r; asm("mul.wide.u16 %0, %1, %2;" : "=r"(r) : "h"((u16)x), "h"((u16)y)); OUT(r); }
}

KERNEL(multiply_24) {
    THREAD
    R2("mul24.lo.s32", x, y); R2("mul24.lo.u32", x, y); R2("mul24.hi.s32", x, y);
    R2("mul24.hi.u32", x, y); R3("mad24.lo.s32", x, y, z); R3("mad24.lo.u32", x, y, z);
    R3("mad24.hi.s32", x, y, z); R3("mad24.hi.u32", x, y, z); R3("mad24.hi.sat.s32", x, y, z);
    OUT(__mul24((s32)x, (s32)y)); OUT(__umul24(x, y));
}

KERNEL(sum_of_differences) {
    THREAD
    R3("sad.s32", x, y, z); R3("sad.u32", x, y, z); L3("sad.s64", a, b, c); L3("sad.u64", a, b, c);
    H3("sad.s16", (u16)x, (u16)y, (u16)z); H3("sad.u16", (u16)x, (u16)y, (u16)z);
    OUT(__sad((s32)x, (s32)y, z)); OUT(__usad(x, y, z));
}

KERNEL(saturation) {
    THREAD
    R2("add.sat.s32", x, y); R2("sub.sat.s32", x, y); R2("add.sat.s32", x, z);
    R2("sub.sat.s32", z, y); R3("mad.hi.sat.s32", y, z, x);
}

KERNEL(shifts) {
    THREAD
    u32 d = z & 127;
    R2("shl.b32", x, d); R2("shr.u32", x, d); R2("shr.s32", x, d); R2("shl.b32", x, z);
    { u16 r; asm("shl.b16 %0, %1, %2;" : "=h"(r) : "h"((u16)x), "r"(d)); OUT(r); }
    { u16 r; asm("shr.s16 %0, %1, %2;" : "=h"(r) : "h"((u16)x), "r"(d)); OUT(r); }
    { u64 r; asm("shl.b64 %0, %1, %2;" : "=l"(r) : "l"(a), "r"(d)); OUT(r); }
    { u64 r; asm("shr.u64 %0, %1, %2;" : "=l"(r) : "l"(a), "r"(d)); OUT(r); }
    { u64 r; asm("shr.s64 %0, %1, %2;" : "=l"(r) : "l"(a), "r"(d)); OUT(r); }
    OUT((s64)a >> (z & 63)); OUT(x << 5 ^ x >> 3); OUT((s32)y >> 31);
}

// Chains through the carry flag.
KERNEL(carry_add) {
    THREAD
    u32 p, q, r, s;
    asm("add.cc.u32 %0, %4, %6;\n\taddc.cc.u32 %1, %5, %7;\n\taddc.cc.u32 %2, %6, %6;\n\taddc.u32 %3, 0, 0;"
        : "=r"(p), "=r"(q), "=r"(r), "=r"(s)
        : "r"(x), "r"((u32)(a >> 32)), "r"(y), "r"((u32)(b >> 32)));
    OUT(p); OUT(q); OUT(r); OUT(s);
    asm("sub.cc.u32 %0, %4, %6;\n\tsubc.cc.u32 %1, %5, %7;\n\tsubc.cc.u32 %2, %6, %5;\n\tsubc.u32 %3, 0, 0;"
        : "=r"(p), "=r"(q), "=r"(r), "=r"(s)
        : "r"(x), "r"((u32)(a >> 32)), "r"(y), "r"((u32)(b >> 32)));
    OUT(p); OUT(q); OUT(r); OUT(s);
    u64 l, m, h;
    asm("add.cc.u64 %0, %3, %4;\n\taddc.cc.u64 %1, %4, %5;\n\taddc.u64 %2, %5, 0;"
        : "=l"(l), "=l"(m), "=l"(h) : "l"(a), "l"(b), "l"(c));
    OUT(l); OUT(m); OUT(h);
    asm("sub.cc.u64 %0, %3, %4;\n\tsubc.cc.u64 %1, %4, %5;\n\tsubc.u64 %2, %5, 0;"
        : "=l"(l), "=l"(m), "=l"(h) : "l"(a), "l"(b), "l"(c));
    OUT(l); OUT(m); OUT(h);
}

// The 128-bit product of two words, out of 32-bit pieces.
KERNEL(carry_multiply) {
    THREAD
    u32 h = (u32)(a >> 32), k = (u32)(b >> 32), p, q, r, s;
    asm("mul.lo.u32 %0, %4, %6;\n\t"
        "mul.hi.u32 %1, %4, %6;\n\t"
        "mad.lo.cc.u32 %1, %4, %7, %1;\n\t"
        "madc.hi.u32 %2, %4, %7, 0;\n\t"
        "mad.lo.cc.u32 %1, %5, %6, %1;\n\t"
        "madc.hi.cc.u32 %2, %5, %6, %2;\n\t"
        "addc.u32 %3, 0, 0;\n\t"
        "mad.lo.cc.u32 %2, %5, %7, %2;\n\t"
        "madc.hi.u32 %3, %5, %7, %3;"
        : "=r"(p), "=r"(q), "=r"(r), "=r"(s) : "r"(x), "r"(h), "r"(y), "r"(k));
    OUT(p | (u64)q << 32); OUT(r | (u64)s << 32);
    u64 lo, hi;
    asm("mad.lo.cc.u64 %0, %2, %3, %4;\n\tmadc.hi.u64 %1, %2, %3, %4;"
        : "=l"(lo), "=l"(hi) : "l"(a), "l"(b), "l"(c));
    OUT(lo); OUT(hi);
    OUT(__umul64hi(a, b) == (r | (u64)s << 32));
}
