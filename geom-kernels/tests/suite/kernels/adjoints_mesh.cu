// Adjoints of what is asked of one triangle. Thread i reads row i of `in` and writes row i of `out`.
#include <geom/mesh/adjoint.cuh>
#include <geom/mesh/triangle.cuh>

using namespace geom;

namespace {

template <class T>
struct Row {
    const T* in;
    T* out;

    __device__ T take() { return *in++; }
    __device__ vec3<T> take3() {
        const vec3<T> v(in[0], in[1], in[2]);
        in += 3;
        return v;
    }
    __device__ Corners3<T> corners() {
        const vec3<T> a = take3(), b = take3(), c = take3();
        return {a, b, c};
    }
    __device__ void put(T value) { *out++ = value; }
    __device__ void put(vec3<T> v) {
        put(v.x);
        put(v.y);
        put(v.z);
    }
    __device__ void put(const Corners3<T>& t) {
        put(t.a);
        put(t.b);
        put(t.c);
    }
    __device__ void put(const ClosestGradient<T>& g) {
        put(g.q);
        put(g.corners);
    }
};

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

} // namespace

#define KERNEL(name, columns, results)                                                              \
    template <class T>                                                                              \
    __device__ void name##_of(Row<T> row);                                                          \
    extern "C" __global__ void name##_f32(const float* in, unsigned n, float* out) {                \
        if (thread() < n)                                                                           \
            name##_of(Row<float>{in + columns * thread(), out + results * thread()});               \
    }                                                                                               \
    extern "C" __global__ void name##_f64(const double* in, unsigned n, double* out) {              \
        if (thread() < n)                                                                           \
            name##_of(Row<double>{in + columns * thread(), out + results * thread()});              \
    }                                                                                               \
    template <class T>                                                                              \
    __device__ void name##_of(Row<T> row)

// in: corners, q, feature, the signed distance, gradients of the position, of u, v, of the distance, its square, and
// with a sign. out: those of q and the corners, from each; and the feature that the forward finds.
KERNEL(closest, 22, 49) {
    const Corners3<T> corners = row.corners();
    const vec3<T> q = row.take3();
    const unsigned feature = unsigned(exact::floor_to_int(row.take()));
    const T value = row.take();
    const vec3<T> g = row.take3();
    const T g_u = row.take(), g_v = row.take();
    const ClosestAdjoint<T> adjoint(corners, q, feature);
    row.put(adjoint.point(g, g_u, g_v));
    row.put(adjoint.distance(exact::abs(value), row.take()));
    row.put(adjoint.distance_squared(row.take()));
    row.put(adjoint.signed_distance(value, row.take()));
    const auto narrow = [](vec3<T> p) { return adjoint::rounded<float>(adjoint::wide(p)); };
    const Triangle triangle = {narrow(corners.a), narrow(corners.b), narrow(corners.c)};
    row.put(T(closest_point(triangle, 0, narrow(q)).feature));
}

// in: corners, origin, direction, gradients of t, u, v. out: those of origin, direction, corners.
KERNEL(ray_hit, 18, 15) {
    const Corners3<T> corners = row.corners();
    const vec3<T> origin = row.take3(), direction = row.take3(), g = row.take3();
    const RayGradient<T> out = ray_hit_adjoint(corners, origin, direction, g.x, g.y, g.z);
    row.put(out.origin);
    row.put(out.direction);
    row.put(out.corners);
}

// in: corners, u, v, the gradient of the position. out: those of the corners, u and v; the same once more, by
// components.
KERNEL(position_at, 14, 22) {
    const Corners3<T> t = row.corners();
    const T u = row.take(), v = row.take();
    const vec3<T> g = row.take3();
    const PositionGradient<T> out = position_at_adjoint(t, u, v, g);
    row.put(out.corners);
    row.put(out.u);
    row.put(out.v);
    AttributeGradient<T> of[3];
    for (int i = 0; i < 3; ++i)
        of[i] = attribute_at_adjoint(t.a[i], t.b[i], t.c[i], u, v, g[i]);
    row.put(vec3<T>(of[0].a, of[1].a, of[2].a));
    row.put(vec3<T>(of[0].b, of[1].b, of[2].b));
    row.put(vec3<T>(of[0].c, of[1].c, of[2].c));
    row.put(exact::add(exact::add(of[0].u, of[1].u), of[2].u));
    row.put(exact::add(exact::add(of[0].v, of[1].v), of[2].v));
}

// in: corners, a gradient. out: the corners', of the unit normal and of the area's vector.
KERNEL(normal, 12, 18) {
    const Corners3<T> corners = row.corners();
    const vec3<T> g = row.take3();
    row.put(face_normal_adjoint(corners, g));
    row.put(area_vector_adjoint(corners, g));
}

// in: a vertex, the five around it, the gradient of its normal. out: those of all six.
KERNEL(vertex_normal, 21, 18) {
    const vec3<T> at = row.take3();
    vec3<T> around[5];
    for (int i = 0; i < 5; ++i)
        around[i] = row.take3();
    const vec3<T> g = row.take3();
    vec3<double> sum(0.0);
    double angles = 0.0;
    for (int i = 0; i < 5; ++i) {
        const vec3<double> a = adjoint::wide(at);
        const vec3<double> ab = exact::sub(adjoint::wide(around[i]), a);
        const vec3<double> ac = exact::sub(adjoint::wide(around[(i + 1) % 5]), a);
        const vec3<double> area = exact::cross(ab, ac);
        const double length = exact::length(area);
        if (exact::equal(length, 0.0)) continue;
        const double angle = exact::atan2(length, exact::dot(ab, ac));
        sum = exact::add(sum, exact::mul(area, exact::div(angle, length)));
        angles = exact::add(angles, angle);
    }
    const vec3<T> g_sum = vertex_normal_adjoint(sum, angles, g);
    vec3<T> of_vertex(T(0)), of_around[5];
    for (int i = 0; i < 5; ++i)
        of_around[i] = vec3<T>(T(0));
    for (int i = 0; i < 5; ++i) {
        const int next = (i + 1) % 5;
        const Corners3<T> of = corner_normal_adjoint({at, around[i], around[next]}, g_sum);
        of_vertex = exact::add(of_vertex, of.a);
        of_around[i] = exact::add(of_around[i], of.b);
        of_around[next] = exact::add(of_around[next], of.c);
    }
    row.put(of_vertex);
    for (int i = 0; i < 5; ++i)
        row.put(of_around[i]);
}
