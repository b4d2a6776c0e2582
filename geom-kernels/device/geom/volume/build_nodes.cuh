// Writes the lower and upper nodes, the root and the head of a grid. Each is written completely: an entry is the
// distance of its child or, without one, a value.
#pragma once

#include <geom/sort/block.cuh>
#include <geom/volume/build_keys.cuh>
#include <geom/volume/build_values.cuh>

namespace geom {
namespace volume {

constexpr unsigned node_threads = 256;

// A bounding box of voxels, combined over the threads of a block.
struct VoxelBox {
    int lower[3], upper[3];

    __device__ __forceinline__ void clear() {
        for (int axis = 0; axis < 3; ++axis) {
            lower[axis] = 0x7fffffff;
            upper[axis] = -0x7fffffff - 1;
        }
    }
    __device__ __forceinline__ void add(int axis, int from, int to) {
        if (from < lower[axis]) lower[axis] = from;
        if (to > upper[axis]) upper[axis] = to;
    }
    // An empty box changes nothing.
    __device__ __forceinline__ void add(const unsigned char* node) {
        const int* box = reinterpret_cast<const int*>(node);
        if (box[3] < box[0]) return;
        for (int axis = 0; axis < 3; ++axis) add(axis, box[axis], box[3 + axis]);
    }
    __device__ __forceinline__ void add_leaf(const unsigned char* leaf) {
        const int* box = reinterpret_cast<const int*>(leaf);
        const unsigned extent = static_cast<unsigned>(box[3]);
        if ((extent >> 24 & 2) == 0) return;
        for (int axis = 0; axis < 3; ++axis)
            add(axis, box[axis], box[axis] + static_cast<int>(extent >> (8 * axis) & 255));
    }
};

// The box over all threads of the block, in shared memory, which `clear_block` has cleared.
__device__ __forceinline__ void clear_block(VoxelBox& all) {
    if (threadIdx.x == 0) all.clear();
    __syncthreads();
}
__device__ __forceinline__ void unite(VoxelBox& all, const VoxelBox& mine) {
    for (int axis = 0; axis < 3; ++axis) {
        int lower = mine.lower[axis], upper = mine.upper[axis];
        for (int offset = 16; offset > 0; offset /= 2) {
            const int low = __shfl_xor_sync(0xffffffffu, lower, offset);
            const int high = __shfl_xor_sync(0xffffffffu, upper, offset);
            lower = low < lower ? low : lower;
            upper = high > upper ? high : upper;
        }
        if (threadIdx.x % 32 == 0) {
            atomicMin(&all.lower[axis], lower);
            atomicMax(&all.upper[axis], upper);
        }
    }
    __syncthreads();
}

// Writes the box and flags of a node; without active voxels an empty box at the node's origin.
__device__ __forceinline__ void write_box(unsigned char* node, const VoxelBox& box, const vec3<int>& origin) {
    int* to = reinterpret_cast<int*>(node);
    const bool empty = box.upper[0] < box.lower[0];
    const int first[3] = {origin.x, origin.y, origin.z};
    for (int axis = 0; axis < 3; ++axis) {
        to[axis] = empty ? first[axis] : box.lower[axis];
        to[3 + axis] = empty ? first[axis] - 1 : box.upper[axis];
    }
    *reinterpret_cast<unsigned long long*>(node + 24) = empty ? 0 : 2;
}

// A bit for each of 4096 places, and the number of set bits before each word.
struct Places {
    unsigned bits[128], before[128];

