// Axis-aligned boxes. They are closed: their faces belong to them.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options, so that hierarchies
// of boxes give the same results everywhere.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {

// The box is empty if a lower bound is greater than the upper one in any axis.
template <class T>
struct aabb {
    using element = T;
    vec3<T> lower, upper;

    aabb() = default;
    GEOM_FN aabb(vec3<T> lower, vec3<T> upper) : lower(lower), upper(upper) {}
    // The box of one point.
    GEOM_FN explicit aabb(vec3<T> point) : lower(point), upper(point) {}
    // The empty box, the identity of `unite`: from infinity to minus infinity.
    static __device__ __forceinline__ aabb empty() {
        const T infinity = T(__int_as_float(0x7f800000));
        return aabb(vec3<T>(infinity), vec3<T>(-infinity));
    }
};

GEOM_EXACT_FN bool is_empty(const aabb<T>& b) {
    return exact::less(b.upper.x, b.lower.x) || exact::less(b.upper.y, b.lower.y) ||
           exact::less(b.upper.z, b.lower.z);
}
// The smallest box that contains b and the point; a NaN component changes nothing.
GEOM_EXACT_FN aabb<T> grow(const aabb<T>& b, vec3<T> point) {
    return aabb<T>(exact::min(b.lower, point), exact::max(b.upper, point));
}
// The box with every face moved outwards by `by`, rounded outwards.
GEOM_EXACT_FN aabb<T> expand(const aabb<T>& b, T by) {
    using namespace exact;
    const vec3<T>&l = b.lower, &u = b.upper;
    return aabb<T>(vec3<T>(sub_down(l.x, by), sub_down(l.y, by), sub_down(l.z, by)),
                   vec3<T>(add_up(u.x, by), add_up(u.y, by), add_up(u.z, by)));
}
// The smallest box that contains both.
GEOM_EXACT_FN aabb<T> unite(const aabb<T>& a, const aabb<T>& b) {
    return aabb<T>(exact::min(a.lower, b.lower), exact::max(a.upper, b.upper));
}
// The intersection of both; may be empty.
GEOM_EXACT_FN aabb<T> intersect(const aabb<T>& a, const aabb<T>& b) {
    return aabb<T>(exact::max(a.lower, b.lower), exact::min(a.upper, b.upper));
}
// Whether they have a point in common; touching is enough. False with a NaN, or if one is
// `empty()`.
GEOM_EXACT_FN bool overlaps(const aabb<T>& a, const aabb<T>& b) {
    using exact::less_equal;
    return less_equal(a.lower.x, b.upper.x) && less_equal(b.lower.x, a.upper.x) &&
           less_equal(a.lower.y, b.upper.y) && less_equal(b.lower.y, a.upper.y) &&
           less_equal(a.lower.z, b.upper.z) && less_equal(b.lower.z, a.upper.z);
}
// Whether the point is in the box or on it. False with a NaN.
GEOM_EXACT_FN bool contains(const aabb<T>& b, vec3<T> p) {
    using exact::less_equal;
    return less_equal(b.lower.x, p.x) && less_equal(p.x, b.upper.x) &&
           less_equal(b.lower.y, p.y) && less_equal(p.y, b.upper.y) &&
           less_equal(b.lower.z, p.z) && less_equal(p.z, b.upper.z);
}
// Whether all of `inner` is in `outer`. False if `inner` is empty or with a NaN.
GEOM_EXACT_FN bool contains(const aabb<T>& outer, const aabb<T>& inner) {
    return !is_empty(inner) && contains(outer, inner.lower) && contains(outer, inner.upper);
}

// The nearest point of the box; p itself if it is inside. For a NaN component, the lower bound.
GEOM_EXACT_FN vec3<T> closest_point(const aabb<T>& b, vec3<T> p) {
    return exact::min(exact::max(p, b.lower), b.upper);
}
// The square of the distance from the point to the box: 0 inside, infinite for `empty()`, rounded to nearest (the
// differences are rounded, then the sum as in `exact::dot`). A NaN component of p counts as inside.
GEOM_EXACT_FN T distance_squared(const aabb<T>& b, vec3<T> p) {
    vec3<T> d = exact::max(exact::sub(b.lower, p), exact::sub(p, b.upper));
    return exact::length_squared(exact::max(d, vec3<T>(T(0))));
}
// The same, rounded down: a limit below it is below the distance of all points of the box.
GEOM_EXACT_FN T distance_squared_down(const aabb<T>& b, vec3<T> p) {
    using namespace exact;
    const vec3<T>&l = b.lower, &u = b.upper;
    T x = max(max(sub_down(l.x, p.x), sub_down(p.x, u.x)), T(0));
    T y = max(max(sub_down(l.y, p.y), sub_down(p.y, u.y)), T(0));
    T z = max(max(sub_down(l.z, p.z), sub_down(p.z, u.z)), T(0));
    return add_down(add_down(mul_down(x, x), mul_down(y, y)), mul_down(z, z));
}

// The centre, without overflow where the bounds are finite. NaN for `empty()`.
GEOM_EXACT_FN vec3<T> center(const aabb<T>& b) {
    return exact::add(exact::mul(b.lower, T(0.5)), exact::mul(b.upper, T(0.5)));
}
// The lengths of the sides; 0 where it is empty.
GEOM_EXACT_FN vec3<T> extent(const aabb<T>& b) {
    return exact::max(exact::sub(b.upper, b.lower), vec3<T>(T(0)));
}
// The surface 2 (xy + yz + zx) of its extent; 0 if it is empty.
GEOM_EXACT_FN T surface_area(const aabb<T>& b) {
    if (is_empty(b)) return T(0);
    vec3<T> e = extent(b);
    T half = exact::fma(e.z, e.x, exact::fma(e.y, e.z, exact::mul(e.x, e.y)));
    return exact::add(half, half);
}
// The axis of the longest side: 0, 1 or 2; the first of equal ones.
GEOM_EXACT_FN int longest_axis(const aabb<T>& b) {
    vec3<T> e = extent(b);
    if (exact::less(e.x, e.z) && exact::less(e.y, e.z)) return 2;
    return exact::less(e.x, e.y) ? 1 : 0;
}

} // namespace geom
