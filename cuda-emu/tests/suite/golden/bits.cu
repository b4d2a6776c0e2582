// Bits: counting, fields, permutations, logic.
#include "prelude.cuh"

KERNEL(counts) {
    THREAD
    OUT(__popc(x)); OUT(__popcll(a)); OUT(__clz((s32)x)); OUT(__clzll((s64)a));
    OUT(__brev(x)); OUT(__brevll(a)); OUT(__ffs((s32)x)); OUT(__ffsll((s64)a));
    u32 d = x >> (z & 31);
    u64 e = a >> (z & 63);
    OUT(__popc(d)); OUT(__clz((s32)d)); OUT(__clzll((s64)e)); OUT(__ffsll((s64)(a << (z & 63))));
}

KERNEL(find_leading) {
    THREAD
    s64 e = (s64)a >> (z & 63);
    u32 d = (u32)((s32)x >> (z & 31));
    R1("bfind.u32", d); R1("bfind.s32", d); R1("bfind.shiftamt.u32", d); R1("bfind.shiftamt.s32", d);
    CVT(u32, "r", "l", "bfind.u64", e) CVT(u32, "r", "l", "bfind.s64", e)
    CVT(u32, "r", "l", "bfind.shiftamt.u64", e) CVT(u32, "r", "l", "bfind.shiftamt.s64", e)
}

KERNEL(extract_field) {
    THREAD
    u32 p = y & 0xff, l = z & 0xff, near = y & 31, some = z & 31;
    R3("bfe.u32", x, p, l); R3("bfe.s32", x, p, l); R3("bfe.u32", x, near, some);
    R3("bfe.s32", x, near, some); R3("bfe.u32", x, y, z); R3("bfe.s32", x, 28, 8);
    { u64 r; asm("bfe.u64 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "r"(p), "r"(l)); OUT(r); }
    { u64 r; asm("bfe.s64 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "r"(p), "r"(l)); OUT(r); }
    { u64 r; asm("bfe.u64 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "r"(y & 63), "r"(z & 63)); OUT(r); }
    { u64 r; asm("bfe.s64 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "r"(y & 63), "r"(z & 63)); OUT(r); }
}

KERNEL(insert_field) {
    THREAD
    u32 p = z & 0xff, l = z >> 8 & 0xff;
    R4("bfi.b32", x, y, p, l); R4("bfi.b32", x, y, p & 31, l & 31); R4("bfi.b32", x, y, z, l);
    { u64 r; asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(r) : "l"(a), "l"(b), "r"(p), "r"(l)); OUT(r); }
    { u64 r; asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(r) : "l"(a), "l"(b), "r"(p & 63), "r"(l & 63)); OUT(r); }
}

KERNEL(find_nth_set) {
    THREAD
    u32 base = y & 31;
    s32 offset = (s32)(z & 31) - 16;
    R3("fns.b32", x, base, offset); R3("fns.b32", x, base, 1); R3("fns.b32", x, base, -1);
    R3("fns.b32", x, 0, 4); R3("fns.b32", x, base, 0); OUT(__fns(x, base, offset));
}

KERNEL(permute) {
    THREAD
    R3("prmt.b32", x, y, z); R3("prmt.b32.f4e", x, y, z); R3("prmt.b32.b4e", x, y, z);
    R3("prmt.b32.rc8", x, y, z); R3("prmt.b32.ecl", x, y, z); R3("prmt.b32.ecr", x, y, z);
    R3("prmt.b32.rc16", x, y, z); OUT(__byte_perm(x, y, z)); OUT(__byte_perm(x, y, 0x5410));
    R3("prmt.b32", x, y, 0x0123); R3("prmt.b32", x, y, 0xfedc);
}

KERNEL(funnel_shift) {
    THREAD
    R3("shf.l.wrap.b32", x, y, z); R3("shf.l.clamp.b32", x, y, z); R3("shf.r.wrap.b32", x, y, z);
    R3("shf.r.clamp.b32", x, y, z); R3("shf.l.clamp.b32", x, y, z & 63);
    R3("shf.r.clamp.b32", x, y, z & 63); OUT(__funnelshift_l(x, y, z)); OUT(__funnelshift_rc(x, y, z));
    OUT(x << 7 | x >> 25); OUT(a << 13 | a >> 51);
}

// A function of three words, by its table.
#define LOP3(table) { u32 r_; asm("lop3.b32 %0, %1, %2, %3, " #table ";" : "=r"(r_) : "r"(x), "r"(y), "r"(z)); OUT(r_); }

KERNEL(logic) {
    THREAD
    LOP3(0x00) LOP3(0x80) LOP3(0xfe) LOP3(0x96) LOP3(0xe8) LOP3(0xca) LOP3(0x1b) LOP3(0x57) LOP3(0xff)
    H2("and.b16", (u16)x, (u16)y); H2("xor.b16", (u16)x, (u16)y); H1("not.b16", (u16)x);
    R1("cnot.b32", x & y & z); L1("cnot.b64", a & b & c); OUT((a & b) | (~a & c));
    OUT((x & ~y) ^ (z | y));
}

KERNEL(masks) {
    THREAD
    u32 d = y & 63, e = z & 63;
    R2("bmsk.clamp.b32", d, e); R2("bmsk.wrap.b32", d, e); R2("bmsk.clamp.b32", y, z);
    R2("bmsk.wrap.b32", y, z); R2("szext.clamp.s32", x, d); R2("szext.clamp.u32", x, d);
    R2("szext.wrap.s32", x, d); R2("szext.wrap.u32", x, d); R2("szext.clamp.s32", x, z);
    R2("szext.wrap.u32", x, z);
}
