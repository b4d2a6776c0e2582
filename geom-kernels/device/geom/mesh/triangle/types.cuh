// Triangles and barycentric coordinates.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/math/box.cuh>
#include <geom/math/predicates.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {

// Three corners, which may coincide or be collinear. The statements about triangles below hold for triangles that are
// `is_valid`.
struct Triangle {
    vec3<float> a, b, c;
};

// Whether the coordinates are numbers of at most 2^60 in magnitude, so that no square overflows.
__device__ __forceinline__ bool is_valid(vec3<float> p) {
    using namespace exact;
    // The comparisons do not use `max`, which ignores a NaN.
    const float most = 1152921504606846976.0f;
    return less_equal(abs(p.x), most) && less_equal(abs(p.y), most) && less_equal(abs(p.z), most);
}
__device__ __forceinline__ bool is_valid(const Triangle& t) {
    return is_valid(t.a) && is_valid(t.b) && is_valid(t.c);
}

// The smallest box with the triangle in it.
__device__ __forceinline__ aabb<float> bounds(const Triangle& t) {
    return aabb<float>(exact::min(exact::min(t.a, t.b), t.c),
                       exact::max(exact::max(t.a, t.b), t.c));
}

// The point (1 - u - v) a + u b + v c, in f64, rounded once more. The corners keep their bits.
__device__ __forceinline__ vec3<float> at(const Triangle& t, float u, float v) {
    using namespace exact;
    double b = widen(u), c = widen(v), a = sub(sub(1.0, b), c);
    vec3<double> p = exact::mul(exact::widen(t.a), a);
    vec3<double> q = exact::widen(t.b), r = exact::widen(t.c);
    return exact::narrow(vec3<double>(fma(c, r.x, fma(b, q.x, p.x)), fma(c, r.y, fma(b, q.y, p.y)),
                                       fma(c, r.z, fma(b, q.z, p.z))));
}

// (a - c) x (b - c) of coordinates that are f32: to 2^-31 of it, and 0 only if it is 0. If rounding leaves fewer
// correct bits, it is computed without rounding; see `orient2d`.
__device__ __forceinline__ double
area_component(double ax, double ay, double bx, double by, double cx, double cy) {
    using namespace exact;
    double left = mul(sub(ax, cx), sub(by, cy)), right = mul(sub(ay, cy), sub(bx, cx));
    double value = sub(left, right), size = add(abs(left), abs(right));
    if (less_equal(mul(size, 9.5367431640625e-7), abs(value))) return value; // 2^-20
    return detail::orient2d_exact(ax, ay, bx, by, cx, cy);
}

// The vector (b - a) x (c - a) along the normal, whose length is twice the area. 0 if and only if the area is 0.
__device__ __forceinline__ vec3<double> area_vector(const Triangle& t) {
#ifdef GEOM_AD
    // The value is exact, and the derivative that of the plain product.
    const vec3<double> from = exact::widen(t.a);
    const vec3<double> product = exact::cross(exact::sub(exact::widen(t.b), from), exact::sub(exact::widen(t.c), from));
    const vec3<double> a = ad::stop(from), b = ad::stop(exact::widen(t.b)), c = ad::stop(exact::widen(t.c));
    return vec3<double>(ad::rule(area_component(a.y, a.z, b.y, b.z, c.y, c.z), product.x, 1.0),
                        ad::rule(area_component(a.z, a.x, b.z, b.x, c.z, c.x), product.y, 1.0),
                        ad::rule(area_component(a.x, a.y, b.x, b.y, c.x, c.y), product.z, 1.0));
#else
    const vec3<double> a = exact::widen(t.a), b = exact::widen(t.b), c = exact::widen(t.c);
    return vec3<double>(area_component(a.y, a.z, b.y, b.z, c.y, c.z),
                        area_component(a.z, a.x, b.z, b.x, c.z, c.x),
                        area_component(a.x, a.y, b.x, b.y, c.x, c.y));
#endif
}

// The unit normal: a, b, c turn counterclockwise as seen from its tip. Each component is right to an ulp however thin
// the triangle is; the zero vector if and only if the area is 0.
__device__ __forceinline__ vec3<float> normal(const Triangle& t) {
    using namespace exact;
    const vec3<double> n = area_vector(t);
    const double length = exact::length(n);
    if (equal(length, 0.0)) return vec3<float>(0.0f);
    const double inverse = div(1.0, length);
    return exact::narrow(exact::mul(n, inverse));
}

} // namespace geom
