// Writes the vertices and faces of a tile. The threads of a block share the tile's vertices, then its cells with
// faces, so that all of them have work wherever the surface passes through the tile.
#pragma once

#include <geom/isosurface/cells.cuh>
#include <geom/isosurface/vertices.cuh>
#include <geom/sort/block.cuh>

namespace geom {
namespace isosurface {

// The buffers for vertices and faces; elements beyond a capacity are not written. `normals` has as many elements as
// `vertices`, or is null.
struct Output {
    vec3<float>* vertices;
    vec3<float>* normals;
    vec3<unsigned>* faces;
    unsigned vertex_capacity, face_capacity;
};

// For each word of a tile, the lanes' corners inside, and the lanes that have faces.
struct CellMasks {
    unsigned inside[CORNERS][TILE_WORDS];
    unsigned lanes[TILE_WORDS];
};

struct EmitShared {
    // For each word of the tile: the number of vertices, or of cells with faces, before it; and its own.
    unsigned starts[TILE_WORDS];
    union {
        Edges edges[TILE_WORDS];
        CellMasks cells;
    };
    unsigned sums[TILE_WORDS / 32];
};

template <bool NORMALS, class Field>
__device__ __forceinline__ void emit_vertices(EmitShared& shared, const Field& field, const IndexMap& map,
                                              float iso, const Edges* edges, const Tile& tile,
                                              const Output& out) {
    const unsigned first_word = blockIdx.x * TILE_WORDS;
    const unsigned own = first_word + threadIdx.x;
    shared.starts[threadIdx.x] = tile.vertices;
    if (own < field.words) {
        const Edges of_word = edges[own];
        shared.edges[threadIdx.x] = of_word;
        shared.starts[threadIdx.x] = of_word.first - static_cast<unsigned>(tile.vertices_before);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < tile.vertices; i += TILE_WORDS) {
        const unsigned long long number = tile.vertices_before + i;
        if (number >= out.vertex_capacity) break;
        const unsigned word = word_with(shared.starts, i);
        const Edges of_word = shared.edges[word];
        unsigned n = i - shared.starts[word];
        unsigned bits = of_word.x;
        int axis = 0;
        if (n >= __popc(bits)) {
            n -= __popc(bits);
            bits = of_word.y;
            axis = 1;
            if (n >= __popc(bits)) {
                n -= __popc(bits);
                bits = of_word.z;
                axis = 2;
            }
        }
        const Place lower = {first_word + word, nth_bit(bits, n)};
        const Vertex vertex = vertex_on<NORMALS>(field, map, iso, lower, axis);
        out.vertices[number] = vertex.position;
        if (NORMALS) out.normals[number] = vertex.normal;
    }
    __syncthreads();
}

// The number of the vertex on an edge of a cell.
template <class Field>
__device__ __forceinline__ unsigned vertex_of(const Field& field, const Edges* edges, Place cell,
                                              unsigned edge) {
    const Place owner = field.corner(cell, lower_corner(edge));
    const Edges of_word = edges[owner.word];
    unsigned number = of_word.first;
    unsigned bits = of_word.x;
    if (edge >= 4) {
        number += __popc(bits);
        bits = of_word.y;
    }
    if (edge >= 8) {
        number += __popc(bits);
        bits = of_word.z;
    }
    return number + __popc(bits & ((1u << owner.lane) - 1));
}

template <class Field>
__device__ __forceinline__ void emit_faces(EmitShared& shared, const Field& field, bool mirrored,
                                           const Signs* signs, const Edges* edges, const Tile& tile,
                                           const Output& out) {
    const unsigned first_word = blockIdx.x * TILE_WORDS;
    const unsigned own = first_word + threadIdx.x;
    unsigned lanes = 0;
    if (own < field.words) {
        Signs corners[CORNERS];
        field.around(signs, own, corners);
        lanes = cells_with_faces(corners);
#pragma unroll
        for (unsigned i = 0; i < CORNERS; ++i) shared.cells.inside[i][threadIdx.x] = corners[i].inside;
    }
    shared.cells.lanes[threadIdx.x] = lanes;
    const unsigned own_cells = __popc(lanes);
    unsigned cells;
    shared.starts[threadIdx.x] = sort::block_exclusive_sum(own_cells, shared.sums, cells);
    __syncthreads();
    unsigned long long before = tile.faces_before;
    // There are more faces than that only if the neighbours were changed since the count. Elements from here on
    // belong to the next tile.
    const unsigned long long last = before + tile.faces;
    const unsigned long long end = last < out.face_capacity ? last : out.face_capacity;
    for (unsigned first = 0; first < cells; first += TILE_WORDS) {
        const unsigned i = first + threadIdx.x;
        Place cell = {0, 0};
        unsigned long long triangles = 0;
        if (i < cells) {
            const unsigned word = word_with(shared.starts, i);
            const unsigned lane = nth_bit(shared.cells.lanes[word], i - shared.starts[word]);
            const auto inside = [&](unsigned c) { return shared.cells.inside[c][word]; };
            triangles = cell_triangles(case_of(inside, lane));
            cell = {first_word + word, lane};
        }
        const unsigned count = triangle_count(triangles);
        unsigned all;
        unsigned long long number = before + sort::block_exclusive_sum(count, shared.sums, all);
        for (unsigned k = 0; k < count && number < end; ++k, ++number) {
            const unsigned a = vertex_of(field, edges, cell, triangle_edge(triangles, 3 * k));
            const unsigned b = vertex_of(field, edges, cell, triangle_edge(triangles, 3 * k + 1));
            const unsigned c = vertex_of(field, edges, cell, triangle_edge(triangles, 3 * k + 2));
            out.faces[number] = mirrored ? vec3<unsigned>(a, c, b) : vec3<unsigned>(a, b, c);
        }
        before += all;
        // The barrier protects the sums, which were read until here.
        __syncthreads();
    }
}

// Writes the vertices and faces of a tile. By a block of TILE_WORDS threads for each tile.
template <bool NORMALS, class Field>
__device__ __forceinline__ void emit(EmitShared& shared, const Field& field, const IndexMap& map, float iso,
                                     const Signs* signs, const Edges* edges, const Tile* tiles,
                                     const Output& out) {
    const Tile tile = tiles[blockIdx.x];
    if (tile.vertices > 0 && tile.vertices_before < out.vertex_capacity)
        emit_vertices<NORMALS>(shared, field, map, iso, edges, tile, out);
    if (tile.faces > 0 && tile.faces_before < out.face_capacity)
        emit_faces(shared, field, map.mirrored != 0, signs, edges, tile, out);
}

} // namespace isosurface
} // namespace geom
