// Adjoints of a mesh's positions, attributes and normals at a point of a face.
#pragma once

#include <geom/math/adjoint.cuh>
#include <geom/math/angle.cuh>

namespace geom {

// The adjoint of (1 - u - v) a + u b + v c for numbers a, b, c: one attribute of vertices.
template <class T>
struct AttributeGradient {
    T a, b, c;
    T u, v;
};

template <class T>
__device__ __forceinline__ AttributeGradient<T> attribute_at_adjoint(T a, T b, T c, T u, T v, T g) {
    using namespace exact;
    const double of_a = widen(a), wide_u = widen(u), wide_v = widen(v), wide_g = widen(g);
    const auto times = [&](double x) { return adjoint::rounded<T>(mul(wide_g, x)); };
    return {times(sub(sub(1.0, wide_u), wide_v)), times(wide_u), times(wide_v), times(sub(widen(b), of_a)),
            times(sub(widen(c), of_a))};
}

// The same for vectors: positions, and attributes of three numbers.
template <class T>
struct PositionGradient {
    Corners3<T> corners;
    T u, v;
};

template <class T>
__device__ __forceinline__ PositionGradient<T> position_at_adjoint(const Corners3<T>& corners, T u, T v,
                                                                   vec3<T> g) {
    using namespace exact;
    const vec3<double> a = adjoint::wide(corners.a), wide_g = adjoint::wide(g);
    const double wide_u = widen(u), wide_v = widen(v);
    const auto times = [&](double weight) { return adjoint::rounded<T>(exact::mul(wide_g, weight)); };
    const auto along = [&](vec3<T> to) {
        return adjoint::rounded<T>(exact::dot(wide_g, exact::sub(adjoint::wide(to), a)));
    };
    return {{times(sub(sub(1.0, wide_u), wide_v)), times(wide_u), times(wide_v)},
            along(corners.b),
            along(corners.c)};
}

namespace adjoint {

// The gradients of the corners for those of b - a and c - a.
template <class T>
__device__ __forceinline__ Corners3<T> of_sides(vec3<double> g_ab, vec3<double> g_ac) {
    return {rounded<T>(exact::mul(exact::add(g_ab, g_ac), -1.0)), rounded<T>(g_ab), rounded<T>(g_ac)};
}

} // namespace adjoint

// The adjoint of the vector (b - a) x (c - a), whose length is twice the area.
template <class T>
__device__ __forceinline__ Corners3<T> area_vector_adjoint(const Corners3<T>& corners, vec3<T> g) {
    const vec3<double> a = adjoint::wide(corners.a), wide_g = adjoint::wide(g);
    const vec3<double> ab = exact::sub(adjoint::wide(corners.b), a);
    const vec3<double> ac = exact::sub(adjoint::wide(corners.c), a);
    return adjoint::of_sides<T>(exact::cross(ac, wide_g), exact::cross(wide_g, ab));
}

// The adjoint of the unit normal. The subgradient of a face without area is 0.
template <class T>
__device__ __forceinline__ Corners3<T> face_normal_adjoint(const Corners3<T>& corners, vec3<T> g) {
    const vec3<double> a = adjoint::wide(corners.a);
    const vec3<double> ab = exact::sub(adjoint::wide(corners.b), a);
    const vec3<double> ac = exact::sub(adjoint::wide(corners.c), a);
    const vec3<double> g_n = adjoint::of_unit(exact::cross(ab, ac), adjoint::wide(g));
    return adjoint::of_sides<T>(exact::cross(ac, g_n), exact::cross(g_n, ab));
}

// The normal of a vertex is the unit vector of a sum over its faces (`NormalSum` of mesh/topology.cuh), each the
// face's unit normal times its angle there. Its adjoint has two steps: from the vertex's normal to the sum, and from
// the sum to the corners of each face.
//
// The subgradient is 0 where the sum cancels, so that the normal is 0.
template <class T>
__device__ __forceinline__ vec3<T> vertex_normal_adjoint(vec3<double> sum, double angles, vec3<T> g) {
    using namespace exact;
    // The condition is that of `NormalSum::unit`.
    if (less_equal(exact::length(sum), mul(angles, 1.4210854715202004e-14))) return vec3<T>(T(0)); // 2^-46
    return adjoint::rounded<T>(adjoint::of_unit(sum, adjoint::wide(g)));
}

// The adjoint of a face's summand at the vertex of its first corner; for another corner, rotate the corners. A face
// without area adds nothing, and has gradient 0.
template <class T>
__device__ __forceinline__ Corners3<T> corner_normal_adjoint(const Corners3<T>& corners, vec3<T> g) {
    using namespace exact;
    const vec3<double> a = adjoint::wide(corners.a), wide_g = adjoint::wide(g);
    const vec3<double> ab = exact::sub(adjoint::wide(corners.b), a);
    const vec3<double> ac = exact::sub(adjoint::wide(corners.c), a);
    const vec3<double> area = exact::cross(ab, ac);
    const double length = exact::length(area);
    if (!less(0.0, length)) return adjoint::of_sides<T>(vec3<double>(0.0), vec3<double>(0.0));
    const double angle = exact::atan2(length, exact::dot(ab, ac));
    const vec3<double> normal = exact::mul(area, div(1.0, length));
    const vec3<double> g_area = adjoint::of_unit(area, exact::mul(wide_g, angle));
    const double g_angle = exact::dot(wide_g, normal);
    // The angle grows as a side turns away from the other one, by the inverse of its length.
    const auto turned = [&](vec3<double> side, double by) {
        return exact::mul(exact::cross(normal, side), div(by, exact::length_squared(side)));
    };
    return adjoint::of_sides<T>(exact::add(exact::cross(ac, g_area), turned(ab, neg(g_angle))),
                                exact::add(exact::cross(g_area, ab), turned(ac, g_angle)));
}

} // namespace geom
