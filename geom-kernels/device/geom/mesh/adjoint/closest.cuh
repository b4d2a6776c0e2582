// Adjoints of the closest point of a triangle, and of the distance to it.
//
// The closest point is p = (1 - u - v) a + u b + v c, where u and v depend on the query q and on all corners
// according to the feature: constant at a corner, the projection to a line within an edge, that to a plane inside.
// With Du and Dv the gradients of u and v along q, and P the projection to the feature's directions, the gradients g
// of p and gu, gv of u, v give
//
//     s = P g + gu Du + gv Dv                                    for q,
//     w (g - s) + (Dw . s) (q - p)                               for the corner of weight w,
//
// by differentiation of the normal equations; Dw = Du, Dv, -(Du + Dv). This holds for all features.
//
// The distance needs none of that: it is a minimum, so it changes as if u and v were constant (the envelope theorem;
// J. Danskin, "The Theory of Max-Min", 1967).
//
// Subgradients:
// - Distance 0, as the forward found it: the unsigned distance has gradient 0, the signed one the gradient of the
//   distance to the face's plane: its unit normal, which is 0 for a face without area. The square of the distance is
//   smooth.
// - Where faces or features tie, the gradient of those in the result.
// - A face that is no thicker than 2^-23 of its sides counts as its longest edge, and an edge without length as its
//   first corner, whatever the feature says. Forward results already have such features.
#pragma once

#include <geom/math/adjoint.cuh>
#include <geom/mesh/types.cuh>

namespace geom {

// The gradients of a query and of the corners of the face that is its result.
template <class T>
struct ClosestGradient {
    vec3<T> q;
    Corners3<T> corners;
};

// The shared data of the adjoints of one result.
template <class T>
class ClosestAdjoint {
public:
    // `feature`: as in `ClosestPoint` or `TrianglePoint`.
    __device__ __forceinline__ ClosestAdjoint(const Corners3<T>& corners, vec3<T> q, unsigned feature)
        : ab(exact::sub(adjoint::wide(corners.b), adjoint::wide(corners.a))),
          ac(exact::sub(adjoint::wide(corners.c), adjoint::wide(corners.a))) {
        const vec3<double> aq = exact::sub(adjoint::wide(q), adjoint::wide(corners.a));
        bool clamped = false;
        if (feature >= feature_face) {
            if (set_face(aq)) return;
            feature = feature_edge + longest();
            clamped = true;
        }
        if (feature >= feature_edge)
            set_edge(aq, feature - feature_edge, clamped);
        else
            set_vertex(aq, feature);
    }

    // Returns the gradients for those of the position and of u and v.
    __device__ __forceinline__ ClosestGradient<T> point(vec3<T> g, T g_u = T(0), T g_v = T(0)) const {
        using namespace exact;
        const vec3<double> g_p = adjoint::wide(g);
        const double on_axis = mul(axis_part, exact::dot(axis, g_p));
        vec3<double> s = adjoint::plus_times(exact::mul(g_p, own_part), on_axis, axis);
        s = adjoint::plus_times(s, widen(g_u), du);
        s = adjoint::plus_times(s, widen(g_v), dv);
        const vec3<double> rest = exact::sub(g_p, s);
        const double along_b = exact::dot(du, s), along_c = exact::dot(dv, s);
        const auto corner = [&](double weight, double along) {
            return adjoint::rounded<T>(adjoint::plus_times(exact::mul(rest, weight), along, away));
        };
        return {adjoint::rounded<T>(s),
                {corner(weight_a(), neg(add(along_b, along_c))), corner(u, along_b), corner(v, along_c)}};
    }

    // Returns the gradients for that of the distance, whose value was `value`.
    __device__ __forceinline__ ClosestGradient<T> distance(T value, T g) const {
        return moved(exact::equal(value, T(0)) ? vec3<double>(0.0) : unit(away), g);
    }

    // Returns the gradients for that of the squared distance.
    __device__ __forceinline__ ClosestGradient<T> distance_squared(T g) const {
        return moved(exact::add(away, away), g);
    }

    // Returns the gradients for that of the signed distance, whose value was `value`.
    __device__ __forceinline__ ClosestGradient<T> signed_distance(T value, T g) const {
        return moved(outwards(value), g);
    }

protected:
    vec3<double> ab, ac;
    // q - p, and the weights of b and c.
    vec3<double> away;
    double u, v;
    // The gradients of u and v along q.
    vec3<double> du, dv;
    // P g = own_part g + axis_part (axis . g) axis.
    vec3<double> axis;
    double own_part, axis_part;

