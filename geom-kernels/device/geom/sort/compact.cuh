// Stream compaction: the elements whose flag is not 0, in their order, in one pass.
#pragma once

#include <geom/sort/block.cuh>
#include <geom/sort/chain.cuh>

namespace geom {
namespace sort {

// The output: the element at an index, or the index itself.
template <class T>
struct TakeElement {
    typedef T Element;
    const T* elements;
    __device__ __forceinline__ T operator()(unsigned place) const { return elements[place]; }
};

struct TakePlace {
    typedef unsigned Element;
    __device__ __forceinline__ unsigned operator()(unsigned place) const { return place; }
};

// A tile of THREADS * ITEMS flags, by a block of THREADS.
template <class Flag, class Take, int THREADS, int ITEMS>
struct CompactTile {
    static constexpr unsigned TILE = THREADS * ITEMS;
    static constexpr unsigned WARPS = THREADS / 32;

    struct Shared {
        unsigned counts[WARPS];
        unsigned before;
        unsigned tile;
    };

    // Writes the first `capacity` selected elements to `out`, and the number of selected ones to `count`. By a grid
    // of as many blocks as there are tiles of n, which is not 0 and below 2^31.
    __device__ __forceinline__ static void run(Shared& shared, const Flag* flags, const Take& take,
                                               typename Take::Element* out, unsigned capacity,
                                               unsigned* count, unsigned n, unsigned long long* state) {
        const unsigned warp = threadIdx.x / 32, tiles = gridDim.x;
        const unsigned tile = next_tile(state, shared.tile);
        const unsigned start = tile * TILE + warp * 32 * ITEMS + lane_index();
        unsigned taken[ITEMS];
        unsigned own = 0;
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned place = start + 32 * i;
            bool take_it = false;
            if (place < n) take_it = flags[place] != 0;
            taken[i] = __ballot_sync(ALL_LANES, take_it);
            own += __popc(taken[i]);
        }
        if (lane_index() == 0) shared.counts[warp] = own;
        __syncthreads();
        unsigned to = 0, all = 0;
#pragma unroll
        for (unsigned w = 0; w < WARPS; w++) {
            const unsigned of_warp = shared.counts[w];
            if (w < warp) to += of_warp;
            all += of_warp;
        }
        if (warp == 0) {
            const unsigned before = chain_sum(state, tile, tiles, all);
            if (lane_index() == 0) {
                shared.before = before;
                if (tile == tiles - 1) *count = before + all;
            }
        }
        __syncthreads();
        to += shared.before;
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned at = to + __popc(taken[i] & lanes_below());
            if ((taken[i] >> lane_index() & 1) && at < capacity) out[at] = take(start + 32 * i);
            to += __popc(taken[i]);
        }
    }
};

} // namespace sort
} // namespace geom
