// The point of a triangle that is closest to a given one.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
#pragma once

#include <geom/mesh/triangle/types.cuh>

namespace geom {

// A point of a triangle.
struct TrianglePoint {
    vec3<float> position;
    // The dot product d . d of d = q - position, all rounded: `exact::distance_squared`.
    float distance_squared;
    // position is about (1 - u - v) a + u b + v c.
    float u, v;
    // 0, 1, 2: a corner; 3, 4, 5: within the edge a-b, b-c, c-a; 6: inside.
    unsigned feature;
};

namespace detail {

// The point of the segment from `low` to `high` that is closest to q; *t is 0 and 1 at its ends, which keep their
// bits. A segment without length is `low`.
//
// The point is in the segment's box: with u = 2^-53, t is at most 1 - u and the difference at most 1 + u times the
// exact one, so their product is less than the exact difference; and rounding is monotonic.
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

// The closest point of edge 0, 1 or 2.
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

// The nearest edge, for triangles that are hardly more than edges. Among equally near ones it is the one whose corner
// is nearest, as that distance is exact. (In f64, where no square vanishes.)
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

// The point of the triangle that is closest to q, which is valid. Bit i of `flags` is set if edge i (a-b, b-c, c-a)
// runs from the vertex of the higher index in its mesh to that of the lower: an edge is evaluated from the lower to
// the higher one, so that all faces that share it get the same bits there. (Without a mesh, 0.)
//
// Computed in f64 and rounded once. The position lies in the triangle's box, so its distance is never less than
// `distance_squared` of a box that contains the triangle. Its distance to q exceeds the least one by at most 4 eps
// (|q| + the diagonal of the box of triangle and q), for triangles of any shape.
//
// The regions are Ericson's ("Real-Time Collision Detection", 5.1.5), found by other means: there the barycentric
// coordinates are differences of products of four lengths, which are noise for needles and for far points. With n =
// ab x ac they are ac . k, -ab . k and the rest of n . n, k = n x aq, whose error is that of moving q by some 2^-53
// |aq| / h, where h is the height over the longest edge, relative to it. Where all are positive the point is inside.
// Otherwise it is on an edge with a negative coordinate; with two such edges, the dot products at the corner between
// them decide. Corners are ends of edges. If h is below about 2^-22, the inside is that close to the edges: then all
// three are tried, which also handles triangles of no area, without a division by 0.
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
        // A query at b or c is at no edge except by rounding.
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
    // The parameter is in the face's orientation, from the start of the edge.
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

// The distance only, with the same bits. In a loop that keeps the least, the rest costs nothing.
__device__ __forceinline__ float distance_squared(const Triangle& triangle, unsigned flags,
                                                  vec3<float> q) {
    return closest_point(triangle, flags, q).distance_squared;
}

// Whether the triangle and the ball around `center` have a point in common, by the rounded distance and the rounded
// square of the radius; touching is enough. False for a negative radius and for a NaN.
__device__ __forceinline__ bool overlaps(const Triangle& triangle, unsigned flags,
                                         vec3<float> center, float radius) {
    using namespace exact;
    return less_equal(0.0f, radius) &&
           less_equal(distance_squared(triangle, flags, center), mul(radius, radius));
}

} // namespace geom
