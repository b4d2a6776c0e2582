// Rays, and whether they meet a box.
//
// All of this but `at` is written in exact arithmetic (exact.cuh): no bit depends on a program's
// options.
#pragma once

#include <geom/math/box.cuh>

namespace geom {

namespace detail {

// The smallest normal number; the largest finite one; the factor of `enters`, 1 - 4 u.
__device__ __forceinline__ float tiny(float) { return __uint_as_float(0x00800000u); }
__device__ __forceinline__ double tiny(double) {
    return __longlong_as_double(0x0010000000000000ll);
}
__device__ __forceinline__ float largest(float) { return __uint_as_float(0x7f7fffffu); }
__device__ __forceinline__ double largest(double) {
    return __longlong_as_double(0x7fefffffffffffffll);
}
__device__ __forceinline__ float slack(float) { return __uint_as_float(0x3f7ffffcu); }
__device__ __forceinline__ double slack(double) {
    return __longlong_as_double(0x3feffffffffffffcll);
}
__device__ __forceinline__ bool is_negative(float a) { return __float_as_int(a) < 0; }
__device__ __forceinline__ bool is_negative(double a) { return __double_as_longlong(a) < 0; }

// 1 / d, correctly rounded; infinite, with d's sign, for 0 and for subnormal numbers.
GEOM_EXACT_FN T reciprocal(T d) {
    if (exact::less(exact::abs(d), tiny(d))) d = is_negative(d) ? exact::neg(T(0)) : T(0);
    return exact::div(T(1), d);
}

} // namespace detail

// The points origin + t * direction for t from t_min to t_max, 0 <= t_min <= t_max. An infinite t_max counts as the
// largest finite number, so that nothing is met at infinity. The direction need not be unit. Subnormal components
// count as 0; others are at most 2^126 in magnitude (f64: 2^1022).
template <class T>
struct ray {
    using element = T;
    vec3<T> origin, direction;
    // 1 / direction, infinite where that is 0.
    vec3<T> inverse;
    T t_min, t_max;

    ray() = default;
    __device__ __forceinline__ ray(vec3<T> origin, vec3<T> direction, T t_min, T t_max)
        : origin(origin), direction(direction),
          inverse(detail::reciprocal(direction.x), detail::reciprocal(direction.y),
                  detail::reciprocal(direction.z)),
          t_min(t_min), t_max(exact::min(t_max, detail::largest(t_max))) {}
    // Creates a ray from t = 0 without an end.
    __device__ __forceinline__ ray(vec3<T> origin, vec3<T> direction)
        : ray(origin, direction, T(0), T(exact::infinity())) {}
};

// The point at t; with the program's options.
GEOM_EXACT_FN vec3<T> at(const ray<T>& r, T t) { return r.origin + r.direction * t; }

namespace detail {

// The t at which the ray crosses the planes of one axis: not later than it enters, not earlier than it leaves, up to
// the error of the difference and of the inverse.
template <class T>
__device__ __forceinline__ void slab(T lower, T upper, T origin, T inverse, T* enter, T* leave) {
    bool back = is_negative(inverse);
    *enter = exact::mul_down(exact::sub(back ? upper : lower, origin), inverse);
    *leave = exact::mul_up(exact::sub(back ? lower : upper, origin), inverse);
}

} // namespace detail

// Whether the ray meets the box; *enter is then not later than the first t where it does, and not before t_min: a hit
// nearer than *enter is nearer than all points of the box. Conservative: it may report a touch where the ray passes
// within some ulp, and never misses one.
//
// Each plane's t has two relative errors of at most u = 2^-24 (f64: 2^-53), of the difference and of the inverse; the
// product is rounded away from the box. So a true hit, whose t are not negative, has in <= t (1 + u)^2 and out >= t
// (1 - u)^2, and (1 + u)^2 (1 - 4 u) < (1 - u)^2: `in` is multiplied by 1 - 4 u, downwards. The bound is from Ize,
// "Robust BVH Ray Traversal", JCGT 2 (2), 2013; directed rounding makes it hold where products underflow too. Planes
// are chosen by the direction's sign, not by order. A product 0 * infinity, of a ray within a plane, is a NaN, which
// min and max ignore: such a ray meets the box. So a NaN bound does not bound the box, and a ray of NaN meets all
// boxes; `empty()` is never met.
GEOM_EXACT_FN bool enters(const ray<T>& r, const aabb<T>& b, T* enter) {
    using namespace exact;
    vec3<T> in, out;
    detail::slab(b.lower.x, b.upper.x, r.origin.x, r.inverse.x, &in.x, &out.x);
    detail::slab(b.lower.y, b.upper.y, r.origin.y, r.inverse.y, &in.y, &out.y);
    detail::slab(b.lower.z, b.upper.z, r.origin.z, r.inverse.z, &in.z, &out.z);
    *enter = max(mul_down(max(max(in.x, in.y), in.z), detail::slack(T(0))), r.t_min);
    return less_equal(*enter, min(min(out.x, out.y), min(out.z, r.t_max)));
}
GEOM_EXACT_FN bool overlaps(const ray<T>& r, const aabb<T>& b) {
    T enter;
    return enters(r, b, &enter);
}

} // namespace geom
