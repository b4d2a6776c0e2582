// Exact signs, and all that is asked of one triangle. Thread i reads its row of `in`; result k of it
// goes to out[k * n + i], as bits.
#include <geom/mesh/triangle.cuh>

#define PUT(value) out[k++ * n + i] = bits(value)
#define PUT3(value)                                                                                 \
    do {                                                                                            \
        geom::vec3<float> v3 = (value);                                                             \
        PUT(v3.x);                                                                                  \
        PUT(v3.y);                                                                                  \
        PUT(v3.z);                                                                                  \
    } while (0)

__device__ unsigned bits(float value) { return __float_as_uint(value); }
__device__ unsigned bits(int value) { return unsigned(value); }
__device__ unsigned bits(unsigned value) { return value; }
__device__ unsigned bits(bool value) { return value; }

__device__ geom::vec3<float> load(const float* in) {
    return geom::vec3<float>(in[0], in[1], in[2]);
}
__device__ geom::Triangle load_triangle(const float* in) {
    return {load(in), load(in + 3), load(in + 6)};
}

#define KERNEL(name, columns)                                                                       \
    __device__ __forceinline__ void name##_of(const float* in, unsigned* out, unsigned n,           \
                                              unsigned i, unsigned k);                              \
    extern "C" __global__ void name(const float* in, unsigned* out, unsigned n) {                   \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
        if (i < n) name##_of(in + columns * i, out, n, i, 0);                                       \
    }                                                                                               \
    __device__ __forceinline__ void name##_of(const float* in, unsigned* out, unsigned n,           \
                                              unsigned i, unsigned k)

// in: four points of space; the first two numbers of each are one of the plane.
KERNEL(predicates, 12) {
    geom::vec3<float> a = load(in), b = load(in + 3), c = load(in + 6), d = load(in + 9);
    PUT(geom::orient2d(a.xy(), b.xy(), c.xy()));
    PUT(geom::orient3d(a, b, c, d));
    PUT(geom::edge_side(a.xy(), b.xy()));
    PUT(geom::edge_function(a.xy(), b.xy()));
    PUT(geom::perturbed_edge_side(a.xy(), b.xy()));
}

// in: a triangle, a point, flags as bits, u, v, a radius
KERNEL(closest, 16) {
    geom::Triangle t = load_triangle(in);
    geom::vec3<float> q = load(in + 9);
    unsigned flags = __float_as_uint(in[12]);
    geom::TrianglePoint p = closest_point(t, flags, q);
    PUT3(p.position);
    PUT(p.distance_squared);
    PUT(p.u);
    PUT(p.v);
    PUT(p.feature);
    PUT(distance_squared(t, flags, q));
    PUT(overlaps(t, flags, q, in[15]));
    PUT3(at(t, p.u, p.v));
    PUT3(at(t, in[13], in[14]));
    PUT3(normal(t));
    PUT(is_valid(t));
}

// in: a triangle, a ray's origin and direction, its first and its last t
KERNEL(rays, 17) {
    geom::RayShear ray(load(in + 9), load(in + 12));
    geom::RayTriangle hit = {0.0f, 0.0f, 0.0f, false};
    PUT(ray.valid);
    PUT(intersect(ray, load_triangle(in), in[15], in[16], &hit));
    PUT(hit.t);
    PUT(hit.u);
    PUT(hit.v);
    PUT(hit.front);
}

// in: a triangle, a point
KERNEL(crossings, 12) { PUT(crosses(load_triangle(in), load(in + 9))); }

// in: a triangle, a box
KERNEL(overlapping, 15) {
    geom::aabb<float> box(load(in + 9), load(in + 12));
    PUT(overlaps(load_triangle(in), box));
}
