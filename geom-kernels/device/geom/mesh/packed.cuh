// Triangles in the form that a mesh stores: packing and unpacking.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
#pragma once

#include <geom/mesh/triangle/types.cuh>
#include <geom/mesh/types.cuh>

namespace geom {
namespace mesh {

constexpr unsigned face_mask = 0x0fffffffu;

// A stored triangle, read with four loads.
struct Packed {
    float4 first, second, third, normal;

    Packed() = default;
    __device__ __forceinline__ explicit Packed(const MeshTriangle& triangle) {
        const float4* from = reinterpret_cast<const float4*>(&triangle);
        first = load_unchanged(from);
        second = load_unchanged(from + 1);
        third = load_unchanged(from + 2);
        normal = load_unchanged(from + 3);
    }
    __device__ __forceinline__ vec3<float> corner(int i) const {
        const float4& v = i == 0 ? first : i == 1 ? second : third;
        return vec3<float>(v.x, v.y, v.z);
    }
    __device__ __forceinline__ unsigned word() const { return __float_as_uint(first.w); }
    __device__ __forceinline__ unsigned face() const { return word() & face_mask; }
    // Whether reordering has reversed the orientation of its corners.
    __device__ __forceinline__ bool turned() const { return (word() >> 31) != 0; }
    // The corners in the order of indices.
    __device__ __forceinline__ Triangle ordered() const {
        return Triangle{corner(0), corner(1), corner(2)};
    }
};

// The positions of the face's corners among the three ordered ones.
struct Places {
    unsigned a, b, c;

    __device__ __forceinline__ explicit Places(unsigned word) {
        const unsigned code = word >> 28 & 7u;
        a = code >> 1;
        const unsigned less = a == 0 ? 1 : 0, more = a == 2 ? 1 : 2;
        b = (code & 1) != 0 ? more : less;
        c = (code & 1) != 0 ? less : more;
    }
    // A bit for each of the face's edges that runs from the higher to the lower vertex: see `closest_point` of a
    // triangle.
    __device__ __forceinline__ unsigned flags() const {
        return unsigned(a > b) | unsigned(b > c) << 1 | unsigned(c > a) << 2;
    }
};

// The face with its corners in their own order.
__device__ __forceinline__ Triangle face_of(const Packed& packed, const Places& places) {
    return Triangle{packed.corner(places.a), packed.corner(places.b), packed.corner(places.c)};
}

__device__ __forceinline__ float inverse_length_squared(vec3<float> from, vec3<float> to) {
    using namespace exact;
    double square = exact::length_squared(exact::sub(exact::widen(to), exact::widen(from)));
    // The limit is 2^-126: below, the reciprocal may not be finite.
    return less(square, 1.1754943508222875e-38) ? 0.0f : div(1.0f, narrow(square));
}

// Packs a face with these vertices and their indices.
__device__ __forceinline__ MeshTriangle pack(unsigned face, vec3<unsigned> index, Triangle t) {
    Places places(0);
    places.a = unsigned(index.x > index.y) + unsigned(index.x > index.z);
    places.b = unsigned(index.y >= index.x) + unsigned(index.y > index.z);
    places.c = 3 - places.a - places.b;
    const bool after = places.b > places.c;
    vec3<float> corner[3];
#pragma unroll
    for (unsigned i = 0; i < 3; ++i)
        corner[i] = places.a == i ? t.a : places.b == i ? t.b : t.c;
    const unsigned code = places.a * 2 + unsigned(after);
    // The orders b a c, a c b and c b a reverse the orientation.
    const bool turned = (0x26u >> code & 1u) != 0;
    MeshTriangle out;
    out.x0 = corner[0].x, out.y0 = corner[0].y, out.z0 = corner[0].z;
    out.x1 = corner[1].x, out.y1 = corner[1].y, out.z1 = corner[1].z;
    out.x2 = corner[2].x, out.y2 = corner[2].y, out.z2 = corner[2].z;
    out.face = face | code << 28 | unsigned(turned) << 31;
    out.inverse_01 = inverse_length_squared(corner[0], corner[1]);
    out.inverse_12 = inverse_length_squared(corner[1], corner[2]);
    out.inverse_02 = inverse_length_squared(corner[0], corner[2]);
    vec3<float> n = normal(Triangle{corner[0], corner[1], corner[2]});
    out.nx = n.x, out.ny = n.y, out.nz = n.z;
    return out;
}

} // namespace mesh
} // namespace geom