    __device__ __forceinline__ double weight_a() const { return exact::sub(exact::sub(1.0, u), v); }

    static __device__ __forceinline__ vec3<double> unit(vec3<double> a) {
        const double length = exact::length(a);
        if (!exact::less(0.0, length)) return vec3<double>(0.0);
        return vec3<double>(exact::div(a.x, length), exact::div(a.y, length), exact::div(a.z, length));
    }

    // The gradient of a signed distance along q.
    __device__ __forceinline__ vec3<double> outwards(T value) const {
        vec3<double> along = unit(away);
        if (exact::equal(value, T(0)) || exact::equal(along, vec3<double>(0.0)))
            along = unit(exact::cross(ab, ac));
        else if (exact::less(value, T(0)))
            along = exact::mul(along, -1.0);
        return along;
    }

    // The gradients g times the direction for q, and the opposite for p.
    __device__ __forceinline__ ClosestGradient<T> moved(vec3<double> along, T g) const {
        const vec3<double> s = exact::mul(along, exact::widen(g)), back = exact::mul(s, -1.0);
        const auto corner = [&](double weight) { return adjoint::rounded<T>(exact::mul(back, weight)); };
        return {adjoint::rounded<T>(s), {corner(weight_a()), corner(u), corner(v)}};
    }

    // The vector from corner a to `corner`.
    __device__ __forceinline__ vec3<double> from_a(unsigned corner) const {
        return corner == 0 ? vec3<double>(0.0) : corner == 1 ? ab : ac;
    }

    // The index of the longest edge: 0, 1, 2 for a-b, b-c, c-a.
    __device__ __forceinline__ unsigned longest() const {
        using namespace exact;
        const double l0 = exact::length_squared(ab), l1 = exact::length_squared(exact::sub(ac, ab)),
                     l2 = exact::length_squared(ac);
        return !less(l0, l1) && !less(l0, l2) ? 0 : !less(l1, l2) ? 1 : 2;
    }

    __device__ __forceinline__ void set_vertex(vec3<double> aq, unsigned corner) {
        away = exact::sub(aq, from_a(corner));
        u = corner == 1 ? 1.0 : 0.0;
        v = corner == 2 ? 1.0 : 0.0;
        du = dv = axis = vec3<double>(0.0);
        own_part = axis_part = 0.0;
    }

    __device__ __forceinline__ void set_edge(vec3<double> aq, unsigned edge, bool clamped) {
        using namespace exact;
        const unsigned next = edge == 2 ? 0 : edge + 1;
        const vec3<double> from = from_a(edge), along = exact::sub(from_a(next), from);
        const vec3<double> p = exact::sub(aq, from);
        const double squared = exact::length_squared(along), inverse = div(1.0, squared);
        if (!less(0.0, squared) || !is_finite(inverse)) return set_vertex(aq, edge);
        const double t = div(exact::dot(p, along), squared);
        if (clamped && !less(0.0, t)) return set_vertex(aq, edge);
        if (clamped && !less(t, 1.0)) return set_vertex(aq, next);
        const double rest = sub(1.0, t);
        away = adjoint::plus_times(p, neg(t), along);
        u = edge == 0 ? t : edge == 1 ? rest : 0.0;
        v = edge == 1 ? t : edge == 2 ? rest : 0.0;
        const vec3<double> dt = exact::mul(along, inverse), none(0.0), back = exact::mul(dt, -1.0);
        du = edge == 0 ? dt : edge == 1 ? back : none;
        dv = edge == 1 ? dt : edge == 2 ? back : none;
        axis = unit(along);
        own_part = 0.0;
        axis_part = 1.0;
    }

    // Returns false if the face is too thin by the measure of `closest_point`.
    __device__ __forceinline__ bool set_face(vec3<double> aq) {
        using namespace exact;
        const vec3<double> n = exact::cross(ab, ac);
        const double n2 = exact::length_squared(n), inverse = div(1.0, n2);
        const double sum = add(exact::length_squared(ab), exact::length_squared(ac));
        if (!less(mul(mul(sum, sum), 1.4210854715202004e-14), n2) || !is_finite(inverse)) return false; // 2^-46
        du = exact::mul(exact::cross(ac, n), inverse);
        dv = exact::mul(exact::cross(n, ab), inverse);
        u = exact::dot(du, aq);
        v = exact::dot(dv, aq);
        axis = unit(n);
        // The projection is more accurate than q - p, a small difference of much larger numbers.
        away = exact::mul(axis, exact::dot(axis, aq));
        own_part = 1.0;
        axis_part = -1.0;
        return true;
    }
};

} // namespace geom
