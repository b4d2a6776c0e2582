// Atomics on all types. What they leave behind does not depend on the order; what they answer is
// summed up where it would. The accumulators are the block's own part of `out`, which is zero.
#include "prelude.cuh"

#define ACCUMULATORS                                                  \
    THREAD                                                            \
    u64* base = out + WORDS * (u64)(i & ~255u);                       \
    u64* slot = base + WORDS * (x % 64);                              \
    u32* words = (u32*)slot;                                          \
    (void)words;

KERNEL(global_add) {
    ACCUMULATORS
    atomicAdd(slot, b); atomicAdd(words + 2, y); atomicAdd((s32*)words + 3, (s32)z); atomicSub(words + 4, z);
    atomicAdd((float*)words + 5, (float)(y & 0xfff)); atomicAdd((double*)slot + 3, (double)(s32)z);
    asm volatile("red.global.add.u64 [%0], %1;" :: "l"(slot + 4), "l"(c) : "memory");
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" :: "l"(words + 10), "r"(y) : "memory");
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(words + 11), "r"(0x3c004000u) : "memory");
    u16 was;
    asm volatile("atom.global.add.noftz.f16 %0, [%1], %2;" : "=h"(was) : "l"(words + 12), "h"((u16)0x3c00) : "memory");
}

KERNEL(global_logic) {
    ACCUMULATORS
    atomicOr(words, y & z); atomicXor(words + 1, z); atomicXor(slot + 1, c); atomicOr(slot + 2, b & c);
    atomicOr(words + 6, ~0u); atomicAnd(words + 7, z); atomicAnd(slot + 4, b);
}

KERNEL(global_extremes) {
    ACCUMULATORS
    atomicMax(words, y); atomicMax((s32*)words + 1, (s32)z); atomicMin((s32*)words + 2, (s32)z);
    atomicMin((u32*)words + 3, y); atomicMax(slot + 2, b); atomicMax((s64*)slot + 3, (s64)c);
    atomicMin((s64*)slot + 4, (s64)c); atomicMin(slot + 5, b);
}

// Tickets: each is drawn once, so their sum is known.
KERNEL(tickets) {
    ACCUMULATORS
    u32 t = atomicAdd(words, 1u);
    u64 u = atomicAdd(slot + 1, 1ull);
    atomicAdd(slot + 2, t * (u64)t); atomicAdd(slot + 3, u * 5);
    t = atomicInc(words + 8, 12); u = atomicDec(words + 9, 9);
    atomicAdd(slot + 5, t * (u64)t); atomicAdd(slot + 6, u);
}

KERNEL(exchange) {
    ACCUMULATORS
    (void)slot;
    // One slot for two lanes: what was put in comes out once, or stays.
    u64* mine = base + WORDS * (threadIdx.x / 2);
    u64 was = atomicExch(mine, b | 1);
    u32 was32 = atomicExch((u32*)mine + 2, y | 1);
    atomicAdd(mine + 2, was + was32);
    __syncthreads();
    if (threadIdx.x % 2 == 0) { mine[2] += mine[0] + *((u32*)mine + 2); mine[0] = 0; *((u32*)mine + 2) = 0; }
}

KERNEL(compare_and_swap) {
    ACCUMULATORS
    // A maximum of doubles, an addition modulo a prime, and a 16-bit counter, as loops.
    u64 seen = slot[0], old;
    u64 value = bits((double)(s32)y);
    do { old = seen; if (f64(old) >= f64(value)) break; seen = atomicCAS(slot, old, value); } while (seen != old);
    u32 was = words[2], then;
    do { then = was; was = atomicCAS(words + 2, then, (then + y % 65521) % 65521); } while (was != then);
    u16 count = *(u16*)(words + 4), before;
    do {
        before = count;
        asm volatile("atom.global.cas.b16 %0, [%1], %2, %3;" : "=h"(count)
            : "l"(words + 4), "h"(before), "h"((u16)(before + 3)) : "memory");
    } while (count != before);
}

KERNEL(shared_atomics) {
    __shared__ u32 counts[32];
    __shared__ u64 sums[32];
    __shared__ float floats[32];
    THREAD
    if (threadIdx.x < 32) { counts[threadIdx.x] = 0; sums[threadIdx.x] = 0; floats[threadIdx.x] = 0; }
    __syncthreads();
    atomicAdd(counts + (x & 31), 1u); atomicAdd(sums + (y & 31), c); atomicAdd(floats + (z & 31), 0.25f);
    atomicMax(sums + (x >> 5 & 31), 0ull);
    __syncthreads();
    u32 t = threadIdx.x & 31;
    OUT(counts[t]); OUT(sums[t]); OUT(bits(floats[t]));
    __syncthreads();
    atomicXor(counts + (x >> 8 & 31), y); atomicMin((s64*)sums + (y >> 8 & 31), (s64)b);
    atomicCAS(counts + t, 0u, 77u);
    __syncthreads();
    OUT(sums[t]);
}

KERNEL(scopes) {
    ACCUMULATORS
    u32 r;
    u64 l;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(words), "r"(y) : "memory");
    asm volatile("atom.release.sys.add.u64 %0, [%1], %2;" : "=l"(l) : "l"(slot + 1), "l"(c) : "memory");
    asm volatile("atom.relaxed.cta.global.max.s64 %0, [%1], %2;" : "=l"(l) : "l"(slot + 2), "l"(b) : "memory");
    (void)r; (void)l;
    atomicAdd_block(words + 6, y); atomicAdd_system(words + 7, z); atomicOr_block(slot + 4, b & c);
}
