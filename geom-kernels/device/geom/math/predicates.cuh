// Signs of determinants: on which side of a line or plane a point lies, without rounding errors.
//
// All of this is exact: the result has the sign of the real number, for all coordinates that are finite and at most
// 2^60 in magnitude, subnormal ones too; and written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/math/vec.cuh>

namespace geom {

namespace detail {

__device__ __forceinline__ int sign(float a) {
    return int(exact::less(0.0f, a)) - int(exact::less(a, 0.0f));
}
__device__ __forceinline__ int sign(double a) {
    return int(exact::less(0.0, a)) - int(exact::less(a, 0.0));
}

// A sum of up to N numbers without rounding: components that do not overlap, smallest first, none of them 0.
// Shewchuk, "Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates", 1997, grow-expansion
// with zero elimination.
template <int N>
struct Expansion {
    double parts[N];
    int count = 0;

    __device__ __forceinline__ void add(double term) {
        using exact::sub;
        int kept = 0;
        for (int i = 0; i < count; ++i) {
            // Knuth's sum of two: the rounding error of the sum is itself a floating-point number.
            double part = parts[i], sum = exact::add(term, part), virtual_part = sub(sum, term);
            double lost = exact::add(sub(term, sub(sum, virtual_part)), sub(part, virtual_part));
            if (!exact::equal(lost, 0.0)) parts[kept++] = lost;
            term = sum;
        }
        if (!exact::equal(term, 0.0)) parts[kept++] = term;
        count = kept;
    }
    // The sum to 2^-50 of itself, with its sign: with ties to even the components are not even adjacent, so the
    // smaller ones are hardly more than half an ulp of the next.
    __device__ __forceinline__ double value() const {
        double sum = 0.0;
        for (int i = 0; i < count; ++i) sum = exact::add(sum, parts[i]);
        return sum;
    }
};

// The determinants below are computed without differences: a product of two f32 is an f64, a product of three is two
// of them. None is below 2^-447, so nothing underflows.

// (a - c) x (b - c), to 2^-50 of it.
inline __device__ __noinline__ double
orient2d_exact(double ax, double ay, double bx, double by, double cx, double cy) {
    using namespace exact;
    Expansion<6> sum;
    sum.add(mul(ax, by));
    sum.add(neg(mul(ay, bx)));
    sum.add(mul(bx, cy));
    sum.add(neg(mul(by, cx)));
    sum.add(mul(cx, ay));
    sum.add(neg(mul(cy, ax)));
    return sum.value();
}

// sum += x y z
__device__ __forceinline__ void add_product(Expansion<48>& sum, double x, double y, double z) {
    double xy = exact::mul(x, y), high = exact::mul(xy, z);
    sum.add(exact::fma(xy, z, exact::neg(high)));
    sum.add(high);
}

// The determinant of (a - d, b - d, c - d), to 2^-50 of it: det(a, b, c) - det(d, b, c) -
// det(a, d, c) - det(a, b, d).
inline __device__ __noinline__ double
orient3d_exact(vec3<float> a, vec3<float> b, vec3<float> c, vec3<float> d) {
    using exact::neg;
    Expansion<48> sum;
    vec3<float> rows[4] = {a, b, c, d};
#pragma unroll 1
    for (int left_out = 3; left_out >= 0; --left_out) {
        // The other rows follow in a cycle, whose sign alternates.
        vec3<double> r = exact::widen(rows[(left_out + 1) & 3]);
        vec3<double> s = exact::widen(rows[(left_out + 2) & 3]);
        vec3<double> t = exact::widen(rows[(left_out + 3) & 3]);
        if ((left_out & 1) == 0) r = vec3<double>(neg(r.x), neg(r.y), neg(r.z));
#pragma unroll 1
        for (int axis = 0; axis < 3; ++axis) {
            add_product(sum, r.x, s.y, t.z);
            add_product(sum, neg(r.x), s.z, t.y);
            r = vec3<double>(r.y, r.z, r.x);
            s = vec3<double>(s.y, s.z, s.x);
            t = vec3<double>(t.y, t.z, t.x);
        }
    }
    return sum.value();
}

} // namespace detail

// The sign of (a - c) x (b - c): 1 where a, b, c turn counterclockwise, 0 on one line.
//
// The f64 value decides where it exceeds its error: with u = 2^-53, one of each difference and of
// a product, 3 u (and less than one more for their products) of the sum of the products'
// magnitudes; the last subtraction keeps the sign. Shewchuk 1997, 4.2.
__device__ __forceinline__ int orient2d(vec2<float> a, vec2<float> b, vec2<float> c) {
    using namespace exact;
    double ax = widen(a.x), ay = widen(a.y), bx = widen(b.x), by = widen(b.y);
    double cx = widen(c.x), cy = widen(c.y);
    double left = mul(sub(ax, cx), sub(by, cy)), right = mul(sub(ay, cy), sub(bx, cx));
    double value = sub(left, right);
    double error = mul(add(abs(left), abs(right)), 4.440892098500626e-16); // 4 u
    // If the error is 0, the products are 0, and so is the determinant.
    if (less(error, abs(value)) || equal(error, 0.0)) return detail::sign(value);
    return detail::sign(detail::orient2d_exact(ax, ay, bx, by, cx, cy));
}

// The sign of the determinant of (a - d, b - d, c - d): 1 where d lies below the plane of a, b, c,
// which turn counterclockwise seen from above; 0 on one plane.
//
// The error: one u of each of three differences and of two products, of the minor's subtraction and
// of the sum's first addition, 7 u (and less than one more) of the sum of the magnitudes.
__device__ __forceinline__ int orient3d(vec3<float> a, vec3<float> b, vec3<float> c,
                                        vec3<float> d) {
    using namespace exact;
    vec3<double> o = exact::widen(d), r = exact::sub(exact::widen(a), o);
    vec3<double> s = exact::sub(exact::widen(b), o), t = exact::sub(exact::widen(c), o);
    double rs = mul(r.y, s.x), st = mul(s.y, t.x), tr = mul(t.y, r.x);
    double sr = mul(r.x, s.y), ts = mul(s.x, t.y), rt = mul(t.x, r.y);
    double value = fma(r.z, sub(ts, st), fma(s.z, sub(rt, tr), mul(t.z, sub(sr, rs))));
    double size = fma(abs(r.z), add(abs(ts), abs(st)),
                      fma(abs(s.z), add(abs(rt), abs(tr)), mul(abs(t.z), add(abs(sr), abs(rs)))));
    double error = mul(size, 8.881784197001252e-16); // 8 u
    if (less(error, abs(value)) || equal(error, 0.0)) return detail::sign(value);
    return detail::sign(detail::orient3d_exact(a, b, c, d));
}

namespace detail {

// Below this an edge function's f32 products may have underflowed.
__device__ __forceinline__ float edge_function_least() { return 7.888609052210118e-31f; } // 2^-100

// p x q by Kahan's difference of products, whose relative error is at most 2 ulp and whose sign is exact (Jeannerod,
// Louvet, Muller, "Further Analysis of Kahan's Algorithm for the Accurate Computation of 2x2 Determinants", 2013),
// unless the result's magnitude is below `edge_function_least`: underflow changes a greater one by less than 2^-148.
__device__ __forceinline__ float difference_of_products(vec2<float> p, vec2<float> q) {
    using namespace exact;
    float product = mul(p.y, q.x);
    return add(fma(p.x, q.y, neg(product)), fma(neg(p.y), q.x, product));
}
// The same in f64: both products are exact, only the difference is rounded.
__device__ __forceinline__ double wide_difference_of_products(vec2<float> p, vec2<float> q) {
    return exact::sub(exact::mul(exact::widen(p.x), exact::widen(q.y)),
                      exact::mul(exact::widen(p.y), exact::widen(q.x)));
}

} // namespace detail

// p x q: twice the signed area of (origin, p, q), to 2 ulp, with the exact sign: it is 0 only if
// the real number is. Components are at most 2^62 in magnitude.
__device__ __forceinline__ float edge_function(vec2<float> p, vec2<float> q) {
    float value = detail::difference_of_products(p, q);
    if (exact::less_equal(detail::edge_function_least(), exact::abs(value))) return value;
    double wide = detail::wide_difference_of_products(p, q);
    value = exact::narrow(wide);
    // A value that underflows in f32 becomes the smallest number.
    const float smallest = __uint_as_float(1);
    if (exact::equal(value, 0.0f)) value = exact::mul(float(detail::sign(wide)), smallest);
    return value;
}
// The sign of `edge_function`: 1 where the origin is left of the line from p to q, 0 on it.
__device__ __forceinline__ int edge_side(vec2<float> p, vec2<float> q) {
    float value = detail::difference_of_products(p, q);
    if (exact::less_equal(detail::edge_function_least(), exact::abs(value)))
        return detail::sign(value);
    return detail::sign(detail::wide_difference_of_products(p, q));
}

// Simulation of simplicity (Edelsbrunner, Mucke, 1990): the side of the line from p to q on which a point on that
// line is after a shift by (e, e^2), for any sufficiently small e > 0. With o as that shift, (p - o) x (q - o) = p x
// q + o.x (p.y - q.y) + o.y (q.x - p.x). 0 only if p is q; the opposite sign for q, p.
__device__ __forceinline__ int side_of_tie(vec2<float> p, vec2<float> q) {
    int side = int(exact::less(q.y, p.y)) - int(exact::less(p.y, q.y));
    return side != 0 ? side : int(exact::less(p.x, q.x)) - int(exact::less(q.x, p.x));
}
// `edge_side`, with ties resolved by `side_of_tie`.
__device__ __forceinline__ int perturbed_edge_side(vec2<float> p, vec2<float> q) {
    int side = edge_side(p, q);
    return side != 0 ? side : side_of_tie(p, q);
}

} // namespace geom
