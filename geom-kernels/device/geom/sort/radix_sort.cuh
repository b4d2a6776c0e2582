// One pass of a stable radix sort, from the lowest digit to the highest, that reads and writes each
// pair once.
//
// A. Adinets, D. Merrill: Onesweep: A Faster Least Significant Digit Radix Sort for GPUs. 2022
// (arXiv:2206.01784): the digits of all passes are counted beforehand; in a pass each block ranks a tile
// in shared memory, publishes how many of each digit it has, and finds by look-back how many the tiles before it have.
//
// The look-back has two levels here. In the paper, all tiles that run at the same time look back over one another,
// one tile after the other; with as many tiles as the device holds at once that takes longer than moving the pairs.
// So tiles also add their counts to those of their group of 16: a tile reads the earlier tiles in its group, all at
// once, and then whole groups.
#pragma once

#include <geom/sort/block.cuh>
#include <geom/sort/digits.cuh>
#include <geom/sort/words.cuh>

// The instruction by which lanes with the same digit find each other: a ballot for each bit of the digit (0), or
// match.any (1).
#ifndef GEOM_SORT_MATCH
#define GEOM_SORT_MATCH 0
#endif

namespace geom {
namespace sort {

// The parameters of a pass. The same in Rust: algorithms/radix.rs.
struct Pass {
    unsigned n;        // number of pairs, below 2^31
    unsigned index;    // of the pass, from 0
    unsigned shift;    // the digit's lowest bit
    unsigned width;    // bits of the digit, 0 to 8
    unsigned flags;    // PASS_..., and the maps of keys that are read and written
    unsigned stride;   // digits for which a tile or group has words: at least 1 << width
    unsigned groups;   // where the words of this pass's groups are in the state; even
    unsigned tiles;    // where the words of the tiles are in the state
};

// The state says which buffers to read from, or that there is nothing to do.
constexpr unsigned PASS_PLANNED = 1;
// The values are the indices 0, 1, ... of the keys, and aren't read (in a planned sort: by the first pass that is not
// skipped).
constexpr unsigned PASS_PLACES = 2;
constexpr unsigned PASS_MAP_IN = 4;   // shift of the map of keys that are read
constexpr unsigned PASS_MAP_OUT = 6;  // and of those that are written

// The entry of a plan for a pass.
constexpr unsigned PLAN_SWAPPED = 1;
constexpr unsigned PLAN_SKIPPED = 2;
constexpr unsigned PLAN_FIRST = 4;

// Tiles in a group.
constexpr unsigned GROUP = 16;

// A tile's word for a digit: the pass, from 1, above TAG_SHIFT, and the count. Words include the pass, so they need
// not be cleared between passes.
constexpr unsigned TAG_SHIFT = 16;
// A group has two words for a digit. The first: the sum of the counts, and above MEMBERS_SHIFT how many tiles have
// added theirs. The second: ENDS, and how often the digit occurs up to the group's end.
constexpr unsigned MEMBERS_SHIFT = 20;
constexpr unsigned ENDS = 0x80000000u;

// The lanes of the warp with this lane's digit. Bits beyond the digit are 0 in all lanes: testing them as well costs
// less than a branch for each.
__device__ __forceinline__ unsigned lanes_with(unsigned digit) {
#if GEOM_SORT_MATCH == 1
    return __match_any_sync(ALL_LANES, digit);
#else
    unsigned lanes = ALL_LANES;
#pragma unroll
    for (unsigned bit = 0; bit < 8; bit++) {
        const bool one = (digit >> bit) & 1;
        const unsigned ones = __ballot_sync(ALL_LANES, one);
        lanes &= one ? ones : ~ones;
    }
    return lanes;
#endif
}

// How often `digit` occurs in the tiles before `tile`.
__device__ __forceinline__ unsigned look_back(const Pass& pass, const unsigned* state, unsigned tile,
                                              unsigned digit) {
    const unsigned tag = pass.index + 1;
    const unsigned* words = state + pass.tiles + digit;
    unsigned sum = 0;
    for (unsigned t = tile - tile % GROUP; t < tile; t += 8) {
        unsigned counts, missing;
        do {
            counts = missing = 0;
#pragma unroll
            for (unsigned i = 0; i < 8; i++) {
                if (t + i >= tile) continue;
                const unsigned word = load_word(words + (t + i) * pass.stride);
                missing |= word >> TAG_SHIFT ^ tag;
                counts += word & ((1u << TAG_SHIFT) - 1);
            }
        } while (missing != 0);
        sum += counts;
    }
    for (unsigned group = tile / GROUP; group > 0;) {
        unsigned members[4], ends[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            members[i] = ends[i] = 0;
            if (i >= group) continue;
            const unsigned at = pass.groups + 2 * ((group - 1 - i) * pass.stride + digit);
            load_words(state + at, members[i], ends[i]);
        }
        unsigned taken = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (ends[i] & ENDS) return sum + (ends[i] & ~ENDS);
            if (members[i] >> MEMBERS_SHIFT != GROUP) break; // Reads again from there on.
            sum += members[i] & ((1u << MEMBERS_SHIFT) - 1);
            taken++;
        }
        group -= taken;
    }
    return sum;
}

// A tile of THREADS * ITEMS pairs, sorted by a block of THREADS. Values are moved with the keys if PAIRS.
template <class Key, int THREADS, int ITEMS, bool PAIRS>
struct RadixTile {
    static constexpr unsigned TILE = THREADS * ITEMS;
    static constexpr unsigned WARPS = THREADS / 32;
    static_assert(THREADS >= static_cast<int>(RADIX) && THREADS % 32 == 0, "a thread for each digit");
    // The number of items whose ranks are found at once.
    static constexpr int AT_ONCE = ITEMS % 4 == 0 ? 4 : 2;
    static_assert(ITEMS % 2 == 0, "ranks are packed in pairs");
    static_assert(TILE < 1u << TAG_SHIFT, "counts fit below the tag");

