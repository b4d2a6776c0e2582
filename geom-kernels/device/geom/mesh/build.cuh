// The hierarchy of a mesh's faces: their boxes, and the triangles in the order of leaves.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/bvh/build_keys.cuh>
#include <geom/bvh/refit.cuh>
#include <geom/mesh/faces.cuh>
#include <geom/mesh/packed.cuh>

namespace geom {
namespace mesh {

// The boxes of faces that are not skipped, for `bvh::bound`.
struct FaceBoxes {
    Surface surface;

    __device__ __forceinline__ bool box(unsigned i, aabb<float>* out) const {
        const Face face = look_at(surface, i);
        if (face.fault != fault_none) return false;
        *out = bounds(face.triangle);
        return true;
    }
};

// The boxes of triangles in the order of leaves, for `bvh::refit`. Those of skipped faces are NaN, which is an
// invalid box.
struct TriangleBoxes {
    const MeshTriangle* triangles;

    __device__ __forceinline__ bool box(unsigned place, aabb<float>* out) const {
        const float4* words = reinterpret_cast<const float4*>(triangles + place);
        const float4 a = __ldg(words), b = __ldg(words + 1), c = __ldg(words + 2);
        *out = bounds(Triangle{{a.x, a.y, a.z}, {b.x, b.y, b.z}, {c.x, c.y, c.z}});
        return true;
    }
};

// Writes the triangles in the order of leaves, of which at most `capacity` fit. A thread for each place. The corners
// are NaN if a face is skipped, or does not exist, which is possible if a graph has rebuilt the hierarchy.
__device__ __forceinline__ void write_triangles(
    const BvhHeader& header, const unsigned* items, const Surface& surface, unsigned capacity,
    MeshTriangle* triangles
) {
    const unsigned place = thread();
    if (place >= header.items || place >= capacity) return;
    const unsigned index = items[place];
    Face face;
    face.fault = fault_out_of_range;
    if (index < surface.face_count) face = look_at(surface, index);
    MeshTriangle triangle;
    if (face.fault == fault_none) {
        triangle = pack(index, face.vertices, face.triangle);
    } else {
        const float nan = __uint_as_float(0x7fc00000u);
        triangle = {nan, nan, nan, index & face_mask, nan, nan, nan, 0.0f,
                    nan, nan, nan, 0.0f,              nan, nan, nan, 0.0f};
    }
    const MeshTriangle& t = triangle;
    float4* to = reinterpret_cast<float4*>(triangles + place);
    to[0] = {t.x0, t.y0, t.z0, __uint_as_float(t.face)};
    to[1] = {t.x1, t.y1, t.z1, t.inverse_01};
    to[2] = {t.x2, t.y2, t.z2, t.inverse_12};
    to[3] = {t.nx, t.ny, t.nz, t.inverse_02};
}

} // namespace mesh
} // namespace geom
