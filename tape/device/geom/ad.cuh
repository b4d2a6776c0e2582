// Derivatives that the compiler's output does not show: geom::ad::rule, stop and lost.
//
//     // A root by Newton's method: the derivative is known, whatever the iteration does.
//     __device__ float cube_root(float x) {
//         float y = newton(x);
//         return geom::ad::rule(y, x, 1.0f / (3.0f * y * y));
//     }
//
// `OpSpec::differentiate` compiles a kernel twice. In the copy that it reads, GEOM_AD is defined, and these functions
// mark values for the generator of adjoints. In every other program they return their first argument, and what only
// they need is removed.
//
// - `rule(y, x1, d1, x2, d2, ...)` is y, with the differential dy = d1 dx1 + d2 dx2 + ... Whatever y was computed from,
//   it depends on nothing else. Each x and each d is a float or a double, and is converted to the type of y; an x may
//   also be a vector, and its d is one then. The generated adjoint multiplies the gradient of y by each d. A gradient
//   of zero adds zero, also if d is infinite or NaN, where y may not have been chosen: in an arm of a conditional
//   expression, of a minimum or a maximum, or in a branch. Otherwise a d that is not finite makes the gradient of x
//   infinite or NaN.
// - `stop(x)` is x as a constant. If no path is left from the active inputs to the active outputs, `differentiate`
//   fails.
// - `lost(x)` is x with an unknown derivative. `differentiate` fails, and names the line, if an active output depends
//   on it otherwise than through comparisons.
//
// The derivatives d are not differentiated themselves.
#pragma once

