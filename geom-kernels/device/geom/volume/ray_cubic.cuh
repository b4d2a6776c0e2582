// The trilinear field of a cell along an interval of a ray: a cubic, by its Bernstein coefficients.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
//
// The field is linear in each coordinate, so it is the polar form of the cubic: the coefficients for the interval
// from a to b are means of the field's values at the corners of the box between a and b (L. Ramshaw, "Blossoms are
// polar forms", 1989). Each of those lies between values of the cell's corners. So nothing cancels: the error of a
// coefficient is at most some 8 u of the largest corner (u = 2^-53), the cubic stays between its coefficients, and
// its mean is theirs.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {
namespace volume {

__device__ __forceinline__ double lerp(double a, double b, double t) {
    return exact::fma(t, exact::sub(b, a), a);
}

// A cubic on [0, 1].
struct RayCubic {
    double b0, b1, b2, b3;

    RayCubic() = default;
    // The field of a cell with these corners (x slowest) from a to b, which lie in [0, 1]^3.
    __device__ __forceinline__ RayCubic(const double (&corners)[8], vec3<double> a, vec3<double> b) {
        // The values at a and b in z, then in y, then in x: `f` again has x as the slowest index.
        double f[8];
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            f[i] = lerp(corners[i], corners[i + 1], a.z);
            f[i + 1] = lerp(corners[i], corners[i + 1], b.z);
        }
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            if ((i & 2) != 0) continue;
            const double low = f[i], high = f[i + 2];
            f[i] = lerp(low, high, a.y);
            f[i + 2] = lerp(low, high, b.y);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const double low = f[i], high = f[i + 4];
            f[i] = lerp(low, high, a.x);
            f[i + 4] = lerp(low, high, b.x);
        }
        using namespace exact;
        const double third = 1.0 / 3.0;
        b0 = f[0];
        b1 = mul(add(add(f[1], f[2]), f[4]), third);
        b2 = mul(add(add(f[3], f[5]), f[6]), third);
        b3 = f[7];
    }

    // The value and the derivative, by de Casteljau's algorithm.
    __device__ __forceinline__ double at(double s, double* derivative) const {
        const double c0 = lerp(b0, b1, s), c1 = lerp(b1, b2, s), c2 = lerp(b2, b3, s);
        const double d0 = lerp(c0, c1, s), d1 = lerp(c1, c2, s);
        *derivative = exact::mul(3.0, exact::sub(d1, d0));
        return lerp(d0, d1, s);
    }
    __device__ __forceinline__ double mean() const {
        return exact::mul(0.25, exact::add(exact::add(b0, b3), exact::add(b1, b2)));
    }
};

namespace detail {

// The root between `low`, which is on the side `inside` (below 0), and `high`, which is not; the cubic is monotonic
// between them, up to rounding. By Newton's method, with bisection where a step is more than half as long as the last
// but one.
__device__ inline double bracketed_root(const RayCubic& f, bool inside, double low, double high) {
    using namespace exact;
    double step = sub(high, low), last_step = step;
    double s = fma(0.5, step, low);
    for (int i = 0; i < 200; ++i) {
        double slope;
        const double value = f.at(s, &slope);
        if (less(value, 0.0) == inside) {
            low = s;
        } else {
            high = s;
        }
        const double newton = div(value, slope), there = sub(s, newton);
        // The comparisons are false for a NaN.
        const bool near = less_equal(low, there) && less_equal(there, high) &&
                          less_equal(abs(add(newton, newton)), abs(last_step));
        last_step = step;
        step = near ? newton : mul(0.5, sub(high, low));
        s = near ? there : add(low, step);
        // The tolerance is 2^-51 of s, or 2^-100.
        if (less_equal(abs(step), max(mul(s, 4.440892098500626e-16), 7.888609052210118e-31))) break;
    }
    return s;
}

} // namespace detail

// The first place in [0, 1] at which the cubic changes sides: less than 0, or not. Returns whether there is one. It
// may miss pairs of places between which the cubic is 0 up to rounding.
__device__ inline bool first_change(RayCubic f, double* place) {
    using namespace exact;
    const bool inside = less(f.b0, 0.0);
    if (less(f.b1, 0.0) == inside && less(f.b2, 0.0) == inside && less(f.b3, 0.0) == inside) return false;
    // The coefficients are scaled by a power of two, so that squares neither overflow nor vanish.
    const double most = max(max(abs(f.b0), abs(f.b1)), max(abs(f.b2), abs(f.b3)));
    long long exponent = __double_as_longlong(most) >> 52;
    exponent = exponent < 1 ? 1 : exponent > 2045 ? 2045 : exponent;
    const double scale = __longlong_as_double((2046 - exponent) << 52);
    f.b0 = mul(f.b0, scale), f.b1 = mul(f.b1, scale), f.b2 = mul(f.b2, scale), f.b3 = mul(f.b3, scale);

    // The zeros of the derivative, d0 (1 - s)^2 + 2 d1 s (1 - s) + d2 s^2 up to a factor, split the interval.
    const double d0 = sub(f.b1, f.b0), d1 = sub(f.b2, f.b1), d2 = sub(f.b3, f.b2);
    const double discriminant = fma(d1, d1, neg(mul(d0, d2)));
    double first = 1.0, second = 1.0;
    if (less(0.0, discriminant)) {
        const double half = sub(d1, d0), root = sqrt(discriminant);
        const double q = less(half, 0.0) ? sub(root, half) : neg(add(root, half));
        // The quotients are infinite or NaN if there is no zero.
        const double one = div(q, sub(d2, fma(2.0, d1, neg(d0)))), other = div(d0, q);
        if (less(0.0, one) && less(one, 1.0)) first = one;
        if (less(0.0, other) && less(other, 1.0)) second = other;
        if (less(second, first)) {
            const double swapped = first;
            first = second;
            second = swapped;
        }
    }
    double low = 0.0, high = first, slope;
    if (!less(high, 1.0) || less(f.at(high, &slope), 0.0) == inside) {
        low = less(high, 1.0) ? high : low;
        high = second;
        if (!less(high, 1.0) || less(f.at(high, &slope), 0.0) == inside) {
            low = less(high, 1.0) ? high : low;
            high = 1.0;
            if (less(f.b3, 0.0) == inside) return false;
        }
    }
    *place = detail::bracketed_root(f, inside, low, high);
    return true;
}

} // namespace volume
} // namespace geom
