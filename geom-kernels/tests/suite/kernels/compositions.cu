// Operations of long recordings, for numbers of two types. The closest point of a few triangles is found by asking
// each of them; its adjoint is that of the headers.
#include <geom/mesh.cuh>
#include <geom/mesh/adjoint.cuh>
#include <geom/tape.cuh>

using namespace geom;
using namespace geom::tape;

__device__ inline unsigned at_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class T>
struct Best {
    vec3<T> p;
    T square;
    unsigned answer;
    __device__ void offer(vec3<T> at, vec3<T> q, unsigned which) {
        const T d = length_squared(q - at);
        if (!(d < square)) return;
        p = at;
        square = d;
        answer = which;
    }
};

template <class T>
__device__ void ask(Best<T>& best, const Corners3<T>& t, vec3<T> q, unsigned face) {
    const vec3<T> ab = t.b - t.a, ac = t.c - t.a, aq = q - t.a, n = cross(ab, ac);
    const T n2 = length_squared(n), u = dot(n, cross(aq, ac)) / n2, v = dot(n, cross(ab, aq)) / n2;
    if (u > T(0) && v > T(0) && u + v < T(1))
        return best.offer(t.a + ab * u + ac * v, q, face << 3 | feature_face);
    const vec3<T> corners[4] = {t.a, t.b, t.c, t.a};
    for (unsigned i = 0; i < 3; ++i) {
        const vec3<T> along = corners[i + 1] - corners[i];
        const T s = dot(q - corners[i], along) / length_squared(along);
        best.offer(corners[i], q, face << 3 | i);
        if (s > T(0) && s < T(1)) best.offer(corners[i] + along * s, q, face << 3 | (feature_edge + i));
    }
}

template <class T>
__device__ Corners3<T> corners_of(const vec3<T>* vertices, unsigned face) {
    return {vertices[3 * face], vertices[3 * face + 1], vertices[3 * face + 2]};
}

// The closest point of the triangles of three vertices each, and which one it is.
template <class T>
__device__ void closest(const vec3<T>* vertices, unsigned count, const vec3<T>* x, vec3<T>* p, unsigned* answers,
                        unsigned n) {
    const unsigned i = at_thread();
    if (i >= n) return;
    Best<T> best = {vec3<T>(T(0)), T(1e30), 0};
    for (unsigned face = 0; 3 * face < count; ++face)
        ask(best, corners_of(vertices, face), x[i], face);
    p[i] = best.p;
    answers[i] = best.answer;
}

template <class T>
__device__ void closest_back(const vec3<T>* vertices, const vec3<T>* x, const unsigned* answers, unsigned n,
                             vec3<T>* g_vertices, vec3<T>* g_x, vec3<T>* g_p, const Frame& frame) {
    if (!begin(frame)) return;
    const unsigned i = at_thread();
    if (i >= n) return;
    const vec3<T> g = grad_take(frame, 2, at(g_p, i));
    const unsigned face = answers[i] >> 3;
    const ClosestAdjoint<T> adjoint(corners_of(vertices, face), x[i], answers[i] & 7);
    const ClosestGradient<T> by = adjoint.point(g);
    grad_own(frame, 1, at(g_x, i), by.q);
    grad_add(frame, 0, at(g_vertices, 3 * face), by.corners.a);
    grad_add(frame, 0, at(g_vertices, 3 * face + 1), by.corners.b);
    grad_add(frame, 0, at(g_vertices, 3 * face + 2), by.corners.c);
}

// In place: x += rate (p - x + p x x).
template <class T>
__device__ vec3<T> followed(vec3<T> x, vec3<T> p, T rate) {
    return x + (p - x + cross(p, x)) * rate;
}
template <class T>
__device__ vec3<T> followed_by_x(vec3<T> g, vec3<T> p, T rate) {
    return g + (cross(g, p) - g) * rate;
}
template <class T>
__device__ vec3<T> followed_by_p(vec3<T> g, vec3<T> x, T rate) {
    return (g + cross(x, g)) * rate;
}

// In place: x += rate value (x / 4 + (1, -1, 1)); and in which cell x was.
template <class T>
__device__ vec3<T> way(vec3<T> x) {
    return x * T(0.25) + vec3<T>(T(1), T(-1), T(1));
}

