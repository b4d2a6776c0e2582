// Prefix sums of integers, in one pass. Sums wrap around.
#pragma once

#include <geom/sort/block.cuh>
#include <geom/sort/chain.cuh>

namespace geom {
namespace sort {

// A tile of THREADS * ITEMS elements, summed by a block of THREADS.
template <class In, class Sum, int THREADS, int ITEMS>
struct ScanTile {
    static constexpr unsigned TILE = THREADS * ITEMS;
    static constexpr unsigned WARPS = THREADS / 32;

    struct Shared {
        // A gap follows each thread's items, so that threads that access theirs at the same time use different banks.
        Sum items[TILE + THREADS];
        Sum sums[WARPS];
        Sum before;
        unsigned tile;
    };

    // out[i] = in[0] + ... + in[i], without in[i] unless `inclusive`, for i < n, and if `total` out[n] = the sum of
    // all. By a grid of as many blocks as there are tiles of n, which is not 0 and below 2^31.
    __device__ __forceinline__ static void run(Shared& shared, const In* in, Sum* out, unsigned n,
                                               bool inclusive, bool total, unsigned long long* state) {
        const unsigned thread = threadIdx.x, tiles = gridDim.x;
        const unsigned tile = next_tile(state, shared.tile);
        const unsigned start = tile * TILE;
        const unsigned valid = n - start < TILE ? n - start : TILE;
        // The items are copied from global to shared memory in the order of memory; then each thread takes ITEMS
        // consecutive ones.
        In loaded[ITEMS];
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned at = thread + i * THREADS;
            loaded[i] = 0;
            if (at < valid) loaded[i] = in[start + at];
        }
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned at = thread + i * THREADS;
            shared.items[at + at / ITEMS] = loaded[i];
        }
        __syncthreads();
        Sum items[ITEMS];
        Sum sum = 0;
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            items[i] = shared.items[thread * (ITEMS + 1) + i];
            sum += items[i];
        }
        Sum own;
        Sum running = block_exclusive_sum(sum, shared.sums, own);
        if (thread < 32) {
            const Sum before = chain_sum(state, tile, tiles, own);
            if (thread == 0) {
                shared.before = before;
                if (total && tile == tiles - 1) out[n] = before + own;
            }
        }
        __syncthreads();
        running += shared.before;
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const Sum next = running + items[i];
            shared.items[thread * (ITEMS + 1) + i] = inclusive ? next : running;
            running = next;
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned at = thread + i * THREADS;
            if (at < valid) out[start + at] = shared.items[at + at / ITEMS];
        }
    }
};

} // namespace sort
} // namespace geom