    __device__ __forceinline__ void clear() {
        for (unsigned i = threadIdx.x; i < 128; i += node_threads) bits[i] = 0;
    }
    __device__ __forceinline__ void set(unsigned place) { atomicOr(&bits[place / 32], 1u << place % 32); }
    // Counts the bits. By all threads, between barriers.
    __device__ __forceinline__ void count() {
        if (threadIdx.x >= 32) return;
        unsigned own[4], sum = 0;
        for (unsigned i = 0; i < 4; ++i) {
            own[i] = sum;
            sum += __popc(bits[4 * threadIdx.x + i]);
        }
        const unsigned all = sort::warp_inclusive_sum(sum) - sum;
        for (unsigned i = 0; i < 4; ++i) before[4 * threadIdx.x + i] = all + own[i];
    }
    __device__ __forceinline__ bool has(unsigned place) const {
        return (bits[place / 32] >> place % 32 & 1) != 0;
    }
    // The number of set bits before a place.
    __device__ __forceinline__ unsigned rank(unsigned place) const {
        return before[place / 32] + __popc(bits[place / 32] & ((1u << place % 32) - 1));
    }
};

// Writes 4096 entries of a table, in words of 8 bytes: the distance of each child, starting with `first` and `bytes`
// apart; else a value, the value of the inside if `inside` has the place.
__device__ __forceinline__ void write_entries(const Build& b, unsigned char* table, const Places& children,
                                              const Places* inside, long long first, unsigned bytes) {
    const unsigned words = b.layout.entry_bytes / 8, value_bytes = b.layout.value_bytes;
    unsigned long long* to = reinterpret_cast<unsigned long long*>(table);
    for (unsigned w = threadIdx.x; w < 4096 * words; w += node_threads) {
        const unsigned place = words == 1 ? w : w / words, part = 8 * (w - place * words);
        unsigned long long word = 0;
        if (children.has(place)) {
            if (part == 0) word = first + children.rank(place) * static_cast<long long>(bytes);
        } else {
            // A value is followed by zeros in `constants`.
            const unsigned at = inside != nullptr && inside->has(place) ? 32 : 0;
            word = *reinterpret_cast<const unsigned long long*>(b.constants + at + part);
            if (value_bytes - part < 8) word &= (1ull << 8 * (value_bytes - part)) - 1;
        }
        to[w] = word;
    }
}

// Lower nodes, each by a block of `node_threads`.
__device__ __forceinline__ void write_lowers(const Build& b) {
    __shared__ Places children, inside;
    __shared__ VoxelBox box;
    __shared__ unsigned long long active;
    if (!b.fits()) return;
    const unsigned lowers = b.state->lower, leaves = b.state->leaves;
    for (unsigned rank = blockIdx.x; rank < lowers; rank += gridDim.x) {
        const bool last = rank + 1 == lowers;
        const unsigned first = b.lower_first[rank], end = last ? leaves : b.lower_first[rank + 1];
        unsigned char* node = b.lower(rank);
        children.clear();
        inside.clear();
        if (threadIdx.x == 0) active = 0;
        clear_block(box);
        VoxelBox mine;
        mine.clear();
        unsigned voxels = 0;
        for (unsigned i = first + threadIdx.x; i < end; i += node_threads) {
            children.set(b.leaf_keys[i] & 0xfff);
            mine.add_leaf(b.leaf(i));
            voxels += b.leaf_active[i];
        }
        if (b.asks != nullptr) {
            const unsigned behind = last ? b.state->entries : b.lower_entry[rank + 1];
            for (unsigned i = b.lower_entry[rank] + threadIdx.x; i < behind; i += node_threads)
                if (b.asks[b.sorted_places()[i]] == entry_inside) inside.set(b.sorted_keys()[i] & 0xfff);
        }
        __syncwarp();
        unite(box, mine);
        voxels = sort::warp_sum(voxels);
        if (threadIdx.x % 32 == 0 && voxels != 0) atomicAdd(&active, static_cast<unsigned long long>(voxels));
        children.count();
        __syncthreads();
        if (threadIdx.x == 0) {
            write_box(node, box, lower_origin(b.lower_keys[rank]));
            if (active != 0) atomicAdd(&b.state->voxels, active);
        }
        // The masks, and the bytes between them and the table.
        unsigned* words = reinterpret_cast<unsigned*>(node);
        for (unsigned w = 8 + threadIdx.x; w < b.layout.lower_table / 4; w += node_threads)
            words[w] = w >= 136 && w < 264 ? children.bits[w - 136] : 0;
        const long long distance = b.leaf(first) - node;
        write_entries(b, node + b.layout.lower_table, children, &inside, distance, b.layout.leaf_bytes);
        __syncthreads();
    }
}

// The first index in [begin, end) of the ascending `list` whose element is not below `wanted`.
__device__ __forceinline__ unsigned lower_bound(const unsigned long long* list, unsigned begin, unsigned end,
                                                unsigned long long wanted) {
    while (begin < end) {
        const unsigned middle = begin + (end - begin) / 2;
        if (list[middle] < wanted) begin = middle + 1;
        else end = middle;
    }
    return begin;
}

// Upper nodes, each by eight blocks of `node_threads`, of which each writes an eighth of the table.
__device__ __forceinline__ void write_uppers(const Build& b) {
    __shared__ Places children;
    __shared__ VoxelBox box;
    if (!b.fits()) return;
    const unsigned uppers = b.state->upper, lowers = b.state->lower;
    for (unsigned part = blockIdx.x; part < 8 * uppers; part += gridDim.x) {
        const unsigned rank = part / 8, eighth = part % 8;
        const unsigned first = b.upper_first[rank];
        const unsigned end = rank + 1 == uppers ? lowers : b.upper_first[rank + 1];
        const unsigned long long key = b.upper_keys[rank], places = key << 15 | eighth << 12;
        const unsigned begin = lower_bound(b.lower_keys, first, end, places);
        const unsigned behind = lower_bound(b.lower_keys, begin, end, places + 4096);
        unsigned char* node = b.upper(rank);
        children.clear();
        clear_block(box);
        for (unsigned i = begin + threadIdx.x; i < behind; i += node_threads)
            children.set(b.lower_keys[i] & 0xfff);
        VoxelBox mine;
        mine.clear();
        if (eighth == 0)
            for (unsigned i = first + threadIdx.x; i < end; i += node_threads) mine.add(b.lower(i));
        __syncwarp();
        unite(box, mine);
        children.count();
        __syncthreads();
        if (eighth == 0 && threadIdx.x == 0) write_box(node, box, upper_origin(key));
        // Each block writes an eighth of each mask; the last one writes the bytes between them and the table.
        unsigned* words = reinterpret_cast<unsigned*>(node) + 8;
        for (unsigned w = threadIdx.x; w < 128; w += node_threads) {
            words[128 * eighth + w] = 0;
            words[1024 + 128 * eighth + w] = children.bits[w];
        }
        if (eighth == 7)
            for (unsigned w = 2048 + threadIdx.x; w < b.layout.upper_table / 4 - 8; w += node_threads)
                words[w] = 0;
        const long long distance = b.lower(begin) - node;
        unsigned char* table = node + b.layout.upper_table + eighth * 4096ull * b.layout.entry_bytes;
        write_entries(b, table, children, nullptr, distance, b.layout.lower_bytes);
        __syncthreads();
    }
}

// Applies a row of the map in the head of a grid, which is aligned to 8 bytes.
__device__ __forceinline__ double map_row(const unsigned char* grid, int row, const double (&p)[3]) {
    const double* m = reinterpret_cast<const double*>(grid + 384) + 3 * row;
    const double v = reinterpret_cast<const double*>(grid + 528)[row];
    return exact::fma(p[0], m[0], exact::fma(p[1], m[1], exact::fma(p[2], m[2], v)));
}

// Writes the box of active voxels in the world, as NanoVDB defines it: from the first voxel's point to that after the
// last one. Without active voxels it is empty.
__device__ __forceinline__ void write_world_box(unsigned char* grid, const VoxelBox& box) {
    double* to = reinterpret_cast<double*>(grid + 560);
    const double huge = 1.7976931348623157e308;
    for (int row = 0; row < 3; ++row) {
        double lower = huge, upper = exact::neg(huge);
        for (int corner = 0; corner < 8 && box.lower[0] <= box.upper[0]; ++corner) {
            double p[3];
            for (int axis = 0; axis < 3; ++axis)
                p[axis] = corner >> axis & 1 ? static_cast<double>(box.upper[axis] + 1)
                                             : static_cast<double>(box.lower[axis]);
            const double at = map_row(grid, row, p);
            lower = exact::min(lower, at);
            upper = exact::max(upper, at);
        }
        to[row] = lower;
        to[3 + row] = upper;
    }
}

// Writes the root, its tiles, and the parts of the head that depend on them. By one block of `node_threads`.
__device__ __forceinline__ void write_root(const Build& b) {
    __shared__ VoxelBox box;
    if (!b.fits()) return;
    constexpr unsigned root_at = tree_end;
    const unsigned uppers = b.state->upper;
    unsigned* grid = reinterpret_cast<unsigned*>(b.grid);
    for (unsigned w = threadIdx.x; w < b.head_bytes / 4; w += node_threads)
        grid[w] = reinterpret_cast<const unsigned*>(b.head)[w];
    clear_block(box);
    VoxelBox mine;
    mine.clear();
    unsigned char* root = b.grid + root_at;
    for (unsigned i = threadIdx.x; i < uppers; i += node_threads) {
        mine.add(b.upper(i));
        const vec3<int> origin = upper_origin(b.upper_keys[i]);
        unsigned char* tile = root + b.layout.root_bytes + i * static_cast<unsigned long long>(b.layout.tile_bytes);
        unsigned long long* words = reinterpret_cast<unsigned long long*>(tile);
        for (unsigned w = 2; w < b.layout.tile_bytes / 8; ++w) words[w] = 0;
        words[0] = root_key(origin.x, origin.y, origin.z);
        words[1] = b.upper(i) - root;
    }
    __syncwarp();
    unite(box, mine);
    if (threadIdx.x != 0) return;
    int* voxels = reinterpret_cast<int*>(root);
    for (int axis = 0; axis < 3; ++axis) {
        voxels[axis] = box.lower[axis];
        voxels[3 + axis] = box.upper[axis];
    }
    *reinterpret_cast<unsigned*>(root + 24) = uppers;
    write_world_box(b.grid, box);
    unsigned long long* offsets = reinterpret_cast<unsigned long long*>(b.grid + tree_at);
    unsigned* counts = reinterpret_cast<unsigned*>(b.grid + tree_counts);
    offsets[0] = b.leaf_at - tree_at;
    offsets[1] = b.lower_at - tree_at;
    offsets[2] = b.upper_at - tree_at;
    offsets[3] = root_at - tree_at;
    counts[0] = b.state->leaves;
    counts[1] = b.state->lower;
    counts[2] = uppers;
    const unsigned long long active = b.state->voxels;
    *reinterpret_cast<unsigned long long*>(b.grid + tree_at + 56) = active;
    // The background has index 0.
    unsigned long long values = 0;
    if (b.layout.leaf_keeps == leaf_numbers_active) values = active + 1;
    if (b.layout.leaf_keeps == leaf_numbers_all) values = 512ull * b.state->leaves + 1;
    *reinterpret_cast<unsigned long long*>(b.grid + 656) = values;
    b.state->values = values;
    // The grid has no blind data, which would follow it.
    *reinterpret_cast<unsigned long long*>(b.grid + 32) = b.grid_bytes;
    *reinterpret_cast<unsigned long long*>(b.grid + 640) = b.grid_bytes;
    // The flag means that nodes have boxes; it is set if there are active voxels.
    unsigned* flags = reinterpret_cast<unsigned*>(b.grid + 20);
    *flags = active != 0 ? *flags | 2u : *flags & ~2u;
}

} // namespace volume
} // namespace geom
