// Rays and triangles, watertight: Woop, Benthin, Wald, "Watertight Ray/Triangle Intersection", JCGT
// 2 (1), 2013, with ties resolved.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
//
// A ray maps every vertex to a point of the plane: the vertex less the origin, sheared so that the ray is an axis,
// all in f32, rounded. The mapping depends only on the vertex and the ray. From there on nothing is rounded: the ray
// hits the triangle of the three mapped points if these turn around the origin, and the sign of an edge,
// `perturbed_edge_side`, is opposite for the opposite edge. Proof that no ray passes through: the signs are those of
// a point next to the origin that lies on no edge. So of triangles that tile a part of the plane around it (a fan
// around a vertex, the two sides of an edge) exactly one is hit, wherever the ray is aimed; and the hits of a closed
// surface, counted by their sides, add up to 0. A triangle that maps to a line has no area, which is the sum of the
// three edge functions for every point, so these do not agree: a triangle edge-on is never hit.
#pragma once

#include <geom/math/ray.cuh>
#include <geom/mesh/triangle/types.cuh>

namespace geom {

// The data of a ray that its tests share; computed once per ray.
struct RayShear {
    vec3<float> origin;
    // The direction divided by its greatest component, which is `along`, in the two other axes.
    float shear_x, shear_y, along;
    // The axes that become x, y and z; they keep their handedness for positive `along`, and change
    // it with its sign, so that triangles do not change theirs.
    int x, y, z;
    // False if the direction is zero, or it or the origin is invalid: such a ray hits nothing.
    bool valid;

    RayShear() = default;
    // The direction need not be unit; its components are finite.
    __device__ __forceinline__ RayShear(vec3<float> origin, vec3<float> direction)
        : origin(origin) {
        float sizes[3] = {exact::abs(direction.x), exact::abs(direction.y),
                          exact::abs(direction.z)};
        z = exact::less(sizes[0], sizes[1]) ? 1 : 0;
        if (exact::less(z == 0 ? sizes[0] : sizes[1], sizes[2])) z = 2;
        x = z == 2 ? 0 : z + 1;
        y = x == 2 ? 0 : x + 1;
        along = direction[z];
        if (detail::is_negative(along)) {
            int other = x;
            x = y;
            y = other;
        }
        valid = is_valid(origin) && exact::is_finite(direction) && !exact::equal(along, 0.0f);
        shear_x = exact::div(direction[x], along);
        shear_y = exact::div(direction[y], along);
    }
    __device__ __forceinline__ explicit RayShear(const ray<float>& r)
        : RayShear(r.origin, r.direction) {}
};

// The hit of a ray on a triangle.
struct RayTriangle {
    // The point is origin + t direction, and about (1 - u - v) a + u b + v c.
    float t, u, v;
    // Whether the ray comes from the side to which the normal points: a, b, c turn counterclockwise as seen from its
    // origin.
    bool front;
};

namespace detail {

// The sheared point in the plane; *depth is its coordinate along the ray.
__device__ __forceinline__ vec2<float>
sheared(const RayShear& ray, vec3<float> point, float* depth) {
    vec3<float> d = exact::sub(point, ray.origin);
    *depth = d[ray.z];
    return vec2<float>(exact::fma(exact::neg(ray.shear_x), d[ray.z], d[ray.x]),
                       exact::fma(exact::neg(ray.shear_y), d[ray.z], d[ray.y]));
}

} // namespace detail

// Whether the ray hits the valid triangle at a finite t with t_min <= t <= t_max; *hit is written if it does. Both
// sides count.
//
// The test whether the ray's line hits is exact for the sheared points. t, u and v come from the same points in f64;
// their error is the rounding of the shear, about an eps of the vertices' distance to the origin (divided by the
// direction's length, or the triangle's size).
__device__ __forceinline__ bool intersect(const RayShear& ray, const Triangle& triangle,
                                          float t_min, float t_max, RayTriangle* hit) {
    using namespace exact;
    if (!ray.valid) return false;
    float depth_a, depth_b, depth_c;
    vec2<float> a = detail::sheared(ray, triangle.a, &depth_a);
    vec2<float> b = detail::sheared(ray, triangle.b, &depth_b);
    vec2<float> c = detail::sheared(ray, triangle.c, &depth_c);
    float at_a = detail::difference_of_products(b, c);
    float at_b = detail::difference_of_products(c, a);
    float at_c = detail::difference_of_products(a, b);
    if (less(min(min(abs(at_a), abs(at_b)), abs(at_c)), detail::edge_function_least())) {
        // There is a tie, or a number is too small to decide.
        int side = perturbed_edge_side(b, c);
        if (side == 0 || side != perturbed_edge_side(c, a) || side != perturbed_edge_side(a, b))
            return false;
    } else {
        int one = __float_as_int(at_a);
        if (((one ^ __float_as_int(at_b)) | (one ^ __float_as_int(at_c))) < 0) return false;
    }
    // The edge functions again, from exact products. They agree, and their sum is not 0.
    double of_a = detail::wide_difference_of_products(b, c);
    double of_b = detail::wide_difference_of_products(c, a);
    double of_c = detail::wide_difference_of_products(a, b);
    double area = add(add(of_a, of_b), of_c), along = widen(ray.along);
    double inverse = div(1.0, mul(area, along));
    double depth = fma(of_c, widen(depth_c), fma(of_b, widen(depth_b), mul(of_a, widen(depth_a))));
    float t = narrow(mul(depth, inverse));
    if (!less_equal(t_min, t) || !less_equal(t, t_max) || !is_finite(t)) return false;
    inverse = mul(inverse, along);
    hit->t = t;
    hit->u = narrow(abs(mul(of_b, inverse)));
    hit->v = narrow(abs(mul(of_c, inverse)));
    hit->front = less(area, 0.0);
    return true;
}

} // namespace geom
