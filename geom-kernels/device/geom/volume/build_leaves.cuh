// Writes the leaves of a volume, each by a block of threads, with values from one of several sources.
#pragma once

#include <geom/volume/build_keys.cuh>
#include <geom/volume/build_values.cuh>

namespace geom {
namespace volume {

constexpr unsigned leaf_threads = 128;

// The working state of a leaf.
struct LeafWork {
    unsigned rank;
    unsigned long long key;
    vec3<int> origin;

    __device__ __forceinline__ vec3<int> voxel(unsigned place) const {
        return {origin.x + static_cast<int>(place >> 6), origin.y + static_cast<int>(place >> 3 & 7),
                origin.z + static_cast<int>(place & 7)};
    }
};

// All voxels are active and have the background.
struct TileSource {
    struct Shared {};

    __device__ __forceinline__ void begin(Shared&, const Build&, const LeafWork&) const {}
    __device__ __forceinline__ bool at(const Shared&, const Build& b, const LeafWork&, unsigned,
                                       const unsigned char** value) const {
        *value = b.constants;
        return true;
    }
};

// The voxels of a list are active. They have the list's values, or without values the background; if several entries
// name one voxel, the first counts.
template <class Points>
struct VoxelSource {
    Points points;
    const unsigned char* values;

    static constexpr unsigned none = ~0u;
    struct Shared {
        // The first entry of each voxel: sorted entries of one leaf are in the order of the list.
        unsigned entry[512];
    };

