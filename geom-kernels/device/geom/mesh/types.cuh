// The types of a triangle mesh in device memory. The Rust side of these layouts is src/mesh/layout.rs.
#pragma once

#include <geom/bvh/types.cuh>

namespace geom {

// A triangle in the form that queries read, in the order of leaves: 64 bytes, two sectors of memory.
//
// Its corners come in the order of their vertices' indices, so that every edge is evaluated from its lower to its
// higher vertex, with the same bits in both of its faces. The normal is computed in f64 and right to an ulp, also for
// needles: mesh/closest.cuh relies on this.
struct alignas(16) MeshTriangle {
    float x0, y0, z0;
    // The face's index in bits 0 to 27. Bits 28 to 30 encode the order of its own corners: twice the position of
    // corner a among the three, and one more if corner b comes after corner c. Bit 31 is set if reordering has
    // reversed the orientation.
    unsigned face;
    float x1, y1, z1;
    // The reciprocal of the square of the length of edge 0-1; 0 where that is less than 2^-126.
    float inverse_01;
    float x2, y2, z2;
    float inverse_12;
    // The unit normal of corners 0, 1, 2 in this order; 0 if the area is 0.
    float nx, ny, nz;
    float inverse_02;
};

// The part of a face that a point lies on.
enum MeshFeature : unsigned {
    feature_vertex = 0, // 0, 1, 2: that vertex of the face
    feature_edge = 3,   // 3, 4, 5: the edge from vertex 0 to 1, from 1 to 2, from 2 to 0
    feature_face = 6,   // its inside
};

// The adjacent faces, for signs by pseudonormals. Null if they were not computed.
struct MeshTopology {
    // For each face and each of its edges the face on the other side; `no_index` at a boundary and at an
    // edge of more than two faces.
    const unsigned* neighbors;
    // For each vertex the sum of its faces' unit normals, each times its angle there.
    const vec3<float>* vertex_normals;
    // Nonzero if every edge has two faces, which run along it in opposite directions.
    const unsigned* closed;
};

// The moments of a node, for fast winding numbers: mesh/moments.cuh.
struct NodeMoments;

// A mesh as a kernel argument. All of it is read only while the kernel runs.
struct Mesh {
    Bvh bvh;
    const MeshTriangle* triangles;
    const vec3<float>* points;
    const vec3<unsigned>* faces;
    MeshTopology topology;
    // The moments of each node; null if they were not computed.
    const NodeMoments* moments;
    unsigned point_count, face_count;
};

} // namespace geom
