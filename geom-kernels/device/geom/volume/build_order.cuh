// From sorted keys to nodes: a node begins where the key of its level changes.
#pragma once

#include <geom/sort/chain.cuh>
#include <geom/volume/build_keys.cuh>

namespace geom {
namespace volume {

// Finds the nodes of all levels in one pass over the entries, in tiles of 256 * 8 of them. Nodes without room are
// also counted, so that the next step knows about them before it writes anything.
struct NodeTile {
    static constexpr unsigned threads = 256, warps = threads / 32, items = 8, entries = threads * items;
    // The words of each level's chain (chain.cuh) of `tiles` tiles. The same in Rust.
    static __device__ __forceinline__ unsigned chain_words(unsigned tiles) { return sort::CHAIN_AT + tiles; }

    struct Shared {
        unsigned tile;
        unsigned counts[3][warps];
        unsigned before[3];
    };

    // By a grid of as many blocks as there are tiles of b.n, which is not 0.
    static __device__ __forceinline__ void run(Shared& shared, const Build& b) {
        unsigned long long* chains = b.chains;
        const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = gridDim.x;
        const unsigned tile = sort::next_tile(chains, shared.tile);
        const unsigned start = tile * entries + warp * 32 * items + lane;
        const unsigned long long* keys = b.sorted_keys();
        // A bit for each lane whose entry is the first of its leaf, lower node or upper node.
        unsigned first[3][items], own[3] = {0, 0, 0};
#pragma unroll
        for (unsigned i = 0; i < items; ++i) {
            const unsigned at = start + 32 * i;
            const unsigned long long key = at < b.n ? keys[at] : no_key;
            const unsigned long long previous = at < b.n && at > 0 ? keys[at - 1] : no_key;
            const bool valid = key != no_key;
            const unsigned long long changed = key ^ previous;
            bool leaf = valid && changed != 0;
            if (leaf && b.asks != nullptr) leaf = b.asks[b.sorted_places()[at]] == entry_leaf;
            first[0][i] = __ballot_sync(0xffffffffu, leaf);
            first[1][i] = __ballot_sync(0xffffffffu, valid && changed >> lower_shift != 0);
            first[2][i] = __ballot_sync(0xffffffffu, valid && changed >> upper_shift != 0);
#pragma unroll
            for (unsigned level = 0; level < 3; ++level) own[level] += __popc(first[level][i]);
            if (valid && (at + 1 == b.n || keys[at + 1] == no_key)) b.state->entries = at + 1;
        }
        if (lane == 0) {
#pragma unroll
            for (unsigned level = 0; level < 3; ++level) shared.counts[level][warp] = own[level];
        }
        __syncthreads();
        if (warp < 3) {
            unsigned all = 0;
            for (unsigned w = 0; w < warps; ++w) all += shared.counts[warp][w];
            const unsigned before = sort::chain_sum(chains + warp * chain_words(tiles), tile, tiles, all);
            if (lane == 0) {
                shared.before[warp] = before;
                if (tile == tiles - 1) {
                    const unsigned room = warp == 0 ? b.leaf_room : warp == 1 ? b.lower_room : b.upper_room;
                    (&b.state->leaves)[warp] = before + all;
                    if (before + all > room) atomicOr(&b.state->status, 1u << warp);
                    else atomicAnd(&b.state->status, ~(1u << warp));
                }
            }
        }
        if (tile == tiles - 1 && threadIdx.x == 96 && b.state->invalid != 0)
            atomicOr(&b.state->status, build_invalid_input);
        __syncthreads();
        unsigned rank[3];
#pragma unroll
        for (unsigned level = 0; level < 3; ++level) {
            rank[level] = shared.before[level];
            for (unsigned w = 0; w < warp; ++w) rank[level] += shared.counts[level][w];
        }
#pragma unroll
        for (unsigned i = 0; i < items; ++i) {
            const unsigned at = start + 32 * i;
            unsigned here[3];
#pragma unroll
            for (unsigned level = 0; level < 3; ++level) {
                here[level] = rank[level] + __popc(first[level][i] & ((1u << lane) - 1));
                rank[level] += __popc(first[level][i]);
            }
            const unsigned long long key = at < b.n ? keys[at] : no_key;
            if ((first[0][i] >> lane & 1) != 0 && here[0] < b.leaf_room) {
                b.leaf_keys[here[0]] = key;
                b.leaf_first[here[0]] = at;
            }
            if ((first[1][i] >> lane & 1) != 0 && here[1] < b.lower_room) {
                b.lower_keys[here[1]] = key >> lower_shift;
                b.lower_first[here[1]] = here[0];
                b.lower_entry[here[1]] = at;
            }
            if ((first[2][i] >> lane & 1) != 0 && here[2] < b.upper_room) {
                b.upper_keys[here[2]] = key >> upper_shift;
                b.upper_first[here[2]] = here[1];
            }
        }
    }
};

} // namespace volume
} // namespace geom
