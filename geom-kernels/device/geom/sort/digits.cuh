// Keys of a radix sort: their digits, the counts of digits, and the state of a sort in memory.
#pragma once

namespace geom {
namespace sort {

// A digit has at most 8 bits, a key at most 8 digits.
constexpr unsigned RADIX = 256;
constexpr unsigned MAX_PASSES = 8;

// The sorted bits of a key, and their division among passes, lowest first: the first `wider` passes take `width` + 1
// bits each, the others `width`. The same in Rust: sort/radix.rs.
struct Digits {
    unsigned begin;
    unsigned passes;
    unsigned width;
    unsigned wider;

    __device__ __forceinline__ unsigned shift_of(unsigned pass) const {
        return begin + pass * width + (pass < wider ? pass : wider);
    }
    __device__ __forceinline__ unsigned width_of(unsigned pass) const {
        return width + (pass < wider ? 1 : 0);
    }
};

template <class Key>
__device__ __forceinline__ unsigned digit_of(Key key, unsigned shift, unsigned mask) {
    return static_cast<unsigned>(key >> shift) & mask;
}

// The state of a sort: words that are all 0 before it begins. The same in Rust: sort/radix.rs. For each pass one word
// that counts the tiles that were begun and one with its plan; the index of the buffer with a planned sort's result;
// the digit counts; then words of groups and tiles.
constexpr unsigned TICKETS_AT = 0;
constexpr unsigned PLAN_AT = 8;
constexpr unsigned RESULT_AT = 16;
constexpr unsigned COUNTS_AT = 32;
constexpr unsigned GROUPS_AT = COUNTS_AT + MAX_PASSES * RADIX;

// The number of keys with each digit in each pass, counted by a block in shared memory.
//
//     __shared__ DigitCounts<3> counts;
//     counts.clear();                                      // all threads
//     for (...) counts.add(digits, key);                   // any thread, any number of times
//     counts.flush(digits, state);                         // all threads
//
// PASSES is at least `digits.passes`. Kernels that write keys use it to count them, so that the sort need not read
// the keys again for that.
template <int PASSES>
struct DigitCounts {
    unsigned counts[PASSES * RADIX];

    __device__ __forceinline__ void clear() {
        for (unsigned i = threadIdx.x; i < PASSES * RADIX; i += blockDim.x) counts[i] = 0;
        __syncthreads();
    }

    template <class Key>
    __device__ __forceinline__ void add(const Digits& digits, Key key) {
#pragma unroll
        for (unsigned pass = 0; pass < PASSES; pass++) {
            if (pass >= digits.passes) break;
            const unsigned mask = (1u << digits.width_of(pass)) - 1;
            atomicAdd(&counts[pass * RADIX + digit_of(key, digits.shift_of(pass), mask)], 1u);
        }
    }

    __device__ __forceinline__ void flush(const Digits& digits, unsigned* state) {
        __syncthreads();
        for (unsigned i = threadIdx.x; i < digits.passes * RADIX; i += blockDim.x) {
            if (counts[i] != 0) atomicAdd(&state[COUNTS_AT + i], counts[i]);
        }
    }
};

// Maps of keys to unsigned ones of the same order. Signed: the sign bit is flipped. Floating: negative ones have all
// bits flipped, the others the sign bit; so -NaN < -inf < -0 < 0 < inf < NaN, the total order of IEEE 754.
enum : unsigned { MAP_NONE = 0, MAP_SIGNED = 1, MAP_FLOAT = 2 };

// The bits of a key to flip, selected by its highest bit without a branch.
template <class Key>
struct KeyMap {
    Key if_set;
    Key if_clear;

    __device__ __forceinline__ static KeyMap to_unsigned(unsigned map) {
        KeyMap flips;
        flips.if_set = map == MAP_FLOAT ? ~static_cast<Key>(0) : map == MAP_NONE ? 0 : SIGN;
        flips.if_clear = map == MAP_NONE ? 0 : SIGN;
        return flips;
    }
    __device__ __forceinline__ static KeyMap from_unsigned(unsigned map) {
        KeyMap flips;
        flips.if_set = map == MAP_NONE ? 0 : SIGN;
        flips.if_clear = map == MAP_FLOAT ? ~static_cast<Key>(0) : map == MAP_NONE ? 0 : SIGN;
        return flips;
    }
    __device__ __forceinline__ Key operator()(Key key) const {
        return key ^ (key & SIGN ? if_set : if_clear);
    }

  private:
    static constexpr Key SIGN = static_cast<Key>(1) << (8 * sizeof(Key) - 1);
};

} // namespace sort
} // namespace geom
