// What the threads of a block do together: barriers and shared memory. Blocks have 256 threads.
#include "prelude.cuh"

KERNEL(block_sum) {
    __shared__ u64 part[256];
    THREAD
    part[threadIdx.x] = a;
    __syncthreads();
    for (u32 d = 128; d > 0; d /= 2) {
        if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d];
        __syncthreads();
    }
    OUT(part[0]); OUT(threadIdx.x < 8 ? part[threadIdx.x] : 0);
}

KERNEL(block_scan) {
    __shared__ u32 values[2][256];
    THREAD
    u32 t = threadIdx.x, at = 0;
    values[0][t] = x;
    for (u32 d = 1; d < 256; d *= 2) {
        __syncthreads();
        values[1 - at][t] = values[at][t] + (t >= d ? values[at][t - d] : 0);
        at = 1 - at;
    }
    OUT(values[at][t]);
}

KERNEL(block_transpose) {
    __shared__ u16 tile[16][17];
    __shared__ u64 words[16][16];
    THREAD
    u32 row = threadIdx.x / 16, column = threadIdx.x % 16;
    tile[row][column] = (u16)x;
    words[column][row ^ column] = b;
    __syncthreads();
    OUT(tile[column][row]); OUT(words[row][column]);
    __syncthreads();
    ((u8*)tile)[threadIdx.x] ^= (u8)y;
    __syncthreads();
    OUT(tile[threadIdx.x / 17 % 8][threadIdx.x % 17 % 16]);
}

KERNEL(barrier_reductions) {
    THREAD
    OUT(__syncthreads_count(x & 1)); OUT(__syncthreads_and((x & 0x3ff) != 7)); OUT(__syncthreads_or((x & 0x3ff) == 7));
    u32 r;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; barrier.red.popc.u32 %0, 3, 256, p; }" : "=r"(r) : "r"(y & 2) : "memory");
    OUT(r);
    asm volatile("{ .reg .pred p, q; setp.lt.s32 p, %1, 0; bar.red.or.pred q, 4, p; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(y) : "memory");
    OUT(r);
}

// The halves of a block have a barrier each.
KERNEL(named_barriers) {
    __shared__ u64 values[256];
    THREAD
    u32 half = threadIdx.x / 128, t = threadIdx.x % 128;
    u64* mine = values + 128 * half;
    mine[t] = a;
    u64 sum = 0;
    for (u32 k = 0; k < 8; k++) {
        asm volatile("bar.sync %0, %1;" :: "r"(half + 1), "n"(128) : "memory");
        sum += mine[(t + 17 * k) % 128] * (k + half);
        asm volatile("barrier.sync %0, 128;" :: "r"(half + 1) : "memory");
        mine[t] += sum;
    }
    OUT(sum);
}

// One half makes what the other takes: one arrives, the other waits.
KERNEL(arrivals) {
    __shared__ u64 slots[2][128];
    THREAD
    u32 t = threadIdx.x % 128;
    u64 sum = a;
    for (u32 k = 0; k < 4; k++) {
        u32 full = 1 + (k & 1), empty = 3 + (k & 1);
        if (threadIdx.x < 128) {
            if (k >= 2) asm volatile("bar.sync %0, 256;" :: "r"(empty) : "memory");
            slots[k & 1][t] = b + k * c;
            __threadfence_block();
            asm volatile("bar.arrive %0, 256;" :: "r"(full) : "memory");
        } else {
            asm volatile("bar.sync %0, 256;" :: "r"(full) : "memory");
            sum = sum * 31 + slots[k & 1][(t * 5 + k) % 128];
            asm volatile("" ::: "memory");
            if (k < 2) asm volatile("bar.arrive %0, 256;" :: "r"(empty) : "memory");
        }
    }
    OUT(sum);
}

KERNEL(warp_barriers) {
    __shared__ u32 values[256];
    THREAD
    u32 lane = threadIdx.x & 31, warp = threadIdx.x & ~31u;
    values[threadIdx.x] = x;
    __syncwarp();
    u32 r = values[warp + (lane * 7 + 3) % 32];
    __syncwarp();
    if (lane < 16) {
        values[threadIdx.x] = r ^ y;
        __syncwarp(0xffff);
        r += values[warp + 15 - lane];
    } else {
        values[threadIdx.x] = r + y;
        __syncwarp(0xffff0000u);
        r ^= values[warp + 47 - lane];
    }
    OUT(r);
}

#if __CUDA_ARCH__ >= 800
KERNEL(asynchronous_copies) {
    __shared__ __align__(16) u64 values[512];
    THREAD
    u32 at = (u32)__cvta_generic_to_shared(values + 2 * threadIdx.x);
    const u64* from = in + 3 * (i & ~255u) + 2 * threadIdx.x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(at), "l"(from) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at + 8), "l"(from + 1) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at + 12), "l"((const u32*)from + 3), "r"(x & 4) : "memory");
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    OUT(values[(2 * threadIdx.x + 77) % 512]); OUT(values[511 - 2 * threadIdx.x]);
}

KERNEL(counted_barriers) {
    __shared__ u64 barrier;
    __shared__ u64 values[256];
    THREAD
    u32 at = (u32)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 256;" :: "r"(at) : "memory");
    __syncthreads();
    u64 sum = 0;
    for (u32 k = 0; k < 3; k++) {
        values[threadIdx.x] = a + k * b;
        u64 state;
        u32 done = 0;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(done) : "r"(at), "l"(state) : "memory");
        sum += values[(threadIdx.x + 50 + k) % 256];
        __syncthreads();
    }
    OUT(sum);
}
#endif