namespace geom {

template <typename Num>
struct vec2;
template <typename Num>
struct vec3;
template <typename Num>
struct vec4;

namespace ad {

namespace detail {

template <typename Num>
struct is_real {
    enum { value = 0 };
};
template <>
struct is_real<float> {
    enum { value = 1 };
};
template <>
struct is_real<double> {
    enum { value = 1 };
};

// How many numbers a type has that may be an x or a d: 1 for all but vectors.
template <typename Arg>
struct numbers {
    enum { count = 1 };
};
#define GEOM_AD_NUMBERS(Arg, n)                                                                     \
    template <>                                                                                     \
    struct numbers<Arg> {                                                                           \
        enum { count = n };                                                                         \
    };
#define GEOM_AD_VECTORS(use)                                                                        \
    use(float2, 2) use(float3, 3) use(float4, 4) use(double2, 2) use(double3, 3)
GEOM_AD_VECTORS(GEOM_AD_NUMBERS)
#undef GEOM_AD_NUMBERS
template <typename Num>
struct numbers<vec2<Num>> {
    enum { count = 2 };
};
template <typename Num>
struct numbers<vec3<Num>> {
    enum { count = 3 };
};
template <typename Num>
struct numbers<vec4<Num>> {
    enum { count = 4 };
};

#ifdef GEOM_AD
// Not volatile: what is unused is removed, and equal ones are merged.
#define GEOM_AD_MARKERS(Num, suffix, c)                                                             \
    __device__ __forceinline__ Num stop(Num x) {                                                    \
        Num y;                                                                                      \
        asm("ad.stop." suffix " %0, %1;" : "=" c(y) : c(x));                                        \
        return y;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ Num lost(Num x) {                                                    \
        Num y;                                                                                      \
        asm("ad.lost." suffix " %0, %1;" : "=" c(y) : c(x));                                        \
        return y;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ Num rule(Num y, Num a, Num da) {                                     \
        Num z;                                                                                      \
        asm("ad.rule." suffix " %0, %1, %2, %3;" : "=" c(z) : c(y), c(a), c(da));                   \
        return z;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ Num rule(Num y, Num a, Num da, Num b, Num db) {                      \
        Num z;                                                                                      \
        asm("ad.rule." suffix " %0, %1, %2, %3, %4, %5;"                                            \
            : "=" c(z)                                                                              \
            : c(y), c(a), c(da), c(b), c(db));                                                      \
        return z;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ Num rule(Num y, Num a, Num da, Num b, Num db, Num e, Num de) {       \
        Num z;                                                                                      \
        asm("ad.rule." suffix " %0, %1, %2, %3, %4, %5, %6, %7;"                                    \
            : "=" c(z)                                                                              \
            : c(y), c(a), c(da), c(b), c(db), c(e), c(de));                                         \
        return z;                                                                                   \
    }                                                                                               \
    __device__ __forceinline__ Num rule(Num y, Num a, Num da, Num b, Num db, Num e, Num de, Num f, Num df) { \
        Num z;                                                                                      \
        asm("ad.rule." suffix " %0, %1, %2, %3, %4, %5, %6, %7, %8, %9;"                            \
            : "=" c(z)                                                                              \
            : c(y), c(a), c(da), c(b), c(db), c(e), c(de), c(f), c(df));                            \
        return z;                                                                                   \
    }
#else
#define GEOM_AD_MARKERS(Num, suffix, c)                                                             \
    __device__ __forceinline__ Num stop(Num x) { return x; }                                        \
    __device__ __forceinline__ Num lost(Num x) { return x; }                                        \
    template <typename... Args>                                                                     \
    __device__ __forceinline__ Num rule(Num y, Args...) {                                           \
        return y;                                                                                   \
    }
#endif
GEOM_AD_MARKERS(float, "f32", "f")
GEOM_AD_MARKERS(double, "f64", "d")
#undef GEOM_AD_MARKERS

// Adds a pair to y, which has a derivative already.
template <int count>
struct next {
    template <typename Num, typename Arg, typename Der>
    static __device__ __forceinline__ Num pair(Num y, Num, Arg, Der) {
        return y;
    }
};
template <>
struct next<1> {
    template <typename Num, typename Arg, typename Der>
    static __device__ __forceinline__ Num pair(Num y, Num one, Arg x, Der d) {
        return rule(y, y, one, Num(x), Num(d));
    }
};
template <>
struct next<2> {
    template <typename Num, typename Arg, typename Der>
    static __device__ __forceinline__ Num pair(Num y, Num one, Arg x, Der d) {
        return rule(y, y, one, Num(x.x), Num(d.x), Num(x.y), Num(d.y));
    }
};
template <>
struct next<3> {
    template <typename Num, typename Arg, typename Der>
    static __device__ __forceinline__ Num pair(Num y, Num one, Arg x, Der d) {
        return rule(y, y, one, Num(x.x), Num(d.x), Num(x.y), Num(d.y), Num(x.z), Num(d.z));
    }
};
template <>
struct next<4> {
    template <typename Num, typename Arg, typename Der>
    static __device__ __forceinline__ Num pair(Num y, Num one, Arg x, Der d) {
        return rule(next<3>::pair(y, one, x, d), y, one, Num(x.w), Num(d.w));
    }
};

// Up to four pairs of numbers are one marker, and other lists are a chain that begins with a constant. Args wrong list
// has been reported.
enum { WRONG, SINGLE, CHAIN };
template <int kind>
struct marker {
    template <typename Num, typename... Args>
    static __device__ __forceinline__ Num of(Num y, Args...) {
        return y;
    }
};
template <>
struct marker<SINGLE> {
    template <typename Num, typename... Args>
    static __device__ __forceinline__ Num of(Num y, Args... pairs) {
        return rule(y, Num(pairs)...);
    }
};
template <>
struct marker<CHAIN> {
    template <typename Num>
    static __device__ __forceinline__ Num chain(Num y) {
        return y;
    }
    template <typename Num, typename Arg, typename Der, typename... Rest>
    static __device__ __forceinline__ Num chain(Num y, Arg x, Der d, Rest... rest) {
        enum { fits = (int)numbers<Arg>::count == (int)numbers<Der>::count };
        static_assert(
            fits, "geom::ad::rule(y, x1, d1, ...): an x and its derivative differ in the number of components"
        );
        return chain(next<fits ? numbers<Arg>::count : 0>::pair(y, Num(1), x, d), rest...);
    }
    template <typename Num, typename... Args>
    static __device__ __forceinline__ Num of(Num y, Args... pairs) {
        return chain(stop(y), pairs...);
    }
};

template <typename... Args>
struct scalars {
    enum { value = 1 };
};
template <typename Arg, typename... Rest>
struct scalars<Arg, Rest...> {
    enum { value = numbers<Arg>::count == 1 && scalars<Rest...>::value };
};

}  // namespace detail

// y, with the differential d1 dx1 + d2 dx2 + ...
template <typename Num, typename... Args>
__device__ __forceinline__ Num rule(Num y, Args... pairs) {
    enum {
        real = detail::is_real<Num>::value,
        some = sizeof...(Args) != 0,
        even = sizeof...(Args) % 2 == 0,
        single = sizeof...(Args) <= 8 && detail::scalars<Args...>::value,
    };
    static_assert(real, "geom::ad::rule(y, x1, d1, ...): y must be a float or a double");
    static_assert(some, "geom::ad::rule(y, x1, d1, ...): there is no x; stop(y) makes y a constant");
    static_assert(even, "geom::ad::rule(y, x1, d1, ...): the last x has no derivative");
    return detail::marker<!(real && some && even) ? detail::WRONG : single ? detail::SINGLE : detail::CHAIN>::of(
        y, pairs...
    );
}

// x as a constant.
__device__ __forceinline__ float stop(float x) { return detail::stop(x); }
__device__ __forceinline__ double stop(double x) { return detail::stop(x); }

// x with an unknown derivative.
__device__ __forceinline__ float lost(float x) { return detail::lost(x); }
__device__ __forceinline__ double lost(double x) { return detail::lost(x); }

#define GEOM_AD_EACH_2(f)                                                                           \
    v.x = f(v.x);                                                                                   \
    v.y = f(v.y);
#define GEOM_AD_EACH_3(f)                                                                           \
    GEOM_AD_EACH_2(f)                                                                               \
    v.z = f(v.z);
#define GEOM_AD_EACH_4(f)                                                                           \
    GEOM_AD_EACH_3(f)                                                                               \
    v.w = f(v.w);
#define GEOM_AD_EACH(head, V, n)                                                                    \
    head __device__ __forceinline__ V stop(V v) {                                                   \
        GEOM_AD_EACH_##n(stop) return v;                                                            \
    }                                                                                               \
    head __device__ __forceinline__ V lost(V v) {                                                   \
        GEOM_AD_EACH_##n(lost) return v;                                                            \
    }
#define GEOM_AD_NATIVE(V, n) GEOM_AD_EACH(, V, n)
GEOM_AD_VECTORS(GEOM_AD_NATIVE)
GEOM_AD_EACH(template <typename Num>, vec2<Num>, 2)
GEOM_AD_EACH(template <typename Num>, vec3<Num>, 3)
GEOM_AD_EACH(template <typename Num>, vec4<Num>, 4)
#undef GEOM_AD_NATIVE
#undef GEOM_AD_EACH
#undef GEOM_AD_EACH_4
#undef GEOM_AD_EACH_3
#undef GEOM_AD_EACH_2
#undef GEOM_AD_VECTORS

}  // namespace ad
}  // namespace geom
