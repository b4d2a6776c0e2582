// Vectors, matrices, quaternions and transforms with ordinary operators: result k of thread i goes
// to out[k * n + i].
#include <geom/math/transform.cuh>

using namespace geom;

// in: 32 numbers a thread.
template <class T>
struct Thread {
    const T* in;
    T* out;
    unsigned n, i, k;

    __device__ vec3<T> three(int at) const { return vec3<T>(in[at], in[at + 1], in[at + 2]); }
    __device__ vec4<T> four(int at) const { return vec4<T>(three(at), in[at + 3]); }
    __device__ void put(T value) { out[k++ * n + i] = value; }
    __device__ void put(vec2<T> v) { put(v.x), put(v.y); }
    __device__ void put(vec3<T> v) { put(v.xy()), put(v.z); }
    __device__ void put(vec4<T> v) { put(v.xyz()), put(v.w); }
    __device__ void put(quat<T> q) { put(q.vector()), put(q.w); }
    __device__ void put(const mat2<T>& m) { put(m.columns[0]), put(m.columns[1]); }
    __device__ void put(const mat3<T>& m) {
        put(m.columns[0]), put(m.columns[1]), put(m.columns[2]);
    }
    __device__ void put(const mat4<T>& m) {
        put(m.columns[0]), put(m.columns[1]), put(m.columns[2]), put(m.columns[3]);
    }
};

template <class T>
__device__ void vectors(Thread<T> t) {
    vec3<T> a = t.three(0), b = t.three(3);
    vec4<T> c = t.four(6), d = t.four(10);
    vec2<T> e = a.xy(), f = b.xy();
    T s = t.in[14];
    t.put(a + b), t.put(a - b), t.put(a * b), t.put(-a), t.put(a * s), t.put(s * a);
    t.put(a / T(4)), t.put(a / vec3<T>(T(2), T(4), T(8)));
    t.put(dot(a, b)), t.put(cross(a, b)), t.put(length(a)), t.put(length_squared(a));
    t.put(distance(a, b)), t.put(distance_squared(a, b)), t.put(normalize(a));
    t.put(min(a, b)), t.put(max(a, b)), t.put(abs(a)), t.put(clamp(a, -abs(b), abs(b)));
    t.put(min_component(a)), t.put(max_component(a)), t.put(lerp(a, b, s));
    t.put(dot(c, d)), t.put(length(c)), t.put(normalize(c)), t.put(min_component(c));
    t.put(dot(e, f)), t.put(cross(e, f)), t.put(normalize(e)), t.put(max_component(e));
    a += b, a *= s, a -= b, a /= T(2), a *= b;
    t.put(a);
    t.put(T(b == t.three(3) && !(b != t.three(3)) && b != b + vec3<T>(T(4))));
    // Through CUDA's own type, and another's.
    typename vec3<T>::native own = b;
    t.put(vec3<T>(own) + own);
    t.put(vec3<T>(vec3<int>(b * T(100))));
    T sum = T(0);
    for (int i = 0; i < 4; i++) sum += T(i + 1) * c[i];
    t.put(sum);
}

template <class T>
__device__ void matrices(Thread<T> t) {
    mat4<T> m(t.four(0), t.four(4), t.four(8), t.four(12));
    mat4<T> m2(t.four(16), t.four(20), t.four(24), t.four(28));
    mat3<T> r(t.three(0), t.three(3), t.three(6)), r2(t.three(9), t.three(12), t.three(15));
    mat2<T> q(t.three(0).xy(), t.three(2).xy());
    t.put(m * m2), t.put(m * t.four(16)), t.put(transpose(m)), t.put(determinant(m));
    t.put(inverse(m));
    t.put(m - T(2) * m2), t.put(mat4<T>::from_rows(t.four(0), t.four(4), t.four(8), t.four(12)));
    t.put(m.row(2)), t.put(m(1, 3)), t.put(m * mat4<T>::identity());
    t.put(outer(t.four(0), t.four(4)));
    t.put(r * r2), t.put(r * t.three(20)), t.put(transpose(r)), t.put(determinant(r));
    t.put(inverse(r));
    t.put(r + r2), t.put(outer(t.three(0), t.three(3))), t.put(skew(t.three(0)) * t.three(3));
    t.put(mat3<T>::from_rows(t.three(0), t.three(3), t.three(6))), t.put(r.row(1));
    t.put(q * q), t.put(q * t.three(20).xy()), t.put(determinant(q)), t.put(inverse(q));
    t.put(outer(t.three(0).xy(), t.three(3).xy()));
}

