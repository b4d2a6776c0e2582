// The data that the kernels of marching cubes exchange. The Rust side of these layouts is src/isosurface/layout.rs.
//
// The corners of a field are numbered in words of 32: a corner is a lane of a word. A corner owns the three edges
// that run from it towards greater x, y and z; a vertex belongs to its edge. A cell has the number of its least
// corner.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {
namespace isosurface {

// For the 32 corners of a word: which are finite, and which of those are less than the surface's value. Corners
// outside of the field are in neither mask.
struct alignas(8) Signs {
    unsigned inside, known;
};

// The edges of a word's corners that the surface crosses, by axis, and the number of the first one's vertex. They are
// numbered axis by axis, and along each by lanes. Numbers wrap around after 2^32, where no buffer has room for all
// vertices.
struct alignas(16) Edges {
    unsigned x, y, z;
    unsigned first;
};

// The number of words that one block processes.
constexpr unsigned TILE_WORDS = 256;

// The counts of a tile, and of all before it.
struct Tile {
    unsigned long long vertices_before, faces_before;
    unsigned vertices, faces;
};

// The counts of all elements, whether or not there was room for them. `geom_kernels::isosurface::Counts` in Rust.
struct Counts {
    unsigned long long vertices, faces;
    unsigned long long status; // a combination of `Status`
};

enum Status : unsigned long long {
    status_vertices_left_out = 1,
    status_faces_left_out = 2,
    // Some value of the field is not finite: there may be holes.
    status_not_finite = 4,
};

// The map from the field's indices to the world: rows . (x, y, z, 1). For normals, the transposed inverse of its
// linear part, scaled arbitrarily.
struct IndexMap {
    double rows[3][4];
    double normal_rows[3][3];
    // Whether the map mirrors, so that faces are reversed.
    unsigned mirrored, unused;
};

// A corner: a lane of a word.
struct Place {
    unsigned word, lane;
};

// Corner 4 dx + 2 dy + dz of a cell lies at (dx, dy, dz).
constexpr unsigned CORNERS = 8;

} // namespace isosurface
} // namespace geom
