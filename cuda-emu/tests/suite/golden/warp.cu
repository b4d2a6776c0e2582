// What the lanes of a warp do together.
#include "prelude.cuh"

#define ALL 0xffffffffu

KERNEL(shuffles) {
    THREAD
    u32 lane = threadIdx.x & 31;
    OUT(__shfl_sync(ALL, x, y & 31)); OUT(__shfl_up_sync(ALL, x, 3)); OUT(__shfl_down_sync(ALL, x, 5));
    OUT(__shfl_xor_sync(ALL, x, 9)); OUT(__shfl_sync(ALL, a, 31 - lane)); OUT(__shfl_sync(ALL, x, y, 8));
    OUT(__shfl_up_sync(ALL, b, 2, 16)); OUT(__shfl_down_sync(ALL, x, 1, 4)); OUT(__shfl_xor_sync(ALL, y, 3, 4));
    OUT(bits(__shfl_sync(ALL, f64(a), 7))); OUT(bits(__shfl_xor_sync(ALL, f32(x), 16)));
}

#define SHUFFLE(mode, b, c) { u32 r_, p_;                                                     \
    asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, 0xffffffff; "      \
        "selp.u32 %1, 1, 0, p; }" : "=r"(r_), "=r"(p_) : "r"(x), "r"(b), "r"(c));             \
    OUT(r_ | (u64)p_ << 32); }

// With the predicate that says whether the source was in range, and any clamp and segment mask.
KERNEL(shuffles_in_range) {
    THREAD
    u32 same = __shfl_sync(ALL, z, 0), clamp = same & 0x1f1f;
    SHUFFLE("up", 4, 0) SHUFFLE("down", 4, 0x1f) SHUFFLE("bfly", 12, 0x1f) SHUFFLE("idx", y & 63, 0x1f)
    SHUFFLE("up", same >> 16 & 31, clamp) SHUFFLE("down", same >> 16 & 31, clamp)
    SHUFFLE("bfly", same >> 16 & 31, clamp) SHUFFLE("idx", y & 31, clamp) SHUFFLE("idx", y & 31, z & 0x1f1f)
}

KERNEL(votes) {
    THREAD
    OUT(__ballot_sync(ALL, x & 1)); OUT(__any_sync(ALL, (x & 0x7f) == 5)); OUT(__all_sync(ALL, (x & 0x7f) != 5));
    { u32 r; asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.uni.pred q, p, 0xffffffff; "
        "selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"((x >> 24) + 1)); OUT(r); }
    OUT(__ballot_sync(ALL, f32(x) < f32(y))); OUT(__uni_sync(ALL, threadIdx.x & 32));
}

KERNEL(votes_of_some) {
    THREAD
    u32 some = __ballot_sync(ALL, x & 4);
    if (x & 4) {
        OUT(__ballot_sync(some, y & 1)); OUT(__any_sync(some, (y & 0x3f) == 1)); OUT((__activemask() & ~some) == 0);
        OUT(__shfl_sync(some, a, __ffs((s32)some) - 1));
    } else {
        OUT(__ballot_sync(~some, y & 2)); OUT(__all_sync(~some, y != 0));
    }
    __syncwarp();
    OUT(__ballot_sync(ALL, z & 1));
}

KERNEL(matches) {
    THREAD
    s32 p;
    OUT(__match_any_sync(ALL, x & 3)); OUT(__match_any_sync(ALL, a & 0x8000000000000001ull));
    OUT(__match_all_sync(ALL, threadIdx.x & 32, &p)); OUT(p); OUT(__match_all_sync(ALL, b & 1, &p)); OUT(p);
    OUT(__match_any_sync(ALL, x));
}

#if __CUDA_ARCH__ >= 800
KERNEL(reductions) {
    THREAD
    OUT(__reduce_add_sync(ALL, x)); OUT(__reduce_min_sync(ALL, x)); OUT(__reduce_max_sync(ALL, x));
    OUT((u32)__reduce_min_sync(ALL, (s32)y)); OUT((u32)__reduce_max_sync(ALL, (s32)y));
    OUT(__reduce_and_sync(ALL, x | y)); OUT(__reduce_or_sync(ALL, x & y & z)); OUT(__reduce_xor_sync(ALL, z));
    if (threadIdx.x & 1) OUT(__reduce_add_sync(0xaaaaaaaau, x));
    else OUT(__reduce_xor_sync(0x55555555u, y));
}
#endif

KERNEL(scan) {
    THREAD
    u32 lane = threadIdx.x & 31;
    u64 sum = a;
    for (u32 d = 1; d < 32; d *= 2) {
        u64 other = __shfl_up_sync(ALL, sum, d);
        if (lane >= d) sum += other;
    }
    OUT(sum);
    u32 most = x;
    for (u32 d = 16; d > 0; d /= 2) most = max(most, __shfl_xor_sync(ALL, most, d));
    OUT(most);
}

// Lanes meet in different branches, each group with its own mask.
KERNEL(divergent_groups) {
    THREAD
    u32 lane = threadIdx.x & 31, group = lane & 3, mask = 0x11111111u << group;
    u64 r = 0;
    switch (group) {
        case 0: r = __shfl_sync(mask, a, 28); break;
        case 1: r = __ballot_sync(mask, x & 8); break;
        case 2: for (int k = 0; k < 4; k++) r += __shfl_xor_sync(mask, b + (u64)k, 4 << (k & 1)); break;
        default: r = __shfl_down_sync(mask, c, 4); break;
    }
    OUT(r);
    __syncwarp(mask);
    OUT(__shfl_xor_sync(ALL, r, 1));
}
