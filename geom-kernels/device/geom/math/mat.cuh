// Matrices: mat2, mat3, mat4 of float or double, stored by columns. Vectors are columns: m * v.
//
// All of this is compiled with the program's options, like your code.
#pragma once

#include <geom/math/vec.cuh>

namespace geom {

// The functions that all matrices share; each declares its columns. `inverse` of a singular matrix (determinant 0) is
// the zero matrix; of a nearly singular one it is the result of the division.
#define GEOM_MAT(M, V)                                                                              \
    using element = T;                                                                              \
    M() = default;                                                                                  \
    GEOM_FN V<T> column(int i) const { return columns[i]; }                                         \
    GEOM_FN V<T> row(int i) const { return transpose(*this).columns[i]; }                           \
    GEOM_FN T& operator()(int row, int column) { return columns[column][row]; }                     \
    GEOM_FN const T& operator()(int row, int column) const { return columns[column][row]; }         \
    GEOM_FRIEND M operator-(const M& a, const M& b) { return a + b * T(-1); }                       \
    GEOM_FRIEND M operator*(T s, const M& a) { return a * s; }

template <class T>
struct mat2 {
    vec2<T> columns[2];

    GEOM_FN mat2(vec2<T> x, vec2<T> y) : columns{x, y} {}
    GEOM_MAT(mat2, vec2)

    static GEOM_FN mat2 from_columns(vec2<T> x, vec2<T> y) { return mat2(x, y); }
    static GEOM_FN mat2 from_rows(vec2<T> x, vec2<T> y) { return transpose(mat2(x, y)); }
    static GEOM_FN mat2 diagonal(vec2<T> d) {
        return mat2(vec2<T>(d.x, T(0)), vec2<T>(T(0), d.y));
    }
    static GEOM_FN mat2 identity() { return diagonal(vec2<T>(T(1))); }

    GEOM_FRIEND mat2 operator+(const mat2& a, const mat2& b) {
        return mat2(a.columns[0] + b.columns[0], a.columns[1] + b.columns[1]);
    }
    GEOM_FRIEND mat2 operator*(const mat2& a, T s) {
        return mat2(a.columns[0] * s, a.columns[1] * s);
    }
    GEOM_FRIEND vec2<T> operator*(const mat2& a, vec2<T> v) {
        return a.columns[0] * v.x + a.columns[1] * v.y;
    }
    GEOM_FRIEND mat2 operator*(const mat2& a, const mat2& b) {
        return mat2(a * b.columns[0], a * b.columns[1]);
    }
    GEOM_FRIEND mat2 transpose(const mat2& a) {
        const vec2<T>&x = a.columns[0], &y = a.columns[1];
        return mat2(vec2<T>(x.x, y.x), vec2<T>(x.y, y.y));
    }
    GEOM_FRIEND T determinant(const mat2& a) { return cross(a.columns[0], a.columns[1]); }
    GEOM_FRIEND mat2 inverse(const mat2& a) {
        const vec2<T>&x = a.columns[0], &y = a.columns[1];
        T d = determinant(a);
        return mat2(vec2<T>(y.y, -x.y), vec2<T>(-y.x, x.x)) * (d == T(0) ? T(0) : T(1) / d);
    }
};

template <class T>
struct mat3 {
    vec3<T> columns[3];

    GEOM_FN mat3(vec3<T> x, vec3<T> y, vec3<T> z) : columns{x, y, z} {}
    GEOM_MAT(mat3, vec3)

    static GEOM_FN mat3 from_columns(vec3<T> x, vec3<T> y, vec3<T> z) { return mat3(x, y, z); }
    static GEOM_FN mat3 from_rows(vec3<T> x, vec3<T> y, vec3<T> z) {
        return transpose(mat3(x, y, z));
    }
    static GEOM_FN mat3 diagonal(vec3<T> d) {
        return mat3(vec3<T>(d.x, T(0), T(0)), vec3<T>(T(0), d.y, T(0)), vec3<T>(T(0), T(0), d.z));
    }
    static GEOM_FN mat3 identity() { return diagonal(vec3<T>(T(1))); }

