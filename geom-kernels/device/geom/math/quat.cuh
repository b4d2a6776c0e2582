// Quaternions, and rotations by unit quaternions. The scalar part is w, the last component.
//
// All of this is compiled with the program's options, like your code.
#pragma once

#include <geom/math/mat.cuh>

namespace geom {

namespace detail {

__device__ __forceinline__ void sincos(float a, float* s, float* c) { ::sincosf(a, s, c); }
__device__ __forceinline__ void sincos(double a, double* s, double* c) { ::sincos(a, s, c); }
__device__ __forceinline__ float sin(float a) { return ::sinf(a); }
__device__ __forceinline__ double sin(double a) { return ::sin(a); }
__device__ __forceinline__ float atan2(float y, float x) { return ::atan2f(y, x); }
__device__ __forceinline__ double atan2(double y, double x) { return ::atan2(y, x); }

} // namespace detail

template <class T>
struct quat {
    using element = T;
    T x, y, z, w;

    quat() = default;
    GEOM_FN quat(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
    GEOM_FN quat(vec3<T> vector, T w) : x(vector.x), y(vector.y), z(vector.z), w(w) {}

    GEOM_FN vec3<T> vector() const { return vec3<T>(x, y, z); }
    static GEOM_FN quat identity() { return quat(T(0), T(0), T(0), T(1)); }

    // The rotation by `angle` (radians, counter-clockwise seen from the tip) about a unit vector.
    static GEOM_FN quat from_axis_angle(vec3<T> axis, T angle) {
        T s = T(0), c = T(0);
        detail::sincos(angle * T(0.5), &s, &c);
        return quat(axis * s, c);
    }
    // The quaternion of a rotation matrix; the largest of four possible divisors, after Shepperd (1978). Rounding
    // errors in the matrix remain; normalize afterwards if they accumulate. w may be negative.
    static GEOM_FN quat from_matrix(const mat3<T>& m) {
        T one = T(1), xx = m(0, 0), yy = m(1, 1), zz = m(2, 2);
        quat q;
        if (xx + yy + zz >= T(0)) {
            q = quat(m(2, 1) - m(1, 2), m(0, 2) - m(2, 0), m(1, 0) - m(0, 1), one + xx + yy + zz);
            return q * (T(0.5) / detail::sqrt(q.w));
        }
        if (xx >= yy && xx >= zz) {
            q = quat(one + xx - yy - zz, m(0, 1) + m(1, 0), m(0, 2) + m(2, 0), m(2, 1) - m(1, 2));
            return q * (T(0.5) / detail::sqrt(q.x));
        }
        if (yy >= zz) {
            q = quat(m(0, 1) + m(1, 0), one - xx + yy - zz, m(1, 2) + m(2, 1), m(0, 2) - m(2, 0));
            return q * (T(0.5) / detail::sqrt(q.y));
        }
        q = quat(m(0, 2) + m(2, 0), m(1, 2) + m(2, 1), one - xx - yy + zz, m(1, 0) - m(0, 1));
        return q * (T(0.5) / detail::sqrt(q.z));
    }

    GEOM_FRIEND quat operator-(quat a) { return quat(-a.x, -a.y, -a.z, -a.w); }
    GEOM_FRIEND quat operator+(quat a, quat b) {
        return quat(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
    GEOM_FRIEND quat operator*(quat a, T s) { return quat(a.x * s, a.y * s, a.z * s, a.w * s); }
    GEOM_FRIEND quat operator*(T s, quat a) { return a * s; }
    // Hamilton's product: as a rotation, first b, then a.
    GEOM_FRIEND quat operator*(quat a, quat b) {
        return quat(a.vector() * b.w + b.vector() * a.w + cross(a.vector(), b.vector()),
                    a.w * b.w - dot(a.vector(), b.vector()));
    }

    GEOM_FRIEND T dot(quat a, quat b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
    GEOM_FRIEND T length(quat a) { return detail::sqrt(dot(a, a)); }
    // The unit quaternion; the identity where the squared length is 0.
    GEOM_FRIEND quat normalize(quat a) {
        T squared = dot(a, a);
        return squared == T(0) ? identity() : a * detail::rsqrt(squared);
    }
    // The inverse of a unit quaternion.
    GEOM_FRIEND quat conjugate(quat a) { return quat(-a.x, -a.y, -a.z, a.w); }
    // The inverse of any quaternion; zeros where the squared length is 0.
    GEOM_FRIEND quat inverse(quat a) {
        T squared = dot(a, a);
        return conjugate(a) * (squared == T(0) ? T(0) : T(1) / squared);
    }
    // The vector turned by a unit quaternion.
    GEOM_FRIEND vec3<T> rotate(quat q, vec3<T> v) {
        vec3<T> t = cross(q.vector(), v) * T(2);
        return v + t * q.w + cross(q.vector(), t);
    }
    // The matrix of a unit quaternion.
    GEOM_FRIEND mat3<T> to_matrix(quat q) {
        T x = q.x + q.x, y = q.y + q.y, z = q.z + q.z, one = T(1);
        return mat3<T>(
            vec3<T>(one - (y * q.y + z * q.z), x * q.y + z * q.w, x * q.z - y * q.w),
            vec3<T>(x * q.y - z * q.w, one - (x * q.x + z * q.z), y * q.z + x * q.w),
            vec3<T>(x * q.z + y * q.w, y * q.z - x * q.w, one - (x * q.x + y * q.y)));
    }
    // The angle of the rotation, 0 to pi, and its axis, for the shorter direction. The axis is x for no rotation.
    GEOM_FRIEND T to_axis_angle(quat q, vec3<T>* axis) {
        T s = length(q.vector()), sign = q.w < T(0) ? T(-1) : T(1);
        *axis = normalize(q.vector() * sign, vec3<T>(T(1), T(0), T(0)));
        return T(2) * detail::atan2(s, q.w * sign);
    }
    // Interpolates from a (t = 0) to b (t = 1) by the shorter path at constant speed; both are unit. If they are
    // opposite, the path is one of many.
    GEOM_FRIEND quat slerp(quat a, quat b, T t) {
        if (dot(a, b) < T(0)) b = -b;
        // Half the angle between them, computed so that it stays accurate if their product is near 1.
        T angle = T(2) * detail::atan2(length(a + -b), length(a + b));
        T s = detail::sin(angle);
        if (s < T(1e-3)) return normalize(a * (T(1) - t) + b * t);
        T of_a = detail::sin((T(1) - t) * angle) / s, of_b = detail::sin(t * angle) / s;
        return normalize(a * of_a + b * of_b);
    }
};

} // namespace geom
