// Whether a triangle and a box have a point in common.
//
// All of this is free of rounding errors, and so independent of a program's options.
#pragma once

#include <geom/mesh/triangle/crossing.cuh>

namespace geom {

namespace detail {

// Whether the whole rectangle is right of the line from p to q.
__device__ __forceinline__ bool
all_right(vec2<float> p, vec2<float> q, vec2<float> lower, vec2<float> upper) {
    // The corner of the rectangle that is farthest to the left.
    vec2<float> corner(exact::less(q.y, p.y) ? upper.x : lower.x,
                       exact::less(p.x, q.x) ? upper.y : lower.y);
    return orient2d(p, q, corner) < 0;
}

// Whether the line of an edge separates the projections of triangle and box; *turn is the orientation of the
// triangle's projection.
__device__ __forceinline__ bool separated(const Triangle& t, const aabb<float>& box, int axis,
                                          int* turn) {
    vec2<float> a = projected(t.a, axis), b = projected(t.b, axis), c = projected(t.c, axis);
    vec2<float> lower = projected(box.lower, axis), upper = projected(box.upper, axis);
    *turn = orient2d(a, b, c);
    // In counterclockwise order, the triangle is left of its edges. One without area has edges in both directions
    // along its line, so both sides are tested.
    vec2<float> second = *turn < 0 ? c : b, third = *turn < 0 ? b : c;
    return all_right(a, second, lower, upper) || all_right(second, third, lower, upper) ||
           all_right(third, a, lower, upper);
}

} // namespace detail

// Whether the valid triangle and the box have a point in common; touching is enough. False for an empty box and with
// a NaN in it.
//
// The separating axes of Akenine-Moller ("Fast 3D Triangle-Box Overlap Testing", 2001), each by the
// sign of an exact determinant: a cross product of an axis and an edge separates where, projected
// along that axis, the edge's line has the rectangle on the other side of the triangle; the normal
// where the box's two extreme corners are on one side of the plane.
__device__ __forceinline__ bool overlaps(const Triangle& t, const aabb<float>& box) {
    if (is_empty(box)) return false;
    aabb<float> of_triangle = bounds(t);
    if (!overlaps(of_triangle, box)) return false;
    // The part of the box outside of the triangle's box does not matter, and may be infinite.
    aabb<float> b = intersect(of_triangle, box);
    int x, y, z;
    if (detail::separated(t, b, 0, &x) || detail::separated(t, b, 1, &y) ||
        detail::separated(t, b, 2, &z))
        return false;
    // The signs of the normal's components are the orientations of the projections.
    vec3<float> behind(x > 0 ? b.lower.x : b.upper.x, y > 0 ? b.lower.y : b.upper.y,
                       z > 0 ? b.lower.z : b.upper.z);
    vec3<float> before(x > 0 ? b.upper.x : b.lower.x, y > 0 ? b.upper.y : b.lower.y,
                       z > 0 ? b.upper.z : b.lower.z);
    return orient3d(t.a, t.b, t.c, behind) >= 0 && orient3d(t.a, t.b, t.c, before) <= 0;
}

} // namespace geom
