// The angle of a vector in the plane.
//
// It is written in exact arithmetic (exact.cuh), so it has the same bits everywhere. They may differ from those of
// the C library's atan2.
#pragma once

#include <geom/math/exact.cuh>

namespace geom {
namespace exact {

// The angle from the x axis to (x, y): between -pi and pi, with an error of at most 1e-15. The larger of both
// magnitudes is between 2^-900 and 2^1000, or both are 0, where the angle is 0. The sign of a zero is ignored: on the
// negative x axis the angle is pi.
//
// Mirrored to the octant below the diagonal it is atan(t), 0 <= t <= 1. Where t > tan(pi / 12), that is pi / 6 +
// atan((sqrt(3) t - 1) / (t + sqrt(3))), by the addition theorem (Cody and Waite, "Software Manual for the Elementary
// Functions", 1980, chapter 11). The remaining argument is at most tan(pi / 12) in magnitude, for which the error of
// Taylor's series to the power of 25 is 2e-17.
__device__ __forceinline__ double atan2(double y, double x) {
    const double root_3 = 1.7320508075688772, pi = 3.141592653589793;
    double height = abs(y), width = abs(x);
    double low = min(width, height), high = max(width, height);
    if (equal(high, 0.0)) return 0.0;
    bool turned = less(mul(0.2679491924311227, high), low);
    double over = turned ? fma(root_3, low, neg(high)) : low;
    double under = turned ? fma(root_3, high, low) : high;
    double u = div(over, under), s = neg(mul(u, u));
    double sum = fma(s, 0.04, 0.043478260869565216);
    sum = fma(s, sum, 0.047619047619047616);
    sum = fma(s, sum, 0.052631578947368418);
    sum = fma(s, sum, 0.058823529411764705);
    sum = fma(s, sum, 0.066666666666666666);
    sum = fma(s, sum, 0.076923076923076927);
    sum = fma(s, sum, 0.090909090909090912);
    sum = fma(s, sum, 0.11111111111111111);
    sum = fma(s, sum, 0.14285714285714285);
    sum = fma(s, sum, 0.2);
    sum = fma(s, sum, 0.33333333333333331);
    double angle = fma(mul(u, s), sum, u);
    if (turned) angle = add(0.52359877559829882, angle);
    if (less(width, height)) angle = sub(1.5707963267948966, angle);
    if (less(x, 0.0)) angle = sub(pi, angle);
    return less(y, 0.0) ? neg(angle) : angle;
}

// The same in f32, with an error of at most 3e-7, and of 2e-7 of the angle where that is small. The larger of both
// magnitudes is between 2^-100 and 2^120, or both are 0.
//
// Mirrored to the octant below the diagonal it is t + t^3 q(t^2), 0 <= t <= 1, where q has the least maximum error
// relative to atan(t): 2e-8 (Remez).
__device__ __forceinline__ float atan2(float y, float x) {
    const float height = abs(y), width = abs(x);
    const float low = min(width, height), high = max(width, height);
    if (equal(high, 0.0f)) return 0.0f;
    const float t = div(low, high), s = mul(t, t);
    float q = fma(s, 0.002920691156759858f, -0.016367923468351364f);
    q = fma(s, q, 0.04321185126900673f);
    q = fma(s, q, -0.07552213221788406f);
    q = fma(s, q, 0.10666003823280334f);
    q = fma(s, q, -0.14211055636405945f);
    q = fma(s, q, 0.19993773102760315f);
    q = fma(s, q, -0.33333152532577515f);
    float angle = fma(mul(t, s), q, t);
    if (less(width, height)) angle = sub(1.57079632679489662f, angle);
    if (less(x, 0.0f)) angle = sub(3.14159265358979324f, angle);
    return less(y, 0.0f) ? neg(angle) : angle;
}

} // namespace exact
} // namespace geom
