// Whether an axis-parallel ray from a point crosses a triangle, which distinguishes inside and outside.
//
// All of this is free of rounding errors, and so independent of a program's options.
#pragma once

#include <geom/mesh/triangle/types.cuh>

namespace geom {

namespace detail {

// The projection along an axis, which keeps the handedness.
__device__ __forceinline__ vec2<float> projected(vec3<float> p, int axis) {
    return axis == 0 ? vec2<float>(p.y, p.z)
                     : axis == 1 ? vec2<float>(p.z, p.x) : vec2<float>(p.x, p.y);
}

// The sides of q from three lines: each -1, 0 or 1.
struct Sides {
    int ab, bc, ca;

    __device__ __forceinline__ Sides(vec2<float> a, vec2<float> b, vec2<float> c, vec2<float> q)
        : ab(orient2d(a, b, q)), bc(orient2d(b, c, q)), ca(orient2d(c, a, q)) {}
    // The common sign of the nonzero ones: 0 if all are 0, 2 if they differ.
    __device__ __forceinline__ int common() const {
        bool positive = ab > 0 || bc > 0 || ca > 0, negative = ab < 0 || bc < 0 || ca < 0;
        return positive && negative ? 2 : int(positive) - int(negative);
    }
};

// Whether the point is between the least and the greatest coordinates.
__device__ __forceinline__ bool between(vec2<float> a, vec2<float> b, vec2<float> c,
                                        vec2<float> q) {
    using exact::less_equal;
    return less_equal(exact::min(exact::min(a.x, b.x), c.x), q.x) &&
           less_equal(q.x, exact::max(exact::max(a.x, b.x), c.x)) &&
           less_equal(exact::min(exact::min(a.y, b.y), c.y), q.y) &&
           less_equal(q.y, exact::max(exact::max(a.y, b.y), c.y));
}

// Whether the triangle's projection contains the projection of q; its edges and corners belong to it.
__device__ __forceinline__ bool covers(const Triangle& t, vec3<float> q, int axis) {
    vec2<float> a = projected(t.a, axis), b = projected(t.b, axis), c = projected(t.c, axis);
    vec2<float> p = projected(q, axis);
    return between(a, b, c, p) && Sides(a, b, c, p).common() != 2;
}

} // namespace detail

// Whether the ray from q towards +x crosses the triangle, both valid: 1 where it leaves through the front (the
// normal's x is positive), -1 where it enters, 0 if it does not cross. 2 if and only if q lies on the triangle:
// inside, on an edge or at a corner, whatever its shape.
//
// For a closed mesh that q is not on, the sum over all faces is the number of times that the mesh winds around q (1
// inside a simple one whose normals point outwards, 0 outside), and the parity of the number of crossings is right
// for any orientation. Proof: all faces see q moved by the same (0, e, e^2), which does not leave the region of space
// that q is in. The moved ray meets no vertex and no edge: simulation of simplicity gives its side of each edge's
// line in y and z, and the opposite one for the edge in the other direction. Faces parallel to x have no area there
// and are not crossed. If the three sides agree, the moved ray crosses the plane at a point next to that of the ray,
// and as that is not q, orient3d decides whether it is ahead.
__device__ __forceinline__ int crosses(const Triangle& t, vec3<float> q) {
    vec2<float> a = detail::projected(t.a, 0), b = detail::projected(t.b, 0);
    vec2<float> c = detail::projected(t.c, 0), p = detail::projected(q, 0);
    if (!detail::between(a, b, c, p) ||
        exact::less(exact::max(exact::max(t.a.x, t.b.x), t.c.x), q.x))
        return 0;
    detail::Sides sides(a, b, c, p);
    int side = sides.common();
    if (side == 2) return 0;
    if (side == 0) {
        // The triangle is parallel to x, or a line or a point, and q is on its plane or line. If q is on the
        // triangle, all three projections cover it. Otherwise, one projection has as many dimensions as the triangle,
        // and does not cover q.
        return detail::covers(t, q, 1) && detail::covers(t, q, 2) ? 2 : 0;
    }
    int ahead = orient3d(t.a, t.b, t.c, q);
    // The projection has an area and covers q.
    if (ahead == 0) return 2;
    if (ahead != side) return 0;
    bool crossed = (sides.ab != 0 ? sides.ab : side_of_tie(a, b)) == side &&
                   (sides.bc != 0 ? sides.bc : side_of_tie(b, c)) == side &&
                   (sides.ca != 0 ? sides.ca : side_of_tie(c, a)) == side;
    return crossed ? side : 0;
}

} // namespace geom