#define COMPOSITION(T, suffix)                                                                                \
    extern "C" __global__ void closest_##suffix(const vec3<T>* vertices, unsigned count, const vec3<T>* x,    \
                                                vec3<T>* p, unsigned* answers, unsigned n) {                  \
        closest(vertices, count, x, p, answers, n);                                                           \
    }                                                                                                         \
    extern "C" __global__ void closest_##suffix##_adjoint(                                                    \
        const vec3<T>* vertices, unsigned, const vec3<T>* x, vec3<T>*, const unsigned* answers, unsigned n,   \
        vec3<T>* g_vertices, vec3<T>* g_x, vec3<T>* g_p, Frame frame) {                                       \
        closest_back(vertices, x, answers, n, g_vertices, g_x, g_p, frame);                                   \
    }                                                                                                         \
    extern "C" __global__ void follow_##suffix(vec3<T>* x, const vec3<T>* p, T rate, unsigned n) {            \
        const unsigned i = at_thread();                                                                       \
        if (i < n) x[i] = followed(x[i], p[i], rate);                                                         \
    }                                                                                                         \
    extern "C" __global__ void follow_##suffix##_adjoint(const vec3<T>* x, const vec3<T>* p, T rate,          \
                                                         unsigned n, vec3<T>* g_x, vec3<T>* g_p,              \
                                                         Frame frame) {                                       \
        if (!begin(frame)) return;                                                                            \
        const unsigned i = at_thread();                                                                       \
        if (i >= n) return;                                                                                   \
        const vec3<T> g = grad_read(at(g_x, i));                                                              \
        grad_own(frame, 1, at(g_p, i), followed_by_p(g, x[i], rate));                                         \
        grad_replace(at(g_x, i), followed_by_x(g, p[i], rate));                                               \
    }                                                                                                         \
    extern "C" __global__ void drift_##suffix(vec3<T>* x, const T* value, unsigned* cells, T rate,            \
                                              unsigned n) {                                                   \
        const unsigned i = at_thread();                                                                       \
        if (i >= n) return;                                                                                   \
        const vec3<T> p = x[i];                                                                               \
        cells[i] = (unsigned(int(floor(p.x))) & 255) << 16 | (unsigned(int(floor(p.y))) & 255) << 8           \
            | (unsigned(int(floor(p.z))) & 255);                                                              \
        x[i] = p + way(p) * (rate * value[i]);                                                                \
    }                                                                                                         \
    extern "C" __global__ void drift_##suffix##_adjoint(const vec3<T>* x, const T* value, unsigned*, T rate,  \
                                                        unsigned n, vec3<T>* g_x, T* g_value, Frame frame) {  \
        if (!begin(frame)) return;                                                                            \
        const unsigned i = at_thread();                                                                       \
        if (i >= n) return;                                                                                   \
        const vec3<T> g = grad_read(at(g_x, i));                                                              \
        grad_own(frame, 1, at(g_value, i), rate * dot(g, way(x[i])));                                         \
        grad_replace(at(g_x, i), g + g * (T(0.25) * rate * value[i]));                                        \
    }

COMPOSITION(float, f32)
COMPOSITION(double, f64)

// As `follow`, with the results of a mesh.
extern "C" __global__ void follow_found(vec3<float>* x, const ClosestPoint* found, float rate, unsigned n) {
    const unsigned i = at_thread();
    if (i < n) x[i] = followed(x[i], found[i].position, rate);
}
extern "C" __global__ void follow_found_adjoint(const vec3<float>* x, const ClosestPoint* found, float rate,
                                                unsigned n, vec3<float>* g_x, ClosestPoint* g_found,
                                                Frame frame) {
    if (!begin(frame)) return;
    const unsigned i = at_thread();
    if (i >= n) return;
    const vec3<float> g = grad_read(at(g_x, i));
    if (g_found != nullptr) grad_own(frame, 1, &g_found[i].position, followed_by_p(g, x[i], rate));
    grad_replace(at(g_x, i), followed_by_x(g, found[i].position, rate));
}