    __device__ __forceinline__ void begin(Shared& shared, const Build& b, const LeafWork& leaf) const {
        for (unsigned i = threadIdx.x; i < 512; i += leaf_threads) shared.entry[i] = none;
        __syncthreads();
        const unsigned end = leaf.rank + 1 < b.state->leaves ? b.leaf_first[leaf.rank + 1]
                                                             : b.state->entries;
        const unsigned* places = b.sorted_places();
        for (unsigned at = b.leaf_first[leaf.rank] + threadIdx.x; at < end; at += leaf_threads) {
            vec3<int> voxel;
            points.voxel(places[at], &voxel);
            atomicMin(&shared.entry[leaf_place(voxel.x, voxel.y, voxel.z)], at);
        }
        __syncthreads();
    }
    __device__ __forceinline__ bool at(const Shared& shared, const Build& b, const LeafWork&, unsigned place,
                                       const unsigned char** value) const {
        const unsigned entry = shared.entry[place];
        *value = b.constants;
        if (entry != none && values != nullptr)
            *value = values + b.sorted_places()[entry] * static_cast<unsigned long long>(b.layout.value_bytes);
        return entry != none;
    }
};

// Writes the first words of a leaf: its box, flags and mask, and zeros up to its values. By one warp.
__device__ __forceinline__ void write_leaf_head(const Build& b, const LeafWork& work, unsigned char* leaf,
                                                const unsigned (&mask)[16]) {
    const unsigned lane = threadIdx.x % 32;
    unsigned long long rows[8], any = 0;
    unsigned active = 0;
    // The mask has 64 bits for each x, with a byte for each y and a bit for each z.
    unsigned xs = 0, ys = 0, zs = 0;
    unsigned long long sums = 0;
#pragma unroll
    for (unsigned x = 0; x < 8; ++x) {
        rows[x] = mask[2 * x] | static_cast<unsigned long long>(mask[2 * x + 1]) << 32;
        any |= rows[x];
        if (rows[x] != 0) xs |= 1u << x;
        // Index grids need the number of active voxels in the words before each except the first.
        if (x != 0) sums |= static_cast<unsigned long long>(active) << (9 * (x - 1));
        active += __popcll(rows[x]);
    }
#pragma unroll
    for (unsigned y = 0; y < 8; ++y) {
        const unsigned row = static_cast<unsigned>(any >> (8 * y)) & 255;
        if (row != 0) ys |= 1u << y;
        zs |= row;
    }
    // Without active voxels the box is the first voxel, and a flag marks it as empty.
    unsigned words[4] = {static_cast<unsigned>(work.origin.x), static_cast<unsigned>(work.origin.y),
                         static_cast<unsigned>(work.origin.z), 0};
    if (active != 0) {
        const unsigned x = __ffs(xs) - 1, y = __ffs(ys) - 1, z = __ffs(zs) - 1;
        words[0] += x;
        words[1] += y;
        words[2] += z;
        words[3] = (31 - __clz(xs) - x) | (31 - __clz(ys) - y) << 8 | (31 - __clz(zs) - z) << 16 | 2u << 24;
    }
    const unsigned keeps = b.layout.leaf_keeps;
    const bool numbers = keeps == leaf_numbers_all || keeps == leaf_numbers_active;
    const unsigned end = keeps == leaf_keeps_values || keeps == leaf_keeps_bits ? b.layout.leaf_values
                                                                                : b.layout.leaf_bytes;
    unsigned* to = reinterpret_cast<unsigned*>(leaf);
    for (unsigned w = lane; w < end / 4; w += 32) {
        unsigned word = 0;
        if (w < 4) word = w == 0 ? words[0] : w == 1 ? words[1] : w == 2 ? words[2] : words[3];
        else if (w < 20) word = mask[w - 4];
        else if (numbers && w < 24) {
            // Indices of active voxels depend on the leaves before; `number_leaves` writes them.
            const unsigned long long first = keeps == leaf_numbers_all ? 1 + 512ull * work.rank : 0;
            const unsigned long long of = w < 22 ? first : keeps == leaf_numbers_active ? sums : 0;
            word = static_cast<unsigned>(w % 2 == 0 ? of : of >> 32);
        }
        to[w] = word;
    }
    // One-bit values are followed by padding.
    if (keeps == leaf_keeps_bits)
        for (unsigned w = b.layout.leaf_values / 4 + 16 + lane; w < b.layout.leaf_bytes / 4; w += 32) to[w] = 0;
    if (lane == 0) b.leaf_active[work.rank] = active;
}

// Writes all leaves, each by a block of `leaf_threads`.
template <class Source>
__device__ __forceinline__ void write_leaves(const Build& b, const Source& source) {
    __shared__ typename Source::Shared shared;
    __shared__ unsigned mask[16];
    if (!b.fits()) return;
    const unsigned leaves = b.state->leaves, bytes = b.layout.value_bytes;
    for (unsigned rank = blockIdx.x; rank < leaves; rank += gridDim.x) {
        LeafWork work;
        work.rank = rank;
        work.key = b.leaf_keys[rank];
        work.origin = leaf_origin_of(work.key);
        unsigned char* leaf = b.leaf(rank);
        unsigned char* values = leaf + b.layout.leaf_values;
        source.begin(shared, b, work);
#pragma unroll
        for (unsigned i = 0; i < 512 / leaf_threads; ++i) {
            const unsigned place = threadIdx.x + i * leaf_threads;
            const unsigned char* value;
            const bool active = source.at(shared, b, work, place, &value);
            const unsigned word = __ballot_sync(0xffffffffu, active);
            if (threadIdx.x % 32 == 0) mask[place / 32] = word;
            if (b.layout.leaf_keeps == leaf_keeps_values) {
                copy_value(values + place * bytes, value, bytes, b.layout.value_align);
            } else if (b.layout.leaf_keeps == leaf_keeps_bits) {
                const unsigned bits = __ballot_sync(0xffffffffu, *value != 0);
                if (threadIdx.x % 32 == 0) reinterpret_cast<unsigned*>(values)[place / 32] = bits;
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) write_leaf_head(b, work, leaf, mask);
        __syncthreads();
    }
}

// Writes the first index of each leaf in a grid that indexes active voxels, from the sums over earlier leaves.
__device__ __forceinline__ void number_leaves(const Build& b) {
    if (!b.fits()) return;
    const unsigned leaves = b.state->leaves;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < leaves; i += gridDim.x * blockDim.x)
        *reinterpret_cast<unsigned long long*>(b.leaf(i) + b.layout.leaf_values) = 1 + b.before[i];
}

} // namespace volume
} // namespace geom
