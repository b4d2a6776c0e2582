// Arithmetic of bfloat16 and tf32, without a header. From compute capability 8.0 or 9.0 on.
#include "prelude.cuh"

#if __CUDA_ARCH__ >= 900
static __device__ __forceinline__ u16 numeral(u16 h) {
    return (h & 0x7fff) > 0x7f80 ? (u16)(h & 0xbfff) : h;
}

KERNEL(bf16_arithmetic) {
    THREAD
    u16 p = (u16)a, q = (u16)b, r = (u16)c;
    H2("add.rn.bf16", p, q); H2("sub.rn.bf16", p, q); H2("mul.rn.bf16", p, q);
    H3("fma.rn.bf16", p, q, r); H3("fma.rn.relu.bf16", p, q, r); H1("neg.bf16", numeral(p));
    H1("abs.bf16", numeral(p)); H2("min.bf16", p, q); H2("max.bf16", p, q); H2("min.NaN.bf16", p, q);
}

KERNEL(bf16x2_arithmetic) {
    THREAD
    R2("add.rn.bf16x2", x, y); R2("sub.rn.bf16x2", x, y); R2("mul.rn.bf16x2", x, y);
    R3("fma.rn.bf16x2", x, y, z); R3("fma.rn.relu.bf16x2", x, y, z); R2("min.bf16x2", x, y);
    R2("max.NaN.bf16x2", x, y);
}

KERNEL(bf16_convert) {
    THREAD
    float f = f32(x), g = f32(y);
    CVT(u16, "h", "f", "cvt.rn.bf16.f32", f) CVT(u16, "h", "f", "cvt.rz.bf16.f32", f)
    CVT(u16, "h", "f", "cvt.rn.relu.bf16.f32", f) CVT(float, "f", "h", "cvt.f32.bf16", numeral((u16)z))
    { u32 s; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(f), "f"(g)); OUT(s); }
    { u32 s; asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(s) : "f"(f), "f"(g)); OUT(s); }
    { u32 s; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(s) : "f"(f32(number(x)))); OUT(s); }
    CVT(u32, "r", "h", "cvt.rni.s32.bf16", (u16)z) CVT(u16, "h", "r", "cvt.rn.bf16.s32", x)
}
#endif