    struct Shared {
        Key keys[TILE];
        unsigned values[PAIRS ? TILE : 1];
        // For each warp and digit: first its count, then its start in the tile.
        unsigned short counters[WARPS][RADIX];
        // For each digit, the difference between an index in the output and the index in the tile.
        unsigned offsets[RADIX];
        unsigned long long sums[WARPS];
        unsigned tile;
    };

    // Runs one pass, by a grid of as many blocks as there are tiles. Pairs go from the first buffers to the second
    // ones, or as the plan says.
    __device__ __forceinline__ static void run(Shared& shared, Key* keys_from, Key* keys_to,
                                               unsigned* values_from, unsigned* values_to,
                                               const Pass& pass, unsigned* state) {
        bool places = pass.flags & PASS_PLACES;
        if (pass.flags & PASS_PLANNED) {
            const unsigned plan = state[PLAN_AT + pass.index];
            if (plan & PLAN_SKIPPED) return;
            if (plan & PLAN_SWAPPED) {
                exchange(keys_from, keys_to);
                exchange(values_from, values_to);
            }
            places = places && (plan & PLAN_FIRST);
        }
        const unsigned thread = threadIdx.x, warp = thread / 32;
        const unsigned mask = (1u << pass.width) - 1;
        const bool has_digit = thread <= mask;

        // Tiles are assigned in the order in which blocks begin, so all tiles before this one are done or running,
        // and look-back terminates.
        if (thread == 0) shared.tile = atomicAdd(&state[TICKETS_AT + pass.index], 1u);
        for (unsigned i = lane_index(); i < RADIX; i += 32) shared.counters[warp][i] = 0;
        const unsigned occurrences =
            has_digit ? state[COUNTS_AT + pass.index * RADIX + thread] : 0;
        __syncthreads();
        const unsigned tile = shared.tile;
        const unsigned start = tile * TILE;
        const unsigned valid = pass.n - start < TILE ? pass.n - start : TILE;

        // A warp has consecutive pairs: item i of lane l is its pair 32 i + l.
        const unsigned first = warp * 32 * ITEMS + lane_index();
        Key keys[ITEMS];
        load(keys, keys_from + start, first, valid);
        const unsigned map_in = pass.flags >> PASS_MAP_IN & 3;
        if (map_in != MAP_NONE) {
            const KeyMap<Key> map = KeyMap<Key>::to_unsigned(map_in);
#pragma unroll
            for (int i = 0; i < ITEMS; i++) keys[i] = map(keys[i]);
        }
        if (valid < TILE) {
            // Keys beyond the end get the highest digit, after all others that have it.
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                if (first + 32 * i >= valid) keys[i] = ~static_cast<Key>(0);
            }
        }

        // The ranks within the warp, two in a word. For some items at a time: first the rank among the lanes and, in
        // the upper half of the last lane with a digit, the number of lanes with it; then the warp's earlier count is
        // added.
        unsigned ranks[ITEMS / 2];
#pragma unroll
        for (int block = 0; block < ITEMS; block += AT_ONCE) {
            unsigned found[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const unsigned lanes = lanes_with(digit_of(keys[block + i], pass.shift, mask));
                const unsigned before = __popc(lanes & lanes_below());
                found[i] = lanes >> lane_index() == 1 ? before | (before + 1) << 16 : before;
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const unsigned digit = digit_of(keys[block + i], pass.shift, mask);
                unsigned short& counter = shared.counters[warp][digit];
                const unsigned counted = counter;
                __syncwarp();
                if (found[i] >> 16) counter = static_cast<unsigned short>(counted + (found[i] >> 16));
                __syncwarp();
                found[i] = counted + (found[i] & 0xffff);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i += 2) {
                ranks[(block + i) / 2] = found[i] | found[i + 1] << 16;
            }
        }
        // The values are loaded while the block counts.
        unsigned values[ITEMS];
        if (PAIRS) {
            if (places) {
#pragma unroll
                for (int i = 0; i < ITEMS; i++) values[i] = start + first + 32 * i;
            } else {
                load(values, values_from + start, first, valid);
            }
        }
        __syncthreads();

