// The point of a triangle that is closest to a given one.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
#pragma once

#include <geom/mesh/triangle/types.cuh>

namespace geom {

// A point of a triangle.
struct TrianglePoint {
    vec3<float> position;
    // d . d of d = q - position, all rounded: `exact::distance_squared`.
    float distance_squared;
    // position = (1 - u - v) a + u b + v c, about.
    float u, v;
    // 0, 1, 2: a corner; 3, 4, 5: within the edge a-b, b-c, c-a; 6: inside.
    unsigned feature;
};

namespace detail {

// The point of the segment from `low` to `high` that is closest to q; *t is 0 and 1 at its ends,
// which have their own bits. A segment of no length is `low`.
//
// The point is in the segment's box: with u = 2^-53 t is at most 1 - u, and the difference at most
// 1 + u times what it is exactly, so their product is less than that; and rounding keeps an order.
__device__ __forceinline__ vec3<float>
closest_on_segment(vec3<float> low, vec3<float> high, vec3<double> q, double* t) {
    using namespace exact;
    vec3<double> from = exact::widen(low), along = exact::sub(exact::widen(high), from);
    double over = exact::dot(exact::sub(q, from), along), under = exact::length_squared(along);
    *t = 0.0;
    if (!less(0.0, over)) return low;
    *t = 1.0;
    if (!less(over, under)) return high;
    double s = div(over, under);
    *t = s;
    return exact::narrow(vec3<double>(fma(s, along.x, from.x), fma(s, along.y, from.y),
                                      fma(s, along.z, from.z)));
}

// A point of an edge, from its lower to its higher vertex.
struct EdgePoint {
    vec3<float> position;
    double t;
};

// The closest one of edge 0, 1 or 2.
__device__ __forceinline__ EdgePoint
closest_on_edge(const Triangle& triangle, unsigned flags, unsigned edge, vec3<double> q) {
    vec3<float> low = edge == 0 ? triangle.a : edge == 1 ? triangle.b : triangle.c;
    vec3<float> high = edge == 0 ? triangle.b : edge == 1 ? triangle.c : triangle.a;
    if ((flags >> edge & 1) != 0) {
        vec3<float> other = low;
        low = high;
        high = other;
    }
    EdgePoint point;
    point.position = closest_on_segment(low, high, q, &point.t);
    return point;
}

// The edge that is nearest, for triangles that are hardly more than edges. Of equally near ones the
// one whose corner is nearest, as that is exact. (In f64, where no square vanishes.)
__device__ __forceinline__ unsigned
nearest_edge(const Triangle& triangle, unsigned flags, vec3<float> q) {
    const vec3<double> wide_q = exact::widen(q);
    unsigned found = 0;
    double least = 0.0;
#pragma unroll 1
    for (unsigned edge = 0; edge < 3; ++edge) {
        EdgePoint point = closest_on_edge(triangle, flags, edge, wide_q);
        double distance = exact::distance_squared(wide_q, exact::widen(point.position));
        bool is_corner = exact::equal(point.t, 0.0) || exact::equal(point.t, 1.0);
        if (edge == 0 || exact::less(distance, least) ||
            (is_corner && exact::equal(distance, least))) {
            found = edge;
            least = distance;
        }
    }
    return found;
}

} // namespace detail

// The point of the triangle that is closest to q, which is valid. Bit i of `flags` is set if edge i
// (a-b, b-c, c-a) runs from the vertex of the higher index in its mesh to the vertex of the lower: an edge is evaluated
// from the lower to the higher one, so that all faces that share it find the same bits there. (Without a mesh, 0.)
//
// f64 throughout, rounded once; the position lies in the triangle's box, so its distance is never
// less than `distance_squared` of a box that holds the triangle. Its distance to q is at most
// 4 eps (|q| + the diagonal of the box of triangle and q) above the least one, for triangles of
// any shape.
//
// The regions are Ericson's ("Real-Time Collision Detection", 5.1.5), found by other means: there the
// barycentric coordinates are differences of products of four lengths, which are noise for needles
// and for far points. With n = ab x ac they are ac . k, -ab . k and the rest of n . n, k = n x aq,
// whose error is that of moving q by some 2^-53 |aq| / h, where h is the height over the longest
// edge, relative to it. Where all are positive the point is inside. Otherwise it is on an edge that
// q sees, with a negative one; if it sees two, the dot products at the corner between them decide. Corners are ends of
// edges. Where h is below 2^-22 or so, the inside is that close to the edges: then all three are tried, which also
// serves triangles of no area, without a division by 0.
__device__ __forceinline__ TrianglePoint closest_point(const Triangle& triangle, unsigned flags,
                                                       vec3<float> q) {
    using namespace exact;
    vec3<double> a = exact::widen(triangle.a), wide_q = exact::widen(q);
    vec3<double> ab = exact::sub(exact::widen(triangle.b), a);
    vec3<double> ac = exact::sub(exact::widen(triangle.c), a), aq = exact::sub(wide_q, a);
    vec3<double> n = exact::cross(ab, ac);
    double n2 = exact::length_squared(n);
    double ab2 = exact::length_squared(ab), ac2 = exact::length_squared(ac), sum = add(ab2, ac2);

    TrianglePoint out;
    unsigned edge;
    if (less(mul(mul(sum, sum), 1.4210854715202004e-14), n2)) { // 2^-46
        vec3<double> k = exact::cross(n, aq);
        double v = exact::dot(ac, k), w = neg(exact::dot(ab, k)), u = sub(sub(n2, v), w);
        bool sees_ab = !less(0.0, w), sees_bc = !less(0.0, u), sees_ca = !less(0.0, v);
        // b and c themselves, which are seen from no edge but for the rounding.
        bool at_corner = exact::equal(q, triangle.b) || exact::equal(q, triangle.c);
        if (!sees_ab && !sees_bc && !sees_ca && !at_corner) {
            double inverse = div(1.0, n2);
            v = mul(v, inverse);
            w = mul(w, inverse);
            out.position = closest_point(
                bounds(triangle), exact::narrow(vec3<double>(fma(w, ac.x, fma(v, ab.x, a.x)),
                                                 fma(w, ac.y, fma(v, ab.y, a.y)),
                                                 fma(w, ac.z, fma(v, ab.z, a.z)))));
            out.distance_squared = exact::distance_squared(q, out.position);
            out.u = narrow(v);
            out.v = narrow(w);
            out.feature = 6;
            return out;
        }
        double along_ab = exact::dot(ab, aq), along_ac = exact::dot(ac, aq);
        bool on_ab = sees_ca ? less(0.0, along_ab) : !sees_bc || less(along_ab, ab2);
        bool on_ca = !sees_bc || less(along_ac, ac2);
        edge = sees_ab && on_ab ? 0 : sees_ca && on_ca ? 2 : 1;
    } else {
        edge = detail::nearest_edge(triangle, flags, q);
    }

    detail::EdgePoint point = detail::closest_on_edge(triangle, flags, edge, wide_q);
    out.position = point.position;
    out.distance_squared = exact::distance_squared(q, out.position);
    // As the face counts: from where its edge begins.
    bool turned = (flags >> edge & 1) != 0;
    unsigned next = edge == 2 ? 0 : edge + 1;
    out.feature = equal(point.t, 0.0)   ? (turned ? next : edge)
                  : equal(point.t, 1.0) ? (turned ? edge : next)
                                  : 3 + edge;
    float high = narrow(point.t), low = narrow(sub(1.0, point.t));
    float from = turned ? high : low, to = turned ? low : high;
    out.u = edge == 0 ? to : edge == 1 ? from : 0.0f;
    out.v = edge == 1 ? to : edge == 2 ? from : 0.0f;
    return out;
}

// Its distance alone; the same bits. In a loop that keeps the least, the rest costs nothing.
__device__ __forceinline__ float distance_squared(const Triangle& triangle, unsigned flags,
                                                  vec3<float> q) {
    return closest_point(triangle, flags, q).distance_squared;
}

// Whether the triangle and the ball around `center` have a point in common, by the distance and the
// square of the radius as rounded; touching is enough. False for a negative radius and for a NaN.
__device__ __forceinline__ bool overlaps(const Triangle& triangle, unsigned flags,
                                         vec3<float> center, float radius) {
    using namespace exact;
    return less_equal(0.0f, radius) &&
           less_equal(distance_squared(triangle, flags, center), mul(radius, radius));
}

} // namespace geom
