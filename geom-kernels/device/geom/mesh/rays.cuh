// Rays against a mesh: the nearest hit, any hit, all hits, and their number.
//
// All of this is written in exact arithmetic (exact.cuh): the bits depend neither on a program's options nor on the
// tree. `intersect` of a triangle decides which faces are hit, and at which t: it documents why no ray passes between
// faces that share an edge, and why an edge counts once. The nearest hit is that of least (t, face index).
//
// Rounding moves the ray by this much: a vertex less the origin is rounded by u |p| in each axis (u = 2^-24), the
// shear by u |p| twice more; t, from edge functions that are right to 1.5 u, depths and two divisions, by some 8 u
// |p| along the ray's main axis. So the point at t on the ray is less than 16 u |p| from one that lies in the
// triangle's box.
#pragma once

#include <geom/bvh/ray_boxes.cuh>
#include <geom/mesh/packed.cuh>
#include <geom/mesh/triangle/ray.cuh>
#ifdef GEOM_AD
#include <geom/mesh/ad.cuh>
#endif

namespace geom {

// The hit of a ray. `geom_kernels::mesh::RayHit` in Rust.
struct RayHit {
    // Infinite if nothing is hit.
    float t;
    // `no_index` if nothing is hit.
    unsigned face;
    // The point is about (1 - u - v) a + u b + v c, where a, b and c are the face's corners.
    float u, v;
    // 1 if the ray comes from the side to which the face's normal points, else 0.
    unsigned front;
};

// Whether hit a of a ray comes before hit b.
__device__ __forceinline__ bool nearer(const RayHit& a, const RayHit& b) {
    return exact::less(a.t, b.t) || (!exact::less(b.t, a.t) && a.face < b.face);
}

namespace mesh {

__device__ __forceinline__ RayHit no_hit() {
    return RayHit{exact::infinity(), no_index, 0.0f, 0.0f, 0};
}

// Whether the ray hits the triangle, and at which t. The decision is that of `intersect`. t is computed in f32
// instead of f64, except for ties and very large or small numbers: from the same edge functions, each right to an ulp
// and a half, which agree in sign, so it is right to 4 ulp of the farthest corner's t.
__device__ __forceinline__ bool
hits(const RayShear& ray, const Packed& triangle, float t_min, float t_max, float* t) {
    using namespace exact;
    float depth_a, depth_b, depth_c;
    const vec2<float> a = detail::sheared(ray, triangle.corner(0), &depth_a);
    const vec2<float> b = detail::sheared(ray, triangle.corner(1), &depth_b);
    const vec2<float> c = detail::sheared(ray, triangle.corner(2), &depth_c);
    const float at_a = detail::difference_of_products(b, c);
    const float at_b = detail::difference_of_products(c, a);
    const float at_c = detail::difference_of_products(a, b);
    const int one = __float_as_int(at_a);
    const float least = min(min(abs(at_a), abs(at_b)), abs(at_c));
    // The comparison is of integers: neither number is negative.
    bool wide = __float_as_int(least) < __float_as_int(detail::edge_function_least());
    if (wide) {
        // There is a tie, or a number is too small to decide.
        const int side = perturbed_edge_side(b, c);
        if (side == 0 || side != perturbed_edge_side(c, a) || side != perturbed_edge_side(a, b))
            return false;
    } else {
        if (((one ^ __float_as_int(at_b)) | (one ^ __float_as_int(at_c))) < 0) return false;
        const float volume = fma(at_c, depth_c, fma(at_b, depth_b, mul(at_a, depth_a)));
        // Products of three coordinates may overflow or underflow.
        wide = !less_equal(detail::edge_function_least(), abs(volume)) || !is_finite(volume);
        // The division is in two steps, because the direction may have any length.
        *t = div(div(volume, add(add(at_a, at_b), at_c)), ray.along);
    }
    if (wide) {
        const double wide_a = detail::wide_difference_of_products(b, c);
        const double wide_b = detail::wide_difference_of_products(c, a);
        const double wide_c = detail::wide_difference_of_products(a, b);
        const double area = mul(add(add(wide_a, wide_b), wide_c), widen(ray.along));
        const double volume =
            fma(wide_c, widen(depth_c), fma(wide_b, widen(depth_b), mul(wide_a, widen(depth_a))));
        *t = narrow(div(volume, area));
    }
    // The sum with 0 turns -0 into 0.
    *t = add(*t, 0.0f);
    return less_equal(t_min, *t) && less_equal(*t, t_max);
}

// The hit at t, with u and v for the face's own order of corners.
__device__ __forceinline__ RayHit hit_of(const RayShear& shear, const Packed& packed, float t) {
    RayTriangle hit = {0.0f, 0.0f, 0.0f, false};
    intersect(shear, packed.ordered(), exact::neg(exact::infinity()), exact::infinity(), &hit);
    const Places places(packed.word());
    const float of[3] = {exact::max(exact::sub(exact::sub(1.0f, hit.u), hit.v), 0.0f), hit.u, hit.v};
    RayHit out;
    out.t = t;
    out.face = packed.face();
    out.u = places.b == 0 ? of[0] : places.b == 1 ? of[1] : of[2];
    out.v = places.c == 0 ? of[0] : places.c == 1 ? of[1] : of[2];
    out.front = unsigned(hit.front != packed.turned());
    return out;
}

// Calls `f(triangle, t)` for hits, in no order; if it returns true, the query stops.
template <class F>
struct AllHits {
    static constexpr bool ordered = false, votes = false, repeatable = false;
    const MeshTriangle* triangles;
    bvh::RayBoxes boxes;
    RayShear shear;
    float t_min, t_max;
    F f;

