// The signs of a field's corners: the only kernel that reads the whole field.
#pragma once

#include <geom/isosurface/field.cuh>
#include <geom/sort/block.cuh>

namespace geom {
namespace isosurface {

// The words of a warp, and the number of them that are loaded before the first is used.
constexpr unsigned WARP_WORDS = 32;
constexpr unsigned LOADED_WORDS = 8;

// Writes the signs of all words, 32 words per warp, and clears the state and the status for `count`. By whole warps,
// in any number of blocks that has enough of them.
template <class Field>
__device__ __forceinline__ void find_signs(const Field& field, float iso, Signs* signs,
                                           unsigned long long* state, unsigned state_words,
                                           Counts* counts) {
    using sort::ALL_LANES;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = thread; i < state_words; i += gridDim.x * blockDim.x) state[i] = 0;
    if (thread == 0) counts->status = 0;

    const unsigned lane = sort::lane_index();
    const unsigned first = thread - lane;
    if (first >= field.words) return;
    // Every lane reads some element, so that no load waits for a branch; elements after a run's end are discarded.
    const bool there = first + lane < field.words;
    Run run = field.run(there ? first + lane : field.words - 1);
    if (!there) run.count = 0;
    Signs own = {0, 0};
#pragma unroll 1
    for (unsigned word = 0; word < WARP_WORDS; word += LOADED_WORDS) {
        float values[LOADED_WORDS];
        unsigned lengths[LOADED_WORDS];
#pragma unroll
        for (unsigned i = 0; i < LOADED_WORDS; ++i) {
            const unsigned from = __shfl_sync(ALL_LANES, run.first, word + i);
            lengths[i] = __shfl_sync(ALL_LANES, run.count, word + i);
            values[i] = field.value(from + (lane < lengths[i] ? lane : 0));
        }
#pragma unroll
        for (unsigned i = 0; i < LOADED_WORDS; ++i) {
            const bool is_known = lane < lengths[i] && exact::is_finite(values[i]);
            const unsigned known = __ballot_sync(ALL_LANES, is_known);
            const unsigned less = __ballot_sync(ALL_LANES, exact::less(values[i], iso));
            if (lane == word + i) own = {less & known, known};
        }
    }
    if (there) signs[first + lane] = own;
}

} // namespace isosurface
} // namespace geom