    GEOM_FRIEND mat3 operator+(const mat3& a, const mat3& b) {
        return mat3(a.columns[0] + b.columns[0], a.columns[1] + b.columns[1],
                    a.columns[2] + b.columns[2]);
    }
    GEOM_FRIEND mat3 operator*(const mat3& a, T s) {
        return mat3(a.columns[0] * s, a.columns[1] * s, a.columns[2] * s);
    }
    GEOM_FRIEND vec3<T> operator*(const mat3& a, vec3<T> v) {
        return a.columns[0] * v.x + a.columns[1] * v.y + a.columns[2] * v.z;
    }
    GEOM_FRIEND mat3 operator*(const mat3& a, const mat3& b) {
        return mat3(a * b.columns[0], a * b.columns[1], a * b.columns[2]);
    }
    GEOM_FRIEND mat3 transpose(const mat3& a) {
        const vec3<T>&x = a.columns[0], &y = a.columns[1], &z = a.columns[2];
        return mat3(vec3<T>(x.x, y.x, z.x), vec3<T>(x.y, y.y, z.y), vec3<T>(x.z, y.z, z.z));
    }
    // The matrix determinant * transpose of the inverse; also defined without an inverse.
    GEOM_FRIEND mat3 cofactors(const mat3& a) {
        const vec3<T>&x = a.columns[0], &y = a.columns[1], &z = a.columns[2];
        return mat3(cross(y, z), cross(z, x), cross(x, y));
    }
    GEOM_FRIEND T determinant(const mat3& a) {
        return dot(a.columns[0], cross(a.columns[1], a.columns[2]));
    }
    GEOM_FRIEND mat3 inverse(const mat3& a) {
        mat3 c = cofactors(a);
        T d = dot(a.columns[0], c.columns[0]);
        return transpose(c) * (d == T(0) ? T(0) : T(1) / d);
    }
};

template <class T>
struct mat4 {
    vec4<T> columns[4];

    GEOM_FN mat4(vec4<T> x, vec4<T> y, vec4<T> z, vec4<T> w) : columns{x, y, z, w} {}
    GEOM_MAT(mat4, vec4)

    static GEOM_FN mat4 from_columns(vec4<T> x, vec4<T> y, vec4<T> z, vec4<T> w) {
        return mat4(x, y, z, w);
    }
    static GEOM_FN mat4 from_rows(vec4<T> x, vec4<T> y, vec4<T> z, vec4<T> w) {
        return transpose(mat4(x, y, z, w));
    }
    static GEOM_FN mat4 diagonal(vec4<T> d) {
        T o = T(0);
        return mat4(vec4<T>(d.x, o, o, o), vec4<T>(o, d.y, o, o), vec4<T>(o, o, d.z, o),
                    vec4<T>(o, o, o, d.w));
    }
    static GEOM_FN mat4 identity() { return diagonal(vec4<T>(T(1))); }

