// The interface of fields for the kernels, and the dense field, whose values are contiguous.
//
// A field is a type with these members. It chooses the layout of its corners in words; blocks.cuh has another one.
//
//     unsigned words;                                    // how many
//     // Where the numbers of a word's corners lie, in the order of lanes; lanes from `count` on have no corner,
//     // and lane 0 has one.
//     Run run(unsigned word) const;
//     float value(unsigned place) const;                 // run.first + lane
//     // Of each lane's cell the signs of its corners. What has no corner is not known.
//     void around(const Signs* signs, unsigned word, Signs (&corners)[CORNERS]) const;
//     // Another corner of the cell at `cell`, which exists.
//     Place corner(Place cell, unsigned corner) const;
//     vec3<int> position(Place corner) const;            // in the field's indices
//     // The number one step (1 or -1) beside a corner; false if there is none. For gradients.
//     bool beside(Place corner, int axis, int step, float& value) const;
#pragma once

#include <geom/isosurface/types.cuh>

namespace geom {
namespace isosurface {

// The values of a word's corners in memory.
struct Run {
    unsigned first, count;
};

// A copy of p with one coordinate, selected at run time, increased by `by`. (An index would put the vector into local
// memory.)
__device__ __forceinline__ vec3<int> moved(vec3<int> p, int axis, int by) {
    return vec3<int>(axis == 0 ? p.x + by : p.x, axis == 1 ? p.y + by : p.y, axis == 2 ? p.z + by : p.z);
}
__device__ __forceinline__ vec3<double> moved(vec3<double> p, int axis, double by) {
    return vec3<double>(axis == 0 ? exact::add(p.x, by) : p.x, axis == 1 ? exact::add(p.y, by) : p.y,
                        axis == 2 ? exact::add(p.z, by) : p.z);
}

// A field of nx by ny by nz values, z contiguous; at least 2 along each axis, and at most 2^32 in all. A word has 32
// corners along z; the last one of a row may have fewer. Words are numbered along rows, then planes.
struct DenseField {
    const float* values;
    unsigned nx, ny, nz;
    unsigned row_words, words, unused;

    __device__ __forceinline__ Run run(unsigned word) const {
        const unsigned row = word / row_words, z = 32 * (word - row * row_words);
        return {row * nz + z, nz - z < 32 ? nz - z : 32};
    }

    __device__ __forceinline__ float value(unsigned place) const { return values[place]; }

    __device__ __forceinline__ void around(const Signs* signs, unsigned word,
                                           Signs (&corners)[CORNERS]) const {
        const unsigned row = word / row_words;
        const unsigned x = row / ny, y = row - x * ny;
        const bool last_word = word - row * row_words + 1 == row_words;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned dx = i / 2, dy = i % 2;
            const bool there = x + dx < nx && y + dy < ny;
            const Signs* at = signs + word + (dx * ny + dy) * row_words;
            Signs low = {0, 0}, high = {0, 0};
            if (there) low = at[0];
            if (there && !last_word) high = at[1];
            corners[2 * i] = low;
            corners[2 * i + 1] = {low.inside >> 1 | high.inside << 31, low.known >> 1 | high.known << 31};
        }
    }

    __device__ __forceinline__ Place corner(Place cell, unsigned corner) const {
        const unsigned lane = cell.lane + (corner & 1);
        const unsigned rows = (corner >> 2) * ny + (corner >> 1 & 1);
        const unsigned word = cell.word + rows * row_words + lane / 32;
        // The word is out of range only if `edges` was written for another field.
        return word < words ? Place{word, lane % 32} : cell;
    }

    __device__ __forceinline__ vec3<int> position(Place corner) const {
        const unsigned row = corner.word / row_words;
        const unsigned x = row / ny;
        return vec3<int>(x, row - x * ny, 32 * (corner.word - row * row_words) + corner.lane);
    }

    __device__ __forceinline__ bool beside(Place corner, int axis, int step, float& value) const {
        const vec3<int> p = moved(position(corner), axis, step);
        // A coordinate below 0 becomes a large unsigned one.
        const unsigned x = p.x, y = p.y, z = p.z;
        if (x >= nx || y >= ny || z >= nz) return false;
        value = values[(x * ny + y) * nz + z];
        return true;
    }
};

} // namespace isosurface
} // namespace geom
