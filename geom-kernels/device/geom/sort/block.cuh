// Cooperative functions of the threads of one block. Blocks are one-dimensional, of whole warps.
#pragma once

namespace geom {
namespace sort {

constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ __forceinline__ unsigned lane_index() { return threadIdx.x % 32; }

// A bit for each lane below this one.
__device__ __forceinline__ unsigned lanes_below() { return (1u << lane_index()) - 1; }

// The sum of `value` over this lane and those below.
template <class Sum>
__device__ __forceinline__ Sum warp_inclusive_sum(Sum value) {
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
        const Sum below = __shfl_up_sync(ALL_LANES, value, step);
        if (lane_index() >= step) value += below;
    }
    return value;
}

// The sum over all lanes, in each of them. Only for integers: the order of the additions is unspecified.
template <class Sum>
__device__ __forceinline__ Sum warp_sum(Sum value) {
#pragma unroll
    for (unsigned step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

// The sum of `value` over the threads of the block before this one; `total` becomes that over all. `sums` is shared
// memory, read until the block's next barrier. All threads call it; one barrier.
template <int WARPS, class Sum>
__device__ __forceinline__ Sum block_exclusive_sum(Sum value, Sum (&sums)[WARPS], Sum& total) {
    const unsigned warp = threadIdx.x / 32;
    const Sum inclusive = warp_inclusive_sum(value);
    if (lane_index() == 31) sums[warp] = inclusive;
    __syncthreads();
    Sum before = 0;
    total = 0;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) {
        const Sum sum = sums[w];
        if (w < warp) before += sum;
        total += sum;
    }
    return before + inclusive - value;
}

} // namespace sort
} // namespace geom
