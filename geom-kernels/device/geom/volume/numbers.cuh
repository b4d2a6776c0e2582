// Values that can be interpolated: float, double, and vectors of three or four of them. They are taken apart into
// numbers, computed in one precision, and put together again.
#pragma once

#include <geom/volume/types.cuh>

namespace geom {

// Gradients of a vector's components: `of[i]` is the gradient of component i.
template <class S, int N>
struct VectorGradient {
    vec3<S> of[N];
};

namespace volume {

// The numbers of a value, how many there are, and the type of its gradient.
template <class V>
struct Parts {
    using real = V;
    using gradient = vec3<V>;
    static constexpr int count = 1;
};
template <class S>
struct Parts<vec3<S>> {
    using real = S;
    using gradient = VectorGradient<S, 3>;
    static constexpr int count = 3;
};
template <class S>
struct Parts<vec4<S>> {
    using real = S;
    using gradient = VectorGradient<S, 4>;
    static constexpr int count = 4;
};

// The type of the arithmetic for values V at positions P: double if either is.
template <class A, class B>
struct Wider {
    using type = double;
};
template <>
struct Wider<float, float> {
    using type = float;
};
template <class V, class P>
using Real = typename Wider<typename Parts<V>::real, P>::type;

__device__ __forceinline__ void convert(float from, float& to) { to = from; }
__device__ __forceinline__ void convert(float from, double& to) { to = exact::widen(from); }
__device__ __forceinline__ void convert(double from, double& to) { to = from; }
__device__ __forceinline__ void convert(double from, float& to) { to = exact::narrow(from); }

template <class To, class From>
__device__ __forceinline__ vec3<To> converted(const vec3<From>& v) {
    vec3<To> to;
    convert(v.x, to.x);
    convert(v.y, to.y);
    convert(v.z, to.z);
    return to;
}

__device__ __forceinline__ float& part(float& value, int) { return value; }
__device__ __forceinline__ double& part(double& value, int) { return value; }
template <class S>
__device__ __forceinline__ S& part(vec3<S>& value, int i) {
    return value[i];
}
template <class S>
__device__ __forceinline__ S& part(vec4<S>& value, int i) {
    return value[i];
}

template <class S>
__device__ __forceinline__ vec3<S>& gradient_part(vec3<S>& gradient, int) {
    return gradient;
}
template <class S, int N>
__device__ __forceinline__ vec3<S>& gradient_part(VectorGradient<S, N>& gradient, int i) {
    return gradient.of[i];
}

// The numbers of a value. Operations apply to each of them.
template <class C, int N>
struct Numbers {
    C of[N];
};

template <class C, class V>
__device__ __forceinline__ Numbers<C, Parts<V>::count> taken_apart(V value) {
    Numbers<C, Parts<V>::count> numbers;
#pragma unroll
    for (int i = 0; i < Parts<V>::count; ++i)
        convert(part(value, i), numbers.of[i]);
    return numbers;
}
template <class V, class C>
__device__ __forceinline__ V put_together(const Numbers<C, Parts<V>::count>& numbers) {
    V value;
#pragma unroll
    for (int i = 0; i < Parts<V>::count; ++i)
        convert(numbers.of[i], part(value, i));
    return value;
}
template <class V, class C>
__device__ __forceinline__ typename Parts<V>::gradient
put_together(const Numbers<C, Parts<V>::count>& x, const Numbers<C, Parts<V>::count>& y,
             const Numbers<C, Parts<V>::count>& z) {
    typename Parts<V>::gradient gradient;
#pragma unroll
    for (int i = 0; i < Parts<V>::count; ++i)
        gradient_part(gradient, i) =
            converted<typename Parts<V>::real>(vec3<C>(x.of[i], y.of[i], z.of[i]));
    return gradient;
}

template <class C, int N>
__device__ __forceinline__ Numbers<C, N> difference(const Numbers<C, N>& a, const Numbers<C, N>& b) {
    Numbers<C, N> d;
#pragma unroll
    for (int i = 0; i < N; ++i)
        d.of[i] = exact::sub(a.of[i], b.of[i]);
    return d;
}

// a + t (b - a): rounded twice, and a if a and b are equal.
template <class C, int N>
__device__ __forceinline__ Numbers<C, N> lerp(const Numbers<C, N>& a, const Numbers<C, N>& b, C t) {
    Numbers<C, N> d;
#pragma unroll
    for (int i = 0; i < N; ++i)
        d.of[i] = exact::fma(t, exact::sub(b.of[i], a.of[i]), a.of[i]);
    return d;
}

} // namespace volume
} // namespace geom
