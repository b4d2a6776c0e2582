// Boxes and rays, in exact arithmetic: result k of thread i goes to out[k * n + i], as a number.
#include <geom/math/ray.cuh>

#define PUT(value) out[k++ * n + i] = (value)
#define PUT3(value)                                                                                 \
    do {                                                                                            \
        geom::vec3<T> v = (value);                                                                  \
        PUT(v.x);                                                                                   \
        PUT(v.y);                                                                                   \
        PUT(v.z);                                                                                   \
    } while (0)

template <class T>
__device__ geom::vec3<T> load(const T* in) {
    return geom::vec3<T>(in[0], in[1], in[2]);
}

// in: 24 numbers a thread: two boxes, a point, a ray's origin and direction, its last t, two not
// used.
template <class T>
__device__ void all(const T* in, T* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    in += 24 * i;
    geom::aabb<T> a(load(in), load(in + 3)), b(load(in + 6), load(in + 9));
    geom::vec3<T> p = load(in + 12);
    geom::ray<T> ray(load(in + 15), load(in + 18), T(0), in[21]);
    PUT(is_empty(a));
    PUT(overlaps(a, b));
    PUT(contains(a, p));
    PUT(contains(a, b));
    PUT(distance_squared(a, p));
    PUT(distance_squared_down(a, p));
    T enter;
    PUT(enters(ray, a, &enter));
    PUT(enter);
    PUT(overlaps(ray, a));
    PUT3(closest_point(a, p));
    PUT3(center(a));
    PUT3(extent(a));
    PUT(surface_area(a));
    PUT(longest_axis(a));
    PUT3(grow(a, p).lower);
    PUT3(grow(a, p).upper);
    PUT3(unite(a, b).lower);
    PUT3(unite(a, b).upper);
    PUT3(intersect(a, b).lower);
    PUT3(intersect(a, b).upper);
    PUT3(expand(a, p.x).lower);
    PUT3(expand(a, p.x).upper);
    PUT(geom::exact::dot(p, a.lower));
    PUT(geom::exact::length(p));
    PUT(geom::exact::distance_squared(p, a.lower));
    PUT3(geom::exact::cross(p, a.lower));
    PUT3(ray.inverse);
}

extern "C" __global__ void of_float(const float* in, float* out, unsigned n) { all(in, out, n); }
extern "C" __global__ void of_double(const double* in, double* out, unsigned n) { all(in, out, n); }
