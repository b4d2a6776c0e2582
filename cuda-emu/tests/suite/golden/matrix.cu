// Matrix products of a warp, of integers: every sum is exact.
#include "prelude.cuh"

KERNEL(integer_products) {
    THREAD
    s32 p, q;
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
        : "=r"(p), "=r"(q) : "r"(x), "r"(y), "r"(z), "r"((u32)(c >> 32)));
    OUT((u32)p); OUT((u32)q);
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
        : "=r"(p), "=r"(q) : "r"(x), "r"(y), "r"(z), "r"((u32)(c >> 32)));
    OUT((u32)p); OUT((u32)q);
}

// Small whole numbers, whose sums f16 and f32 hold.
KERNEL(float_products) {
    THREAD
    u32 two = 0x40004000u & -(x & 1) | 0x3c00bc00u & ((x & 1) - 1), three = 0x42003c00u ^ (y & 0x80008000u);
    float d0, d1, d2, d3;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(two), "r"(three), "r"(two ^ three & 0x80000000u), "f"((float)(z & 255)), "f"(1.0f), "f"(-2.0f), "f"(0.5f));
    OUT(bits(d0)); OUT(bits(d1)); OUT(bits(d2)); OUT(bits(d3));
}

KERNEL(matrix_loads) {
    __shared__ __align__(16) u64 tile[8][64];
    THREAD
    u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    tile[warp][2 * lane] = a;
    tile[warp][2 * lane + 1] = b;
    __syncwarp();
    u32 at = (u32)__cvta_generic_to_shared(&tile[warp][2 * ((lane * 5 + 3) & 31)]), p, q, r, s;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(p), "=r"(q), "=r"(r), "=r"(s) : "r"(at) : "memory");
    OUT(p); OUT(q); OUT(r); OUT(s);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(p), "=r"(q) : "r"(at) : "memory");
    OUT(p); OUT(q);
}
