// The numbers of vertices and faces, and the first of each word.
#pragma once

#include <geom/isosurface/cells.cuh>
#include <geom/isosurface/field.cuh>
#include <geom/sort/chain.cuh>

namespace geom {
namespace isosurface {

// The 64-bit words of state that a chain of sums (sort/chain.cuh) needs for `tiles` tiles, all 0. `count` has two
// chains. The same in Rust: src/isosurface/passes.rs.
__device__ __forceinline__ constexpr unsigned chain_words(unsigned tiles) {
    return sort::CHAIN_AT + 2 * tiles;
}

struct CountShared {
    unsigned vertices[TILE_WORDS / 32], faces[TILE_WORDS / 32];
    unsigned tile, first;
};

// Writes the tiles, the edges of those with vertices, and the counts. By a block of TILE_WORDS threads for each tile.
template <class Field>
__device__ __forceinline__ void count(CountShared& shared, const Field& field, const Signs* signs,
                                      unsigned long long* state, Edges* edges, Tile* tiles,
                                      unsigned vertex_capacity, unsigned face_capacity, Counts* counts) {
    using sort::ALL_LANES;
    const unsigned tile_count = gridDim.x;
    const unsigned tile = sort::next_tile(state, shared.tile);
    const unsigned word = tile * TILE_WORDS + threadIdx.x;
    Edges own = {0, 0, 0, 0};
    unsigned faces = 0;
    bool broken = false;
    if (word < field.words) {
        Signs corners[CORNERS];
        field.around(signs, word, corners);
        own = crossed_edges(corners);
        const auto inside = [&](unsigned i) { return corners[i].inside; };
        for (unsigned rest = cells_with_faces(corners); rest != 0; rest &= rest - 1)
            faces += triangle_count(cell_triangles(case_of(inside, __ffs(rest) - 1)));
        const unsigned there = field.run(word).count;
        broken = __popc(corners[0].known) != there;
    }
    const unsigned lane = sort::lane_index(), warp = threadIdx.x / 32;
    if (__any_sync(ALL_LANES, broken) && lane == 0) atomicOr(&counts->status, status_not_finite);

    unsigned vertices, all_faces;
    const unsigned before = sort::block_exclusive_sum(vertex_count(own), shared.vertices, vertices);
    sort::block_exclusive_sum(faces, shared.faces, all_faces);
    const bool last = tile == tile_count - 1;
    // One warp sums vertices, another one faces.
    if (warp < 2) {
        const unsigned long long sum_of_tile = warp == 0 ? vertices : all_faces;
        unsigned long long* chain = state + (warp == 0 ? 0 : chain_words(tile_count));
        const unsigned long long sum = sort::chain_sum(chain, tile, tile_count, sum_of_tile);
        if (lane == 0 && warp == 0) {
            shared.first = static_cast<unsigned>(sum);
            tiles[tile].vertices_before = sum;
            tiles[tile].vertices = vertices;
            if (last) counts->vertices = sum + vertices;
            if (last && sum + vertices > vertex_capacity)
                atomicOr(&counts->status, status_vertices_left_out);
        } else if (lane == 0) {
            tiles[tile].faces_before = sum;
            tiles[tile].faces = all_faces;
            if (last) counts->faces = sum + all_faces;
            if (last && sum + all_faces > face_capacity)
                atomicOr(&counts->status, status_faces_left_out);
        }
    }
    __syncthreads();
    own.first = shared.first + before;
    if (vertices > 0 && word < field.words) edges[word] = own;
}

} // namespace isosurface
} // namespace geom
