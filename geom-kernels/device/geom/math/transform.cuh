// Maps of space: rigid (rotate, then translate) and affine (any matrix, then translate).
//
// All of this is compiled with the program's options, like your code. `a * b` applies b first, then a.
#pragma once

#include <geom/math/quat.cuh>

namespace geom {

template <class T>
struct rigid {
    using element = T;
    // A unit quaternion.
    quat<T> rotation;
    vec3<T> translation;

    rigid() = default;
    GEOM_FN rigid(quat<T> rotation, vec3<T> translation)
        : rotation(rotation), translation(translation) {}
    static GEOM_FN rigid identity() { return rigid(quat<T>::identity(), vec3<T>(T(0))); }

    GEOM_FRIEND vec3<T> point(const rigid& m, vec3<T> p) {
        return rotate(m.rotation, p) + m.translation;
    }
    GEOM_FRIEND vec3<T> direction(const rigid& m, vec3<T> d) { return rotate(m.rotation, d); }
    // Maps a unit normal, which stays unit.
    GEOM_FRIEND vec3<T> normal(const rigid& m, vec3<T> n) { return rotate(m.rotation, n); }
    GEOM_FRIEND rigid operator*(const rigid& a, const rigid& b) {
        return rigid(a.rotation * b.rotation, point(a, b.translation));
    }
    GEOM_FRIEND rigid inverse(const rigid& m) {
        quat<T> back = conjugate(m.rotation);
        return rigid(back, -rotate(back, m.translation));
    }
};

// The upper three rows of a 4 x 4 matrix whose last row is 0 0 0 1.
template <class T>
struct affine {
    using element = T;
    mat3<T> linear;
    vec3<T> translation;

    affine() = default;
    GEOM_FN affine(const mat3<T>& linear, vec3<T> translation)
        : linear(linear), translation(translation) {}
    GEOM_FN explicit affine(const rigid<T>& m)
        : linear(to_matrix(m.rotation)), translation(m.translation) {}
    static GEOM_FN affine identity() { return affine(mat3<T>::identity(), vec3<T>(T(0))); }

    GEOM_FRIEND vec3<T> point(const affine& m, vec3<T> p) { return m.linear * p + m.translation; }
    GEOM_FRIEND vec3<T> direction(const affine& m, vec3<T> d) { return m.linear * d; }
    // The unit normal of the surface's image: by the transpose of the inverse. Without an inverse, the image is flat:
    // the result is its normal, or zeros if it is a line or a point. A reflection keeps the side to which the normal
    // points.
    GEOM_FRIEND vec3<T> normal(const affine& m, vec3<T> n) {
        mat3<T> c = cofactors(m.linear);
        T sign = dot(m.linear.columns[0], c.columns[0]) < T(0) ? T(-1) : T(1);
        return normalize(c * n * sign);
    }
    GEOM_FRIEND affine operator*(const affine& a, const affine& b) {
        return affine(a.linear * b.linear, point(a, b.translation));
    }
    // If the matrix is singular, all points are mapped to 0: see `inverse` in mat.cuh.
    GEOM_FRIEND affine inverse(const affine& m) {
        mat3<T> back = inverse(m.linear);
        return affine(back, -(back * m.translation));
    }
    GEOM_FRIEND mat4<T> to_matrix(const affine& m) {
        return mat4<T>(vec4<T>(m.linear.columns[0], T(0)), vec4<T>(m.linear.columns[1], T(0)),
                       vec4<T>(m.linear.columns[2], T(0)), vec4<T>(m.translation, T(1)));
    }
};

} // namespace geom
