// The usual inline assembly: carries, packing, scopes with labels, ordered accesses, barriers,
// asynchronous copies and matrices.

extern "C" __global__ void assembly(unsigned *out, unsigned a, unsigned b, unsigned long long l, float f, double d)
{
    unsigned r, s, t;
    asm("add.cc.u32 %0, %2, %3;\n\taddc.cc.u32 %1, %2, 0;\n\taddc.u32 %1, %1, 1;" : "=r"(r), "=r"(s) : "r"(a), "r"(b));
    asm("mad.lo.cc.u32 %0, %1, %2, %1;\n\tmadc.hi.u32 %0, %1, %2, %0;" : "=r"(t) : "r"(a), "r"(b));
    out[0] = r + s + t;
    asm("lop3.b32 %0, %1, %2, %1, 0x96; bfe.u32 %0, %0, %2, 8; bfi.b32 %0, %1, %0, 3, 4; prmt.b32 %0, %0, %1, 0x1234;"
        : "=r"(r) : "r"(a), "r"(b));
    asm("{ .reg .b16 x, y; mov.b32 {x, y}, %1; mov.b32 %0, {y, x}; }" : "=r"(s) : "r"(a));
    asm("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %1; add.u32 %0, lo, hi; }" : "=r"(t) : "l"(l));
    out[1] = r + s + t;
    // One text with labels, twice in a function.
    for (int k = 0; k < 2; k++) {
        asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0; @p bra DONE; mov.u32 %0, 3; bra END; DONE: mov.u32 %0, 4; END: }"
                     : "=r"(r) : "r"(a));
        asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 1; @!p bra DONE; mov.u32 %0, 3; DONE: }" : "+r"(r) : "r"(b));
        out[2 + k] = r;
    }
    asm volatile("ld.global.v4.u32 {%0, %1, %2, _}, [%3+16];" : "=r"(r), "=r"(s), "=r"(t) : "l"(out));
    asm volatile("st.global.cs.v2.u32 [%0], {%1, 5};" ::"l"(out), "r"(r));
    asm volatile("ld.volatile.global.u32 %0, [%1+-4]; ld.global.nc.u32 %0, [%1]; prefetch.global.L2 [%1];" : "=r"(s) : "l"(out));
    asm volatile("membar.gl; bar.sync 1, 64; bar.arrive 2, 64;");
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, 1, 64, !p; selp.b32 %0, 1, 0, q; }" : "=r"(t) : "r"(a));
    out[4] = r + s + t;
    asm("{ .reg .v4 .u32 v; .reg .u32 t<3>; ld.global.v4.u32 v, [%1]; add.u32 t0, v.x, v.w; add.u32 %0, t0, v.y; }" : "=r"(r) : "l"(out));
    asm("{ .reg .pred p; testp.normal.f32 p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(s) : "f"(f));
    asm("cvt.rni.s32.f64 %0, %1; cvt.sat.u8.s32 %0, %0;" : "=r"(t) : "d"(d));
    out[5] = r + s + t;
#if __CUDA_ARCH__ >= 700
    asm volatile("ld.acquire.gpu.u32 %0, [%1]; st.release.cta.u32 [%1], %0; fence.acq_rel.sys; fence.sc.gpu;" : "=r"(r) : "l"(out));
    asm volatile("red.release.gpu.global.add.u32 [%1], %0; atom.acq_rel.cta.cas.b32 %0, [%1], %0, 7;" : "+r"(r) : "l"(out));
    out[6] = r;
#endif
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(r), "l"(out));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(s), "=r"(t) : "r"(r));
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %4, %5}, {%4, %5}, {%0, %1, %2, %3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(s), "r"(t));
    out[7] = c0 + c1 + c2 + c3;
    asm volatile("{ .reg .b64 state; .reg .pred p; mbarrier.init.shared.b64 [%0], 32; mbarrier.arrive.shared.b64 state, [%0];"
                 " WAIT: mbarrier.test_wait.shared.b64 p, [%0], state; @!p bra WAIT; mbarrier.inval.shared.b64 [%0]; }" ::"r"(r));
#endif
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; .reg .b32 rx; elect.sync rx|p, 0xFFFFFFFF; @p mov.s32 %0, 1; }" : "+r"(r));
    asm volatile("{ .reg .pred p; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;"
                 " WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra WAIT; }" ::"r"(r));
    out[8] = r;
#endif
}