template <class T>
__device__ void rotations(Thread<T> t) {
    vec3<T> axis = normalize(t.three(0)), p = t.three(4), axis2 = normalize(t.three(7)), found;
    quat<T> q = quat<T>::from_axis_angle(axis, T(3) * t.in[3]);
    quat<T> q2 = quat<T>::from_axis_angle(axis2, T(3) * t.in[10]);
    t.put(q), t.put(rotate(q, p)), t.put(q * q2), t.put(rotate(conjugate(q), p));
    t.put(to_matrix(q));
    t.put(to_matrix(quat<T>::from_matrix(to_matrix(q))));
    t.put(normalize(q * T(3))), t.put(inverse(q * T(2)));
    t.put(to_axis_angle(q, &found)), t.put(found);
    t.put(slerp(q, q2, abs(t.in[11])));
    rigid<T> g(q, t.three(12)), h(q2, t.three(15));
    t.put(point(g, p)), t.put(direction(g, p)), t.put(normal(g, axis2));
    t.put(point(g * h, p)), t.put(point(inverse(g), p));
    affine<T> a(mat3<T>(t.three(18), t.three(21), t.three(24)), t.three(12)), b(h);
    t.put(point(a, p)), t.put(direction(a, p)), t.put(normal(a, axis2));
    t.put(point(a * b, p)), t.put(point(inverse(a), p));
    t.put((to_matrix(a) * vec4<T>(p, T(1))).xyz());
}

// What the headers say of input without a regular answer.
template <class T>
__device__ void degenerate(Thread<T> t) {
    const T zero = T(0), one = T(1);
    vec3<T> o(zero), x(one, zero, zero), y(zero, one, zero);
    t.put(normalize(o)), t.put(normalize(o, x)), t.put(normalize(vec2<T>(zero)));
    t.put(normalize(vec4<T>(zero)));
    mat3<T> flat(x, y, x + y);
    t.put(inverse(flat)), t.put(inverse(mat4<T>::diagonal(vec4<T>(x, one))));
    t.put(inverse(mat2<T>(x.xy(), x.xy())));
    quat<T> none(zero, zero, zero, zero), unit = quat<T>::identity();
    t.put(normalize(none)), t.put(inverse(none));
    vec3<T> axis;
    t.put(to_axis_angle(unit, &axis)), t.put(axis);
    t.put(slerp(unit, unit, T(0.3))), t.put(slerp(unit, -unit, T(0.7)));
    t.put(length(slerp(unit, quat<T>(one, zero, zero, zero), T(0.5))));
    // Halves of a turn, one for each branch of `from_matrix`.
    t.put(quat<T>::from_matrix(mat3<T>::diagonal(vec3<T>(one, -one, -one))));
    t.put(quat<T>::from_matrix(mat3<T>::diagonal(vec3<T>(-one, one, -one))));
    t.put(quat<T>::from_matrix(mat3<T>::diagonal(vec3<T>(-one, -one, one))));
    // Of a projection to a plane; of a reflection.
    affine<T> onto(mat3<T>::diagonal(x + y), o);
    affine<T> mirror(mat3<T>::diagonal(vec3<T>(one, one, -one)), o);
    t.put(normal(onto, vec3<T>(zero, zero, one))), t.put(normal(onto, x));
    t.put(normal(mirror, vec3<T>(zero, zero, one)));
    t.put(point(inverse(onto), x));
    T nan = T(__int_as_float(0x7fffffff));
    t.put(min(vec3<T>(nan, one, one), vec3<T>(one, nan, -one)));
}

#define KERNEL(name, T)                                                                             \
    extern "C" __global__ void name##_##T(const T* in, T* out, unsigned n) {                        \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
        if (i < n) name(Thread<T>{in + 32 * i, out, n, i, 0});                                      \
    }
#define KERNELS(name) KERNEL(name, float) KERNEL(name, double)
KERNELS(vectors)
KERNELS(matrices)
KERNELS(rotations)
KERNELS(degenerate)
