// The cells and edges of a word that the surface passes through.
#pragma once

#include <geom/isosurface/cases.cuh>
#include <geom/isosurface/types.cuh>

namespace geom {
namespace isosurface {

// The edges that the lanes' corners own and the surface crosses: both ends are finite, and one is inside. The first
// vertex's number is not set yet.
__device__ __forceinline__ Edges crossed_edges(const Signs (&corners)[CORNERS]) {
    const Signs &own = corners[0], &x = corners[4], &y = corners[2], &z = corners[1];
    return {(own.inside ^ x.inside) & own.known & x.known, (own.inside ^ y.inside) & own.known & y.known,
            (own.inside ^ z.inside) & own.known & z.known, 0};
}

__device__ __forceinline__ unsigned vertex_count(const Edges& edges) {
    return __popc(edges.x) + __popc(edges.y) + __popc(edges.z);
}

// The lanes whose cells have faces: all corners are finite, some are inside and some are not.
__device__ __forceinline__ unsigned cells_with_faces(const Signs (&corners)[CORNERS]) {
    unsigned known = ~0u, all = ~0u, some = 0;
#pragma unroll
    for (unsigned i = 0; i < CORNERS; ++i) {
        known &= corners[i].known;
        all &= corners[i].inside;
        some |= corners[i].inside;
    }
    return known & some & ~all;
}

// The case of a lane's cell: a bit for each corner that is inside.
template <class Corners>
__device__ __forceinline__ unsigned case_of(const Corners& inside, unsigned lane) {
    unsigned bits = 0;
#pragma unroll
    for (unsigned i = 0; i < CORNERS; ++i) bits |= (inside(i) >> lane & 1) << i;
    return bits;
}

// The position of set bit number n, which exists.
__device__ __forceinline__ unsigned nth_bit(unsigned bits, unsigned n) {
    unsigned place = 0;
#pragma unroll
    for (unsigned step = 16; step > 0; step /= 2) {
        const unsigned below = __popc(bits >> place & ((1u << step) - 1));
        if (n >= below) {
            n -= below;
            place += step;
        }
    }
    return place;
}

// The last word whose `starts` is not greater than n; the first one's is 0.
__device__ __forceinline__ unsigned word_with(const unsigned (&starts)[TILE_WORDS], unsigned n) {
    unsigned word = 0;
#pragma unroll
    for (unsigned step = TILE_WORDS / 2; step > 0; step /= 2)
        if (starts[word + step] <= n) word += step;
    return word;
}

} // namespace isosurface
} // namespace geom
