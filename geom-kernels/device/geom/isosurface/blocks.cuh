// A sparse field: blocks of 8^3 values with their neighbours, like the leaves of a sparse volume.
//
// Values outside of all blocks are unknown: cells that need them have no faces, and the surface ends there.
#pragma once

#include <geom/isosurface/field.cuh>

namespace geom {
namespace isosurface {

// Value (x, y, z) of a block is element 64 x + 8 y + z. A word has 4 rows of 8: half of a plane of equal x.
struct BlockField {
    // The values of block b begin at values[b stride].
    const float* values;
    // The position of each block's first value.
    const vec3<int>* origins;
    // For each block its adjacent blocks: the block at (dx, dy, dz), each -1, 0 or 1, is element 9 (dx + 1) + 3 (dy +
    // 1) + dz + 1. An invalid number means that there is no block.
    const unsigned* neighbors;
    unsigned blocks, stride, words, unused;

    static constexpr unsigned BLOCK_WORDS = 16;

    // Coordinates in a block, from -1 to 8; and the block that they are in, or an invalid number.
    struct Local {
        int x, y, z;
    };
    __device__ __forceinline__ unsigned block_at(unsigned block, Local p) const {
        // The shifts are arithmetic: -1, 0 or 1.
        const int neighbor = 9 * ((p.x >> 3) + 1) + 3 * ((p.y >> 3) + 1) + (p.z >> 3) + 1;
        return neighbor == 13 ? block : neighbors[27ull * block + neighbor];
    }
    __device__ __forceinline__ static Local local(Place corner) {
        const int at = corner.word % BLOCK_WORDS * 32 + corner.lane;
        return {at >> 6, at >> 3 & 7, at & 7};
    }
    __device__ __forceinline__ static unsigned offset(Local p) {
        return (p.x & 7) << 6 | (p.y & 7) << 3 | (p.z & 7);
    }

    __device__ __forceinline__ Run run(unsigned word) const {
        return {word / BLOCK_WORDS * stride + word % BLOCK_WORDS * 32, 32};
    }

    __device__ __forceinline__ float value(unsigned place) const { return values[place]; }

    // The signs of the half plane of p, in this block or an adjacent one.
    __device__ __forceinline__ Signs signs_at(const Signs* signs, unsigned block, Local p) const {
        const unsigned at = block_at(block, p);
        if (at >= blocks) return {0, 0};
        return signs[at * BLOCK_WORDS + offset(p) / 32];
    }

    // The signs of 4 rows from row y on, half a plane or one row less: of the plane x, in this block or an adjacent
    // one.
    __device__ __forceinline__ Signs rows_at(const Signs* signs, unsigned block, Local p) const {
        const Signs low = signs_at(signs, block, p);
        if (p.y % 4 == 0) return low;
        const Signs high = signs_at(signs, block, {p.x, p.y + 3, p.z});
        return {low.inside >> 8 | high.inside << 24, low.known >> 8 | high.known << 24};
    }

    __device__ __forceinline__ void around(const Signs* signs, unsigned word,
                                           Signs (&corners)[CORNERS]) const {
        const unsigned block = word / BLOCK_WORDS;
        const Local first = local({word, 0});
        // One step along z in each row of 8; the last bit comes from the block after.
        const auto step = [](unsigned row, unsigned behind) {
            return (row >> 1 & 0x7f7f7f7fu) | (behind & 0x01010101u) << 7;
        };
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Local p = {first.x + i / 2, first.y + i % 2, 0};
            const Signs row = rows_at(signs, block, p);
            const Signs behind = rows_at(signs, block, {p.x, p.y, 8});
            corners[2 * i] = row;
            corners[2 * i + 1] = {step(row.inside, behind.inside), step(row.known, behind.known)};
        }
    }

    __device__ __forceinline__ Place corner(Place cell, unsigned corner) const {
        const Local p = local(cell);
        const int dx = corner >> 2, dy = corner >> 1 & 1, dz = corner & 1;
        const Local to = {p.x + dx, p.y + dy, p.z + dz};
        const unsigned own = cell.word / BLOCK_WORDS, block = block_at(own, to), at = offset(to);
        // The block is missing only if the neighbours were changed since the signs were read.
        return {(block < blocks ? block : own) * BLOCK_WORDS + at / 32, at % 32};
    }

    __device__ __forceinline__ vec3<int> position(Place corner) const {
        // The arithmetic is unsigned, and may wrap around.
        const vec3<unsigned> origin(origins[corner.word / BLOCK_WORDS]);
        const Local p = local(corner);
        return vec3<int>(origin.x + p.x, origin.y + p.y, origin.z + p.z);
    }

    __device__ __forceinline__ bool beside(Place corner, int axis, int step, float& value) const {
        const Local from = local(corner);
        const vec3<int> p = moved(vec3<int>(from.x, from.y, from.z), axis, step);
        const Local to = {p.x, p.y, p.z};
        const unsigned block = block_at(corner.word / BLOCK_WORDS, to);
        if (block >= blocks) return false;
        value = values[block * stride + offset(to)];
        return true;
    }
};

} // namespace isosurface
} // namespace geom
