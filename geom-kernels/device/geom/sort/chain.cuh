// The sum over all earlier tiles, in a kernel that reads its input once.
//
// D. Merrill, M. Garland: Single-pass Parallel Prefix Scan with Decoupled Look-back. 2016 (NVIDIA
// NVR-2016-002): a tile publishes its own sum, adds the published sums of the tiles before it, nearest first, up to one
// with an inclusive sum, and then publishes its inclusive sum.
#pragma once

#include <geom/sort/block.cuh>
#include <geom/sort/words.cuh>

namespace geom {
namespace sort {

// The chain's state in memory: words that are all 0 before the kernel. The first is the ticket counter of tiles; then
// each tile has a word with half of the sum in the lower part and its kind above. For sums of 64 bits another word is
// `tiles` words later. The same in Rust: sort/scan.rs.
constexpr unsigned CHAIN_AT = 1;
constexpr unsigned CHAIN_OWN = 1;
constexpr unsigned CHAIN_ALL = 2;

// The next tile, in every thread. Tiles are assigned in the order in which blocks begin, so all tiles before one are
// done or running. `tile` is shared memory; one barrier.
__device__ __forceinline__ unsigned next_tile(unsigned long long* state, unsigned& tile) {
    if (threadIdx.x == 0) tile = atomicAdd(reinterpret_cast<unsigned*>(state), 1u);
    __syncthreads();
    return tile;
}

__device__ __forceinline__ void tell(unsigned long long* state, unsigned tile, unsigned tiles,
                                     unsigned what, unsigned sum) {
    store_word(state + CHAIN_AT + tile, static_cast<unsigned long long>(what) << 32 | sum);
}

__device__ __forceinline__ void tell(unsigned long long* state, unsigned tile, unsigned tiles,
                                     unsigned what, unsigned long long sum) {
    const unsigned long long above = static_cast<unsigned long long>(what) << 32;
    store_word(state + CHAIN_AT + tile, above | (sum & 0xffffffffu));
    store_word(state + CHAIN_AT + tiles + tile, above | sum >> 32);
}

// The kind of the published sum of a tile: 0 if there is none yet.
__device__ __forceinline__ unsigned hear(const unsigned long long* state, unsigned tile, unsigned tiles,
                                         unsigned& sum) {
    const unsigned long long word = load_word(state + CHAIN_AT + tile);
    sum = static_cast<unsigned>(word);
    return static_cast<unsigned>(word >> 32);
}

__device__ __forceinline__ unsigned hear(const unsigned long long* state, unsigned tile, unsigned tiles,
                                         unsigned long long& sum) {
    const unsigned long long low = load_word(state + CHAIN_AT + tile);
    const unsigned long long high = load_word(state + CHAIN_AT + tiles + tile);
    sum = (low & 0xffffffffu) | high << 32;
    // A tile publishes at most two sums. Halves of the same kind belong to the same sum.
    return low >> 32 == high >> 32 ? static_cast<unsigned>(low >> 32) : 0;
}

// The sum over all tiles before `tile`, in every lane; called by one warp with all 32 lanes. Publishes `own`, the
// tile's sum, for the others.
template <class Sum>
__device__ __forceinline__ Sum chain_sum(unsigned long long* state, unsigned tile, unsigned tiles,
                                         Sum own) {
    if (tile == 0) {
        if (lane_index() == 0) tell(state, tile, tiles, CHAIN_ALL, own);
        return 0;
    }
    if (lane_index() == 0) tell(state, tile, tiles, CHAIN_OWN, own);
    Sum before = 0;
    // Lane l reads the tile l + 1 before `next`.
    for (unsigned next = tile;;) {
        Sum sum = 0;
        unsigned what = CHAIN_ALL;
        unsigned needed;
        do {
            if (lane_index() < next) what = hear(state, next - 1 - lane_index(), tiles, sum);
            const unsigned all = __ballot_sync(ALL_LANES, what == CHAIN_ALL);
            // Lanes up to the nearest one with an inclusive sum are needed.
            needed = all == 0 ? ALL_LANES : all ^ (all - 1);
        } while ((__ballot_sync(ALL_LANES, what != 0) & needed) != needed);
        before += warp_sum((needed >> lane_index() & 1) ? sum : static_cast<Sum>(0));
        if (__any_sync(ALL_LANES, what == CHAIN_ALL)) break;
        next -= 32;
    }
    if (lane_index() == 0) tell(state, tile, tiles, CHAIN_ALL, before + own);
    return before;
}

} // namespace sort
} // namespace geom