        // One thread per digit publishes the tile's count as soon as it is known.
        unsigned before[WARPS];
        unsigned count = 0;
        if (has_digit) {
#pragma unroll
            for (unsigned w = 0; w < WARPS; w++) {
                before[w] = count;
                count += shared.counters[w][thread];
            }
            store_word(state + pass.tiles + tile * pass.stride + thread,
                       (pass.index + 1) << TAG_SHIFT | count);
            add_to_word(state + pass.groups + 2 * (tile / GROUP * pass.stride + thread),
                        1u << MEMBERS_SHIFT | count);
        }
        // The sums give the start of each digit in the output and in the tile, both at once.
        unsigned long long all;
        const unsigned long long begins = block_exclusive_sum(
            static_cast<unsigned long long>(count) << 32 | occurrences, shared.sums, all);
        const unsigned begins_in_tile = static_cast<unsigned>(begins >> 32);
        if (has_digit) {
#pragma unroll
            for (unsigned w = 0; w < WARPS; w++) {
                shared.counters[w][thread] = static_cast<unsigned short>(begins_in_tile + before[w]);
            }
        }
        __syncthreads();

#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const unsigned digit = digit_of(keys[i], pass.shift, mask);
            const unsigned at = shared.counters[warp][digit] + (ranks[i / 2] >> i % 2 * 16 & 0xffff);
            shared.keys[at] = keys[i];
            if (PAIRS) shared.values[at] = values[i];
        }
        if (has_digit) {
            const unsigned prefix = look_back(pass, state, tile, thread);
            if (tile % GROUP == GROUP - 1) {
                const unsigned group = tile / GROUP * pass.stride + thread;
                store_word(state + pass.groups + 2 * group + 1, ENDS | (prefix + count));
            }
            shared.offsets[thread] = static_cast<unsigned>(begins) + prefix - begins_in_tile;
        }
        __syncthreads();

        // The pairs are written in the tile's new order, so that neighbouring threads write to neighbouring
        // addresses.
        const KeyMap<Key> map = KeyMap<Key>::from_unsigned(pass.flags >> PASS_MAP_OUT & 3);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const unsigned at = thread + i * THREADS;
            const Key key = shared.keys[at];
            const unsigned to = at + shared.offsets[digit_of(key, pass.shift, mask)];
            // The second comparison only fails if the digits were counted from other keys.
            if (at < valid && to < pass.n) {
                keys_to[to] = map(key);
                if (PAIRS) values_to[to] = shared.values[at];
            }
        }
    }

  private:
    template <class T>
    __device__ __forceinline__ static void load(T (&items)[ITEMS], const T* from, unsigned first,
                                                unsigned valid) {
        if (valid == TILE) {
#pragma unroll
            for (int i = 0; i < ITEMS; i++) items[i] = from[first + 32 * i];
        } else {
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                items[i] = 0;
                if (first + 32 * i < valid) items[i] = from[first + 32 * i];
            }
        }
    }

    template <class T>
    __device__ __forceinline__ static void exchange(T*& a, T*& b) {
        T* const c = a;
        a = b;
        b = c;
    }
};

// Counts the digits of all passes of n keys, n below 2^31, by a grid of less than 2^27 threads.
template <int PASSES, class Key>
__device__ __forceinline__ void count_digits(DigitCounts<PASSES>& counts, const Key* keys, unsigned n,
                                             const Digits& digits, unsigned map, unsigned* state) {
    constexpr unsigned ITEMS = 8;
    const KeyMap<Key> flips = KeyMap<Key>::to_unsigned(map);
    counts.clear();
    // The indices beyond the last key stay below 2^32.
    const unsigned step = gridDim.x * blockDim.x * ITEMS;
    for (unsigned start = blockIdx.x * blockDim.x * ITEMS; start < n; start += step) {
        Key key[ITEMS];
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned at = start + i * blockDim.x + threadIdx.x;
            if (at < n) key[i] = keys[at];
        }
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned at = start + i * blockDim.x + threadIdx.x;
            if (at < n) counts.add(digits, flips(key[i]));
        }
    }
    counts.flush(digits, state);
}

// Finds the passes in which all keys have the same digit, which change nothing and are skipped. If no other pass is
// left, the first one runs nevertheless, to write values that are indices. By one block of RADIX threads.
__device__ __forceinline__ void plan_passes(unsigned n, unsigned passes, unsigned* state) {
    unsigned swapped = 0, done = 0;
    unsigned plan[MAX_PASSES];
#pragma unroll
    for (unsigned pass = 0; pass < MAX_PASSES; pass++) {
        plan[pass] = PLAN_SKIPPED;
        if (pass >= passes) continue;
        const bool alone = state[COUNTS_AT + pass * RADIX + threadIdx.x] == n;
        if (__syncthreads_or(alone)) continue;
        plan[pass] = swapped | (done == 0 ? PLAN_FIRST : 0);
        swapped ^= PLAN_SWAPPED;
        done++;
    }
    if (done == 0) {
        plan[0] = PLAN_FIRST;
        swapped = PLAN_SWAPPED;
    }
    if (threadIdx.x != 0) return;
#pragma unroll
    for (unsigned pass = 0; pass < MAX_PASSES; pass++) state[PLAN_AT + pass] = plan[pass];
    state[RESULT_AT] = swapped;
}

} // namespace sort
} // namespace geom
