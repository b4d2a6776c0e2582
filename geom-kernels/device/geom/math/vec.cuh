// Vectors of two, three and four components: vec3<float>, vec2<int>...
//
// They have the layout of arrays (vec4<float> is aligned to 4 bytes, float4 to 16), and convert to and from CUDA's
// own vectors: float3, double2, int4... Two kinds of functions:
// - operators and functions of geom: compiled with the program's options, as your code is;
// - those of geom::exact, of float and double: their bits do not depend on options (see exact.cuh).
// Call them by that name: a bare `dot(a, b)` is the other function, whatever `using namespace` says.
#pragma once

#include <geom/math/exact.cuh>

namespace geom {

template <class T>
struct vec2;
template <class T>
struct vec3;
template <class T>
struct vec4;

namespace detail {

// CUDA's vectors of an element; for other elements, unused types.
template <class T>
struct native {
    struct two {};
    struct three {};
    struct four {};
};
#define GEOM_NATIVE(T, name, name4)                                                                 \
    template <>                                                                                     \
    struct native<T> {                                                                              \
        using two = name##2;                                                                        \
        using three = name##3;                                                                      \
        using four = name4;                                                                         \
    };
// CUDA 13 has two types of four 8-byte elements, by alignment; the older one's alignment was 16.
#if __CUDACC_VER_MAJOR__ >= 13
#define GEOM_OF_FOUR(name) name##4_16a
#else
#define GEOM_OF_FOUR(name) name##4
#endif
GEOM_NATIVE(float, float, float4)
GEOM_NATIVE(double, double, GEOM_OF_FOUR(double))
GEOM_NATIVE(int, int, int4)
GEOM_NATIVE(unsigned, uint, uint4)
GEOM_NATIVE(long long, longlong, GEOM_OF_FOUR(longlong))
GEOM_NATIVE(unsigned long long, ulonglong, GEOM_OF_FOUR(ulonglong))
#undef GEOM_OF_FOUR
#undef GEOM_NATIVE

// One name for functions that C spells differently for each type. min and max ignore a NaN if the other operand is a
// number.
template <class T>
__device__ __forceinline__ constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T>
__device__ __forceinline__ constexpr T max(T a, T b) { return a < b ? b : a; }
template <class T>
__device__ __forceinline__ constexpr T abs(T a) { return a < 0 ? -a : a; }
__device__ __forceinline__ float min(float a, float b) { return ::fminf(a, b); }
__device__ __forceinline__ double min(double a, double b) { return ::fmin(a, b); }
__device__ __forceinline__ float max(float a, float b) { return ::fmaxf(a, b); }
__device__ __forceinline__ double max(double a, double b) { return ::fmax(a, b); }
__device__ __forceinline__ float abs(float a) { return ::fabsf(a); }
__device__ __forceinline__ double abs(double a) { return ::fabs(a); }
__device__ __forceinline__ float sqrt(float a) { return ::sqrtf(a); }
__device__ __forceinline__ double sqrt(double a) { return ::sqrt(a); }
__device__ __forceinline__ float rsqrt(float a) { return ::rsqrtf(a); }
__device__ __forceinline__ double rsqrt(double a) { return ::rsqrt(a); }

} // namespace detail

// Component-wise functions, and sums over components.
#define GEOM_EACH_2(f) f(x), f(y)
#define GEOM_EACH_3(f) f(x), f(y), f(z)
#define GEOM_EACH_4(f) f(x), f(y), f(z), f(w)
#define GEOM_FOLD_2(g, f) g(f(x), f(y))
#define GEOM_FOLD_3(g, f) g(g(f(x), f(y)), f(z))
#define GEOM_FOLD_4(g, f) g(g(g(f(x), f(y)), f(z)), f(w))
#define GEOM_PLUS(a, b) a + b
#define GEOM_AND(a, b) a&& b

#define GEOM_C_NEG(c) -a.c
#define GEOM_C_ADD(c) a.c + b.c
#define GEOM_C_SUB(c) a.c - b.c
#define GEOM_C_MUL(c) a.c* b.c
#define GEOM_C_DIV(c) a.c / b.c
#define GEOM_C_SCALE(c) a.c* s
#define GEOM_C_UNSCALE(c) a.c / s
#define GEOM_C_EQUAL(c) a.c == b.c
#define GEOM_C_MIN(c) detail::min(a.c, b.c)
#define GEOM_C_MAX(c) detail::max(a.c, b.c)
#define GEOM_C_ABS(c) detail::abs(a.c)
#define GEOM_C_SELF(c) a.c
#define GEOM_C_ALL(c) all
#define GEOM_C_NATIVE(c) v.c
#define GEOM_C_CAST(c) T(v.c)
#define GEOM_C_OUT(c) c
#define GEOM_C_LERP(c) a.c + (b.c - a.c) * t

#define GEOM_FN __device__ __forceinline__ constexpr
#define GEOM_FRIEND friend __device__ __forceinline__ constexpr

// The part that all vectors share. N: 2, 3 or 4.
//
// normalize: the unit vector, or `otherwise` (zeros, if not given) where the squared length is 0: for the zero vector
// and for one so short that its square vanishes. Where the squared length is infinite and the components are not, it
// is zeros. A NaN stays NaN.
#define GEOM_VEC(V, N, native_name)                                                                 \
    using element = T;                                                                              \
    using native = typename detail::native<T>::native_name;                                         \
    V() = default;                                                                                  \
    GEOM_FN explicit V(T all) : V(GEOM_EACH_##N(GEOM_C_ALL)) {}                                     \
    GEOM_FN V(const native& v) : V(GEOM_EACH_##N(GEOM_C_NATIVE)) {}                                 \
    template <class U>                                                                              \
    GEOM_FN explicit V(const V<U>& v) : V(GEOM_EACH_##N(GEOM_C_CAST)) {}                            \
    GEOM_FN operator native() const { return {GEOM_EACH_##N(GEOM_C_OUT)}; }                         \
                                                                                                    \
    GEOM_FRIEND V operator-(V a) { return V(GEOM_EACH_##N(GEOM_C_NEG)); }                           \
    GEOM_FRIEND V operator+(V a, V b) { return V(GEOM_EACH_##N(GEOM_C_ADD)); }                      \
    GEOM_FRIEND V operator-(V a, V b) { return V(GEOM_EACH_##N(GEOM_C_SUB)); }                      \
    GEOM_FRIEND V operator*(V a, V b) { return V(GEOM_EACH_##N(GEOM_C_MUL)); }                      \
    GEOM_FRIEND V operator/(V a, V b) { return V(GEOM_EACH_##N(GEOM_C_DIV)); }                      \
    GEOM_FRIEND V operator*(V a, T s) { return V(GEOM_EACH_##N(GEOM_C_SCALE)); }                    \
    GEOM_FRIEND V operator*(T s, V a) { return a * s; }                                             \
    GEOM_FRIEND V operator/(V a, T s) { return V(GEOM_EACH_##N(GEOM_C_UNSCALE)); }                  \
    GEOM_FN V& operator+=(V b) { return *this = *this + b; }                                        \
    GEOM_FN V& operator-=(V b) { return *this = *this - b; }                                        \
    GEOM_FN V& operator*=(V b) { return *this = *this * b; }                                        \
    GEOM_FN V& operator*=(T s) { return *this = *this * s; }                                        \
    GEOM_FN V& operator/=(T s) { return *this = *this / s; }                                        \
    GEOM_FRIEND bool operator==(V a, V b) { return GEOM_FOLD_##N(GEOM_AND, GEOM_C_EQUAL); }         \
    GEOM_FRIEND bool operator!=(V a, V b) { return !(a == b); }                                     \
                                                                                                    \
    GEOM_FRIEND T dot(V a, V b) { return GEOM_FOLD_##N(GEOM_PLUS, GEOM_C_MUL); }                    \
    GEOM_FRIEND T length_squared(V a) { return dot(a, a); }                                         \
    GEOM_FRIEND T distance_squared(V a, V b) { return length_squared(a - b); }                      \
    GEOM_FRIEND T length(V a) { return detail::sqrt(dot(a, a)); }                                   \
    GEOM_FRIEND T distance(V a, V b) { return length(a - b); }                                      \
    GEOM_FRIEND V normalize(V a, V otherwise = V(T(0))) {                                           \
        T squared = dot(a, a);                                                                      \
        return squared == T(0) ? otherwise : a * detail::rsqrt(squared);                            \
    }                                                                                               \
    /* A NaN loses against a number. */                                                             \
    GEOM_FRIEND V min(V a, V b) { return V(GEOM_EACH_##N(GEOM_C_MIN)); }                            \
    GEOM_FRIEND V max(V a, V b) { return V(GEOM_EACH_##N(GEOM_C_MAX)); }                            \
    GEOM_FRIEND V clamp(V a, V low, V high) { return min(max(a, low), high); }                      \
    GEOM_FRIEND V abs(V a) { return V(GEOM_EACH_##N(GEOM_C_ABS)); }                                 \
    GEOM_FRIEND T min_component(V a) { return GEOM_FOLD_##N(detail::min, GEOM_C_SELF); }            \
    GEOM_FRIEND T max_component(V a) { return GEOM_FOLD_##N(detail::max, GEOM_C_SELF); }            \
    /* a at 0, b at 1 up to rounding. */                                                            \
    GEOM_FRIEND V lerp(V a, V b, T t) { return V(GEOM_EACH_##N(GEOM_C_LERP)); }

template <class T>
struct vec2 {
    T x, y;

    GEOM_FN vec2(T x, T y) : x(x), y(y) {}
    GEOM_VEC(vec2, 2, two)

    // i: 0 or 1. A constant index costs nothing.
    GEOM_FN T& operator[](int i) { return i == 0 ? x : y; }
    GEOM_FN const T& operator[](int i) const { return i == 0 ? x : y; }
    // Twice the signed area of the triangle (0, a, b).
    GEOM_FRIEND T cross(vec2 a, vec2 b) { return a.x * b.y - a.y * b.x; }
};

template <class T>
struct vec3 {
    T x, y, z;

    GEOM_FN vec3(T x, T y, T z) : x(x), y(y), z(z) {}
    GEOM_FN vec3(vec2<T> v, T z) : x(v.x), y(v.y), z(z) {}
    GEOM_VEC(vec3, 3, three)

    GEOM_FN vec2<T> xy() const { return vec2<T>(x, y); }
    // i: 0, 1 or 2.
    GEOM_FN T& operator[](int i) { return i == 0 ? x : i == 1 ? y : z; }
    GEOM_FN const T& operator[](int i) const { return i == 0 ? x : i == 1 ? y : z; }
    GEOM_FRIEND vec3 cross(vec3 a, vec3 b) {
        return vec3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
    }
};

template <class T>
struct vec4 {
    T x, y, z, w;

    GEOM_FN vec4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
    GEOM_FN vec4(vec3<T> v, T w) : x(v.x), y(v.y), z(v.z), w(w) {}
    GEOM_VEC(vec4, 4, four)

    GEOM_FN vec3<T> xyz() const { return vec3<T>(x, y, z); }
    // i: 0, 1, 2 or 3.
    GEOM_FN T& operator[](int i) { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
    GEOM_FN const T& operator[](int i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};

#define GEOM_C_EXACT_ADD(c) add(a.c, b.c)
#define GEOM_C_EXACT_SUB(c) sub(a.c, b.c)
#define GEOM_C_EXACT_SCALE(c) mul(a.c, s)
#define GEOM_C_EXACT_MIN(c) min(a.c, b.c)
#define GEOM_C_EXACT_MAX(c) max(a.c, b.c)
#define GEOM_C_EXACT_EQUAL(c) equal(a.c, b.c)
#define GEOM_C_EXACT_FINITE(c) is_finite(a.c)
#define GEOM_EXACT_DOT_2 fma(a.y, b.y, mul(a.x, b.x))
#define GEOM_EXACT_DOT_3 fma(a.z, b.z, GEOM_EXACT_DOT_2)
#define GEOM_EXACT_DOT_4 fma(a.w, b.w, GEOM_EXACT_DOT_3)
#define GEOM_EXACT_FN                                                                               \
    template <class T>                                                                              \
    __device__ __forceinline__

// Vectors of float and double. dot is fma(z, z', fma(y, y', x * x')), one rounding each.
#define GEOM_EXACT_VEC(V, N)                                                                        \
    GEOM_EXACT_FN V<T> add(V<T> a, V<T> b) { return V<T>(GEOM_EACH_##N(GEOM_C_EXACT_ADD)); }        \
    GEOM_EXACT_FN V<T> sub(V<T> a, V<T> b) { return V<T>(GEOM_EACH_##N(GEOM_C_EXACT_SUB)); }        \
    GEOM_EXACT_FN V<T> mul(V<T> a, T s) { return V<T>(GEOM_EACH_##N(GEOM_C_EXACT_SCALE)); }         \
    GEOM_EXACT_FN V<T> min(V<T> a, V<T> b) { return V<T>(GEOM_EACH_##N(GEOM_C_EXACT_MIN)); }        \
    GEOM_EXACT_FN V<T> max(V<T> a, V<T> b) { return V<T>(GEOM_EACH_##N(GEOM_C_EXACT_MAX)); }        \
    GEOM_EXACT_FN bool equal(V<T> a, V<T> b) {                                                      \
        return GEOM_FOLD_##N(GEOM_AND, GEOM_C_EXACT_EQUAL);                                         \
    }                                                                                               \
    GEOM_EXACT_FN bool is_finite(V<T> a) { return GEOM_FOLD_##N(GEOM_AND, GEOM_C_EXACT_FINITE); }   \
    GEOM_EXACT_FN T dot(V<T> a, V<T> b) { return GEOM_EXACT_DOT_##N; }                              \
    GEOM_EXACT_FN T length_squared(V<T> a) { return exact::dot(a, a); }                             \
    GEOM_EXACT_FN T length(V<T> a) { return sqrt(exact::dot(a, a)); }                               \
    GEOM_EXACT_FN T distance_squared(V<T> a, V<T> b) {                                              \
        return exact::length_squared(exact::sub(a, b));                                             \
    }

namespace exact {

GEOM_EXACT_VEC(vec2, 2)
GEOM_EXACT_VEC(vec3, 3)
GEOM_EXACT_VEC(vec4, 4)

// Each component is fma(a, b, -(c * d)): one product is rounded before the difference.
GEOM_EXACT_FN vec3<T> cross(vec3<T> a, vec3<T> b) {
    return vec3<T>(fma(a.y, b.z, neg(mul(a.z, b.y))), fma(a.z, b.x, neg(mul(a.x, b.z))),
                   fma(a.x, b.y, neg(mul(a.y, b.x))));
}

// f32 as f64, and back, to nearest.
__device__ __forceinline__ vec3<double> widen(vec3<float> a) {
    return vec3<double>(widen(a.x), widen(a.y), widen(a.z));
}
__device__ __forceinline__ vec3<float> narrow(vec3<double> a) {
    return vec3<float>(narrow(a.x), narrow(a.y), narrow(a.z));
}

} // namespace exact

#undef GEOM_VEC
#undef GEOM_EXACT_VEC
#undef GEOM_PLUS
#undef GEOM_AND
#undef GEOM_EXACT_DOT_2
#undef GEOM_EXACT_DOT_3
#undef GEOM_EXACT_DOT_4
#undef GEOM_EACH_2
#undef GEOM_EACH_3
#undef GEOM_EACH_4
#undef GEOM_FOLD_2
#undef GEOM_FOLD_3
#undef GEOM_FOLD_4
#undef GEOM_C_NEG
#undef GEOM_C_ADD
#undef GEOM_C_SUB
#undef GEOM_C_MUL
#undef GEOM_C_DIV
#undef GEOM_C_SCALE
#undef GEOM_C_UNSCALE
#undef GEOM_C_EQUAL
#undef GEOM_C_MIN
#undef GEOM_C_MAX
#undef GEOM_C_ABS
#undef GEOM_C_SELF
#undef GEOM_C_ALL
#undef GEOM_C_NATIVE
#undef GEOM_C_CAST
#undef GEOM_C_OUT
#undef GEOM_C_LERP
#undef GEOM_C_EXACT_ADD
#undef GEOM_C_EXACT_SUB
#undef GEOM_C_EXACT_SCALE
#undef GEOM_C_EXACT_MIN
#undef GEOM_C_EXACT_MAX
#undef GEOM_C_EXACT_EQUAL
#undef GEOM_C_EXACT_FINITE
// The other headers of this folder use GEOM_FN, GEOM_FRIEND and GEOM_EXACT_FN.

} // namespace geom
