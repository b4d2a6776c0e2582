// Lists of the leaves of a volume, and of the active voxels in them.
#pragma once

#include <geom/volume/iterate.cuh>

namespace geom {
namespace volume {

// The leaves of a grid of any value type, each of `bytes` bytes.
struct Leaves {
    unsigned char* grid;
    unsigned bytes, unused;

    __device__ __forceinline__ unsigned count() const { return load<unsigned>(grid + tree_counts); }
    __device__ __forceinline__ unsigned char* at(unsigned i) const {
        unsigned char* tree = grid + tree_at;
        return tree + load<unsigned long long>(tree) + i * static_cast<unsigned long long>(bytes);
    }
};

// Writes the origin of each leaf, and its number of active voxels. A thread for each of `n`, which is at least the
// number of leaves.
__device__ __forceinline__ void list_leaves(const Leaves& leaves, unsigned n, int* origins) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || i >= leaves.count()) return;
    const vec3<int> origin = leaf_origin(leaves.at(i));
    origins[3ull * i] = origin.x;
    origins[3ull * i + 1] = origin.y;
    origins[3ull * i + 2] = origin.z;
}

__device__ __forceinline__ void count_voxels(const Leaves& leaves, unsigned n, unsigned* counts) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned count = 0;
    if (i < leaves.count()) {
        const unsigned char* mask = leaves.at(i) + 16;
        for (unsigned w = 0; w < 8; ++w) count += __popcll(load<unsigned long long>(mask + 8 * w));
    }
    counts[i] = count;
}

// Lists the active voxels of all leaves, those of leaf i in [offsets[i], offsets[i + 1]), even if the leaf has other
// voxels now than when they were counted. A warp for each leaf.
__device__ __forceinline__ void list_voxels(const Leaves& leaves, unsigned n, const unsigned long long* offsets,
                                            unsigned long long room, int* voxels) {
    // The index of a thread may need more than 32 bits.
    const unsigned i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (i >= n || i >= leaves.count()) return;
    const unsigned char* leaf = leaves.at(i);
    unsigned long long to = offsets[i];
    const unsigned long long last = offsets[i + 1], end = last < room ? last : room;
    for (unsigned w = 0; w < 16; ++w) {
        const unsigned word = load<unsigned>(leaf + 16 + 4 * w);
        const unsigned long long at = to + __popc(word & ((1u << lane) - 1));
        if ((word >> lane & 1) != 0 && at < end) {
            const vec3<int> voxel = leaf_voxel(leaf, 32 * w + lane);
            voxels[3 * at] = voxel.x;
            voxels[3 * at + 1] = voxel.y;
            voxels[3 * at + 2] = voxel.z;
        }
        to += __popc(word);
    }
}

} // namespace volume
} // namespace geom
