// The adjoint of a ray's hit: of t, u and v in origin + t direction = (1 - u - v) a + u b + v c.
//
// With l the solution of (direction, -(b - a), -(c - a))^T l = (gradients of t, u and v), the implicit function
// theorem gives -l for the origin, -t l for the direction, and l times its weight for each corner.
//
// This holds inside the face: a gradient assumes that the ray still hits the same face, or none. Changes of
// visibility at an edge that moves have no gradient. The gradient of a grazing ray is as large as the derivative,
// without a bound; the subgradient is 0 for a ray in the plane of the face, and for a face without area. (No forward
// result hits those, except by rounding.)
#pragma once

#include <geom/math/adjoint.cuh>

namespace geom {

template <class T>
struct RayGradient {
    vec3<T> origin, direction;
    Corners3<T> corners;
};

// The shared data of the gradients of one hit.
struct RayHitRows {
    // The rows of the inverse times the determinant; and the inverse of the determinant.
    vec3<double> n, nu, nv;
    double inverse;
    // The vector from corner a to the origin.
    vec3<double> ao;

    template <class T>
    __device__ __forceinline__ RayHitRows(const Corners3<T>& corners, vec3<T> origin, vec3<T> direction) {
        using namespace exact;
        const vec3<double> a = adjoint::wide(corners.a), d = adjoint::wide(direction);
        const vec3<double> ab = exact::sub(adjoint::wide(corners.b), a);
        const vec3<double> ac = exact::sub(adjoint::wide(corners.c), a);
        ao = exact::sub(adjoint::wide(origin), a);
        n = exact::cross(ab, ac), nu = exact::cross(ac, d), nv = exact::cross(d, ab);
        inverse = div(1.0, exact::dot(n, d));
    }

    // Whether there is a gradient other than 0.
    __device__ __forceinline__ bool is_finite() const { return exact::is_finite(inverse); }

    __device__ __forceinline__ double t() const { return exact::neg(exact::mul(exact::dot(n, ao), inverse)); }
    __device__ __forceinline__ double u() const { return exact::mul(exact::dot(nu, ao), inverse); }
    __device__ __forceinline__ double v() const { return exact::mul(exact::dot(nv, ao), inverse); }
};

template <class T>
__device__ __forceinline__ RayGradient<T> ray_hit_adjoint(const Corners3<T>& corners, vec3<T> origin,
                                                          vec3<T> direction, T g_t, T g_u, T g_v) {
    using namespace exact;
    const RayHitRows rows(corners, origin, direction);
    if (!rows.is_finite()) {
        const vec3<T> none(T(0));
        return {none, none, {none, none, none}};
    }
    const double t = rows.t(), u = rows.u(), v = rows.v();
    vec3<double> l = exact::mul(rows.n, widen(g_t));
    l = adjoint::plus_times(l, neg(widen(g_u)), rows.nu);
    l = adjoint::plus_times(l, neg(widen(g_v)), rows.nv);
    l = exact::mul(l, rows.inverse);
    const auto times = [&](double weight) { return adjoint::rounded<T>(exact::mul(l, weight)); };
    return {times(-1.0), times(neg(t)), {times(sub(sub(1.0, u), v)), times(u), times(v)}};
}

} // namespace geom
