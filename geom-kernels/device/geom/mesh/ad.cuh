// Differentiable results of queries of meshes, for generated adjoints: see geom/math/ad.cuh.
//
// The derivatives are those of mesh/adjoint/closest.cuh and mesh/adjoint/rays.cuh, including subgradients: the
// numbers below are linear in the query and in the face's corners, with constant factors. The factors come from the
// corners that the search has read. So they fit the result, and the adjoint does not read the mesh's points.
#pragma once

#include <geom/math/ad.cuh>
#include <geom/mesh/adjoint/closest.cuh>
#include <geom/mesh/adjoint/rays.cuh>
#include <geom/mesh/evaluate.cuh>

namespace geom {
namespace mesh {

// The corners of a triangle as constants.
__device__ __forceinline__ Corners3<float> constant_corners(const Triangle& t) {
    return {ad::stop(t.a), ad::stop(t.b), ad::stop(t.c)};
}

// The corners of a face, as numbers with gradients.
__device__ __forceinline__ Triangle moving_face(const Mesh& mesh, unsigned face) {
    Triangle triangle;
    if (!face_triangle(mesh, face, &triangle)) triangle = {vec3<float>(0.0f), vec3<float>(0.0f), vec3<float>(0.0f)};
    return triangle;
}

// The weighted sum of three corners.
__device__ __forceinline__ vec3<double> at_weights(const Triangle& t, double u, double v) {
    using namespace exact;
    const double w = sub(sub(1.0, u), v);
    const vec3<double> a = exact::widen(t.a), b = exact::widen(t.b), c = exact::widen(t.c);
    const auto sum = [&](double x, double y, double z) { return ad::plus(ad::plus(mul(x, w), y, u), z, v); };
    return vec3<double>(sum(a.x, b.x, c.x), sum(a.y, b.y, c.y), sum(a.z, b.z, c.z));
}

// A closest point with a differentiable query and corners.
class MovingPoint : ClosestAdjoint<float> {
public:
    // `corners`: constant corners; `moving`: the same with gradients.
    __device__ __forceinline__ MovingPoint(const Triangle& corners, vec3<float> q, unsigned feature,
                                           const Triangle& moving)
        : ClosestAdjoint<float>(constant_corners(corners), ad::stop(q), feature), moving(moving) {
        using namespace exact;
        apart = exact::sub(exact::widen(q), at_weights(moving, u, v));
        const vec3<double> a = exact::widen(moving.a);
        const double along_b = ad::weighted(away, exact::sub(exact::widen(moving.b), a));
        const double along_c = ad::weighted(away, exact::sub(exact::widen(moving.c), a));
        const double uv = exact::dot(du, dv);
        moving_u = ad::plus(ad::plus(ad::weighted(du, apart), along_b, exact::length_squared(du)), along_c, uv);
        moving_v = ad::plus(ad::plus(ad::weighted(dv, apart), along_b, uv), along_c, exact::length_squared(dv));
    }

    // `Point`: a `ClosestPoint` or a `TrianglePoint`.
    template <class Point>
    __device__ __forceinline__ Point point(Point found) const {
        const vec3<double> weights = at_weights(moving, u, v);
        const auto sum = [&](double x, double b, double c) { return ad::plus(ad::plus(x, moving_u, b), moving_v, c); };
        const vec3<double> p(sum(weights.x, ab.x, ac.x), sum(weights.y, ab.y, ac.y), sum(weights.z, ab.z, ac.z));
        found.position = ad::with_derivative_of(found.position, p);
        found.u = ad::with_derivative_of(found.u, moving_u);
        found.v = ad::with_derivative_of(found.v, moving_v);
        const double square = ad::weighted(exact::add(away, away), apart);
        found.distance_squared = ad::with_derivative_of(found.distance_squared, square);
        return found;
    }

    __device__ __forceinline__ float signed_distance(float value) const {
        return ad::with_derivative_of(value, ad::weighted(outwards(value), apart));
    }

private:
    Triangle moving;
    // q - p with constant weights; and u and v.
    vec3<double> apart;
    double moving_u, moving_v;
};

// Sets the constants: the result of a search.
template <class Point>
__device__ __forceinline__ Point stopped_point(Point found) {
    found.position = ad::stop(found.position);
    found.distance_squared = ad::stop(found.distance_squared);
    found.u = ad::stop(found.u);
    found.v = ad::stop(found.v);
    return found;
}

// A result of a mesh, or `no_index`, on the face with these corners.
template <class Point>
__device__ __forceinline__ Point
with_gradient(const Mesh& mesh, vec3<float> q, const Triangle& corners, Point found) {
    found = stopped_point(found);
    if (found.face == no_index) return found;
    return MovingPoint(corners, q, found.feature, moving_face(mesh, found.face)).point(found);
}

// The hit of a ray on the face with these corners, or none.
template <class Hit>
__device__ __forceinline__ Hit with_gradient(const Mesh& mesh, vec3<float> origin, vec3<float> direction,
                                             const Triangle& corners, Hit found) {
    found.t = ad::stop(found.t), found.u = ad::stop(found.u), found.v = ad::stop(found.v);
    if (found.face == no_index) return found;
    const RayHitRows rows(constant_corners(corners), ad::stop(origin), ad::stop(direction));
    if (!rows.is_finite()) return found;
    // The vector from the point of the face to that of the ray, with constant weights.
    const vec3<double> o = exact::widen(origin), d = exact::widen(direction);
    const double t = rows.t(), u = rows.u(), v = rows.v();
    const vec3<double> on_ray(ad::plus(o.x, d.x, t), ad::plus(o.y, d.y, t), ad::plus(o.z, d.z, t));
    const vec3<double> apart = exact::sub(on_ray, at_weights(moving_face(mesh, found.face), u, v));
    const auto along = [&](const vec3<double>& row, double by) {
        return ad::weighted(exact::mul(row, exact::mul(by, rows.inverse)), apart);
    };
    found.t = ad::with_derivative_of(found.t, along(rows.n, -1.0));
    found.u = ad::with_derivative_of(found.u, along(rows.nu, 1.0));
    found.v = ad::with_derivative_of(found.v, along(rows.nv, 1.0));
    return found;
}

} // namespace mesh
} // namespace geom