    GEOM_FRIEND mat4 operator+(const mat4& a, const mat4& b) {
        return mat4(a.columns[0] + b.columns[0], a.columns[1] + b.columns[1],
                    a.columns[2] + b.columns[2], a.columns[3] + b.columns[3]);
    }
    GEOM_FRIEND mat4 operator*(const mat4& a, T s) {
        return mat4(a.columns[0] * s, a.columns[1] * s, a.columns[2] * s, a.columns[3] * s);
    }
    GEOM_FRIEND vec4<T> operator*(const mat4& a, vec4<T> v) {
        return a.columns[0] * v.x + a.columns[1] * v.y + a.columns[2] * v.z + a.columns[3] * v.w;
    }
    GEOM_FRIEND mat4 operator*(const mat4& a, const mat4& b) {
        return mat4(a * b.columns[0], a * b.columns[1], a * b.columns[2], a * b.columns[3]);
    }
    GEOM_FRIEND mat4 transpose(const mat4& a) {
        const vec4<T>&x = a.columns[0], &y = a.columns[1], &z = a.columns[2], &w = a.columns[3];
        return mat4(vec4<T>(x.x, y.x, z.x, w.x), vec4<T>(x.y, y.y, z.y, w.y),
                    vec4<T>(x.z, y.z, z.z, w.z), vec4<T>(x.w, y.w, z.w, w.w));
    }
    GEOM_FRIEND T determinant(const mat4& a) { return minors(a).determinant(); }
    GEOM_FRIEND mat4 inverse(const mat4& a) {
        const minors m(a);
        const vec4<T>&x = a.columns[0], &y = a.columns[1], &z = a.columns[2], &w = a.columns[3];
        T d = m.determinant();
        vec3<T> u = m.xy_hi, v = m.zw_hi, s = m.xy_lo, t = m.zw_lo;
        // By Laplace's expansion along the upper and the lower two rows.
        mat4 adjugate = from_rows(
            vec4<T>(y.y * v.x - z.y * v.y + w.y * v.z, -y.x * v.x + z.x * v.y - w.x * v.z,
                    y.w * t.x - z.w * t.y + w.w * t.z, -y.z * t.x + z.z * t.y - w.z * t.z),
            vec4<T>(-x.y * v.x + z.y * u.z - w.y * u.y, x.x * v.x - z.x * u.z + w.x * u.y,
                    -x.w * t.x + z.w * s.z - w.w * s.y, x.z * t.x - z.z * s.z + w.z * s.y),
            vec4<T>(x.y * v.y - y.y * u.z + w.y * u.x, -x.x * v.y + y.x * u.z - w.x * u.x,
                    x.w * t.y - y.w * s.z + w.w * s.x, -x.z * t.y + y.z * s.z - w.z * s.x),
            vec4<T>(-x.y * v.z + y.y * u.y - z.y * u.x, x.x * v.z - y.x * u.y + z.x * u.x,
                    -x.w * t.z + y.w * s.y - z.w * s.x, x.z * t.z - y.z * s.y + z.z * s.x));
        return adjugate * (d == T(0) ? T(0) : T(1) / d);
    }

private:
    // The determinants of each two columns (01 02 03, then 23 13 12) in the upper two rows (lo) and
    // the lower (hi).
    struct minors {
        vec3<T> xy_lo, zw_lo, xy_hi, zw_hi;

        GEOM_FN explicit minors(const mat4& a)
            : xy_lo(upper(a, 0, 1), upper(a, 0, 2), upper(a, 0, 3)),
              zw_lo(upper(a, 2, 3), upper(a, 1, 3), upper(a, 1, 2)),
              xy_hi(lower(a, 0, 1), lower(a, 0, 2), lower(a, 0, 3)),
              zw_hi(lower(a, 2, 3), lower(a, 1, 3), lower(a, 1, 2)) {}
        static GEOM_FN T upper(const mat4& a, int i, int j) {
            return a.columns[i].x * a.columns[j].y - a.columns[j].x * a.columns[i].y;
        }
        static GEOM_FN T lower(const mat4& a, int i, int j) {
            return a.columns[i].z * a.columns[j].w - a.columns[j].z * a.columns[i].w;
        }
        GEOM_FN T determinant() const {
            return xy_lo.x * zw_hi.x - xy_lo.y * zw_hi.y + xy_lo.z * zw_hi.z + zw_lo.x * xy_hi.x -
                   zw_lo.y * xy_hi.y + zw_lo.z * xy_hi.z;
        }
    };
};

#undef GEOM_MAT

// a times the transpose of b: component (i, j) is a[i] * b[j].
template <class T>
GEOM_FN mat2<T> outer(vec2<T> a, vec2<T> b) {
    return mat2<T>(a * b.x, a * b.y);
}
template <class T>
GEOM_FN mat3<T> outer(vec3<T> a, vec3<T> b) {
    return mat3<T>(a * b.x, a * b.y, a * b.z);
}
template <class T>
GEOM_FN mat4<T> outer(vec4<T> a, vec4<T> b) {
    return mat4<T>(a * b.x, a * b.y, a * b.z, a * b.w);
}

// The matrix whose product with v is cross(a, v).
template <class T>
GEOM_FN mat3<T> skew(vec3<T> a) {
    return mat3<T>(vec3<T>(T(0), a.z, -a.y), vec3<T>(-a.z, T(0), a.x), vec3<T>(a.y, -a.x, T(0)));
}

} // namespace geom