    __device__ __forceinline__ void restart() {}
    // The state is in `f`, so nothing is copied.
    __device__ __forceinline__ void adopt(const AllHits&) {}
    __device__ __forceinline__ unsigned limit() const { return bvh::rejected - 1; }
    __device__ __forceinline__ void keys(const bvh::Boxes& of, unsigned (&key)[4]) const {
        boxes.keys(of, boxes.scaled(t_max), key);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
        for (unsigned at = first; at < end; ++at) {
            const Packed packed(triangles[at]);
            float t;
            if (hits(shear, packed, t_min, t_max, &t) && f(packed, t)) return true;
        }
        return false;
    }
};

struct NearestHit {
    static constexpr bool ordered = true, votes = false, repeatable = true;
    const MeshTriangle* triangles;
    bvh::RayBoxes boxes;
    RayShear shear;
    float t_min;
    // The bits of t, which is not negative; in the lower bits the face.
    unsigned long long best;
    unsigned place;
    float farthest;

    __device__ __forceinline__ void restart() {}
    __device__ __forceinline__ void adopt(const NearestHit& copy) { *this = copy; }
    __device__ __forceinline__ float t_max() const {
        return __uint_as_float(static_cast<unsigned>(best >> 32));
    }
    __device__ __forceinline__ unsigned limit() const { return bvh::key_limit(farthest); }
    __device__ __forceinline__ void keys(const bvh::Boxes& of, unsigned (&key)[4]) const {
        boxes.keys(of, farthest, key);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
        for (unsigned at = first; at < end; ++at) {
            const Packed packed(triangles[at]);
            float t;
            if (!hits(shear, packed, t_min, t_max(), &t)) continue;
            const unsigned long long key =
                static_cast<unsigned long long>(__float_as_uint(t)) << 32 | packed.face();
            if (key < best) {
                best = key;
                place = at;
                farthest = boxes.scaled(t);
            }
        }
        return false;
    }
};

#ifdef GEOM_AD
__device__ __forceinline__ MeshRay stopped(const MeshRay& ray) {
    return MeshRay{ad::stop(ray.origin), ad::stop(ray.t_min), ad::stop(ray.direction), ad::stop(ray.t_max)};
}

// A hit that was found by constants, with the gradient of the ray that moves.
__device__ __forceinline__ RayHit moving_hit(const Mesh& mesh, const MeshRay& ray, const Packed& packed,
                                             const RayHit& found) {
    return with_gradient(mesh, ray.origin, ray.direction, face_of(packed, Places(packed.word())), found);
}
#endif

// Whether the ray can hit anything; t_min becomes at least 0, t_max finite.
__device__ __forceinline__ bool can_hit(const RayShear& shear, MeshRay* ray) {
    using namespace exact;
    if (!shear.valid || !less_equal(ray->t_min, ray->t_max)) return false;
    ray->t_min = max(ray->t_min, 0.0f);
    // The sum with 0 turns -0 into 0.
    ray->t_max = add(min(ray->t_max, detail::largest(0.0f)), 0.0f);
    return less_equal(ray->t_min, ray->t_max);
}

} // namespace mesh

// Calls `f(RayHit)`, which returns whether to stop, for every hit of the ray, in no order. Returns whether it was
// stopped.
template <class F>
__device__ __forceinline__ bool for_each_hit(const Mesh& mesh, MeshRay ray, F f) {
#ifdef GEOM_AD
    const MeshRay moving = ray;
    ray = mesh::stopped(ray);
#endif
    const RayShear shear(ray.origin, ray.direction);
    if (!mesh::can_hit(shear, &ray)) return false;
    auto each = [&](const mesh::Packed& packed, float t) {
#ifdef GEOM_AD
        return f(mesh::moving_hit(mesh, moving, packed, mesh::hit_of(shear, packed, t)));
#else
        return f(mesh::hit_of(shear, packed, t));
#endif
    };
    mesh::AllHits<decltype(each)> query{
        mesh.triangles,
        bvh::RayBoxes(bounds_of(mesh.bvh), ray.origin, ray.direction, ray.t_min),
        shear,
        ray.t_min,
        ray.t_max,
        each};
    return bvh::traverse(mesh.bvh, query);
}

// Whether the ray hits anything.
__device__ __forceinline__ bool any_hit(const Mesh& mesh, const MeshRay& ray) {
    return for_each_hit(mesh, ray, [](const RayHit&) { return true; });
}

// The number of faces that the ray hits. A ray through a shared edge or vertex counts as if it passed beside it.
__device__ __forceinline__ unsigned count_hits(const Mesh& mesh, const MeshRay& ray) {
    unsigned hits = 0;
    for_each_hit(mesh, ray, [&](const RayHit&) {
        ++hits;
        return false;
    });
    return hits;
}

// The first face that the ray hits.
__device__ __forceinline__ RayHit nearest_hit(const Mesh& mesh, MeshRay ray) {
#ifdef GEOM_AD
    const MeshRay moving = ray;
    ray = mesh::stopped(ray);
#endif
    const RayShear shear(ray.origin, ray.direction);
    if (!mesh::can_hit(shear, &ray)) return mesh::no_hit();
    mesh::NearestHit query;
    query.triangles = mesh.triangles;
    query.boxes = bvh::RayBoxes(bounds_of(mesh.bvh), ray.origin, ray.direction, ray.t_min);
    query.shear = shear;
    query.t_min = ray.t_min;
    query.best = static_cast<unsigned long long>(__float_as_uint(ray.t_max)) << 32 | no_index;
    query.place = no_index;
    query.farthest = query.boxes.scaled(ray.t_max);
    bvh::traverse(mesh.bvh, query);
    if (query.place == no_index) return mesh::no_hit();
    const mesh::Packed packed(mesh.triangles[query.place]);
#ifdef GEOM_AD
    return mesh::moving_hit(mesh, moving, packed, mesh::hit_of(shear, packed, query.t_max()));
#else
    return mesh::hit_of(shear, packed, query.t_max());
#endif
}

} // namespace geom
