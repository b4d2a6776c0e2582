// Queries of all items of a hierarchy whose boxes overlap a box, a sphere or a ray.
//
// All of this is written in exact arithmetic (exact.cuh), and decided by the items' own boxes: which items
// are found depends neither on a program's options nor on the tree, but their order does.
//
// `f` is called for each item. It returns nothing, or whether to stop: true ends the query, which then returns true.
// So `[&](unsigned item) { return wanted(item); }` tests whether there is any. `f` may itself query this or another
// hierarchy. Each running query has the stack of a traversal in local memory, 512 bytes, and nothing in shared
// memory.
#pragma once

#include <geom/bvh/point_boxes.cuh>
#include <geom/bvh/ray_boxes.cuh>
#include <geom/bvh/traverse.cuh>
#include <geom/math/ray.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {
namespace bvh {

// Calls a function that returns whether to stop, or nothing.
template <class Result>
struct Call {
    template <class F, class... Args>
    static __device__ __forceinline__ bool stops(F& f, Args... args) {
        return static_cast<bool>(f(args...));
    }
};
template <>
struct Call<void> {
    template <class F, class... Args>
    static __device__ __forceinline__ bool stops(F& f, Args... args) {
        f(args...);
        return false;
    }
};
template <class F, class... Args>
__device__ __forceinline__ bool stops(F& f, Args... args) {
    return Call<decltype(f(args...))>::stops(f, args...);
}

// The items in the order of leaves.
struct Items {
    const aabb<float>* boxes;
    const unsigned* indices;

    __device__ __forceinline__ explicit Items(const Bvh& bvh) : boxes(bvh.boxes), indices(bvh.items) {}
    __device__ __forceinline__ aabb<float> box(unsigned place) const {
        // An item takes 24 bytes, and the first is aligned to 256.
        const float2* at = reinterpret_cast<const float2*>(boxes + place);
        const float2 a = __ldg(at), b = __ldg(at + 1), c = __ldg(at + 2);
        return aabb<float>(vec3<float>(a.x, a.y, b.x), vec3<float>(b.y, c.x, c.y));
    }
    __device__ __forceinline__ unsigned index(unsigned place) const { return __ldg(indices + place); }
};

// A distance to a box of the hierarchy's copy, which has no gradient.
__device__ __forceinline__ float of_box(float distance) {
#ifdef GEOM_AD
    return ad::lost_result(distance);
#else
    return distance;
#endif
}

// The common part of queries of all items: each item is seen once, in no order.
template <class F>
struct Each {
    static constexpr bool ordered = false, votes = false, repeatable = false;
    Items items;
    F& f;

    __device__ __forceinline__ Each(const Bvh& bvh, F& f) : items(bvh), f(f) {}
    __device__ __forceinline__ void restart() {}
    __device__ __forceinline__ void adopt(const Each&) {}
};

// Coordinates that queries may have: numbers of at most 2^60 in magnitude.
__device__ __forceinline__ bool is_in_range(vec3<float> p) {
    using namespace exact;
    const float most = 1152921504606846976.0f;
    return less_equal(abs(p.x), most) && less_equal(abs(p.y), most) && less_equal(abs(p.z), most);
}

template <class F>
struct EachOverlap : Each<F> {
    // The query's box, made finite.
    aabb<float> wanted;

    __device__ __forceinline__ EachOverlap(const Bvh& bvh, const aabb<float>& wanted, F& f)
        : Each<F>(bvh, f), wanted(wanted) {}

    __device__ __forceinline__ unsigned limit() const { return rejected - 1; }
    // The distance of the box from the other; differences of finite numbers have the right sign, and an absent child
    // is infinitely far.
    __device__ __forceinline__ unsigned key(float lx, float ly, float lz, float ux, float uy, float uz,
                                            unsigned child) const {
        using namespace exact;
        const float x = max(sub(lx, wanted.upper.x), sub(wanted.lower.x, ux));
        const float y = max(sub(ly, wanted.upper.y), sub(wanted.lower.y, uy));
        const float z = max(sub(lz, wanted.upper.z), sub(wanted.lower.z, uz));
        return __float_as_int(max(max(x, y), z)) > 0 ? rejected | child : child;
    }
    __device__ __forceinline__ void keys(const Boxes& boxes, unsigned (&key)[4]) const {
        const float4 lx = boxes.lower(0), ly = boxes.lower(1), lz = boxes.lower(2);
        const float4 ux = boxes.upper(0), uy = boxes.upper(1), uz = boxes.upper(2);
        key[0] = this->key(lx.x, ly.x, lz.x, ux.x, uy.x, uz.x, 0);
        key[1] = this->key(lx.y, ly.y, lz.y, ux.y, uy.y, uz.y, 1);
        key[2] = this->key(lx.z, ly.z, lz.z, ux.z, uy.z, uz.z, 2);
        key[3] = this->key(lx.w, ly.w, lz.w, ux.w, uy.w, uz.w, 3);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
#pragma unroll 1
        for (unsigned at = first; at < end; ++at)
            if (overlaps(this->items.box(at), wanted) && stops(this->f, this->items.index(at)))
                return true;
        return false;
    }
};

// The square of a distance that is not negative; finite, so that nothing infinitely far is within it.
__device__ __forceinline__ float finite_square(float distance) {
    return exact::min(exact::mul(distance, distance), detail::largest(0.0f));
}

template <class F>
struct EachWithin : Each<F> {
    PointBoxes point;
    float farthest;

    __device__ __forceinline__ EachWithin(const Bvh& bvh, vec3<float> center, float radius, F& f)
        : Each<F>(bvh, f), point{center}, farthest(finite_square(radius)) {}

    __device__ __forceinline__ unsigned limit() const { return key_limit(farthest); }
    __device__ __forceinline__ void keys(const Boxes& boxes, unsigned (&key)[4]) const {
        point.keys(boxes, key);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
#pragma unroll 1
        for (unsigned at = first; at < end; ++at) {
            const float square = distance_squared(this->items.box(at), point.q);
            if (exact::less_equal(square, farthest) &&
                stops(this->f, this->items.index(at), of_box(square)))
                return true;
        }
        return false;
    }
};

// Prepares a ray for a query; returns false if it meets nothing. t_min becomes at least 0, t_max finite.
//
// If the greatest component of the direction is from 2^-60 to 2^60, `enters` of an item's box implies that RayBoxes
// finds the boxes of the nodes above it met: t along that component does not overflow, so no box is entered that is
// too far; and underflow of t moves a ray by less than 2^-88. Otherwise rounding moves it by less than 8 u m: two
// roundings for each plane, and the factor in `enters`.
template <class Ray>
__device__ __forceinline__ bool prepare(const Ray& from, ray<float>* out) {
    using namespace exact;
#ifdef GEOM_AD
    *out = ray<float>(ad::stop(from.origin), ad::stop(from.direction), max(ad::stop(from.t_min), 0.0f),
                      ad::stop(from.t_max));
#else
    *out = ray<float>(from.origin, from.direction, max(from.t_min, 0.0f), from.t_max);
#endif
    // The sum with 0 turns -0 into 0.
    out->t_max = add(out->t_max, 0.0f);
    const float x = abs(out->direction.x), y = abs(out->direction.y), z = abs(out->direction.z);
    return is_in_range(out->origin) && is_in_range(out->direction) &&
           less_equal(8.673617379884035e-19f, max(max(x, y), z)) && // 2^-60
           less_equal(from.t_min, from.t_max) && less_equal(out->t_min, out->t_max);
}

template <class F>
struct EachAlong : Each<F> {
    ray<float> along;
    RayBoxes nodes;
    float farthest;

    __device__ __forceinline__ EachAlong(const Bvh& bvh, const ray<float>& along, F& f)
        : Each<F>(bvh, f), along(along),
          nodes(bounds_of(bvh), along.origin, along.direction, along.t_min),
          farthest(nodes.scaled(along.t_max)) {}

    __device__ __forceinline__ unsigned limit() const { return rejected - 1; }
    __device__ __forceinline__ void keys(const Boxes& boxes, unsigned (&key)[4]) const {
        nodes.keys(boxes, farthest, key);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
#pragma unroll 1
        for (unsigned at = first; at < end; ++at) {
            float enter;
            if (enters(along, this->items.box(at), &enter) &&
                stops(this->f, this->items.index(at), of_box(enter)))
                return true;
        }
        return false;
    }
};

// Prepares a box for a query: makes it finite; returns false if it is empty or has a NaN.
__device__ __forceinline__ bool can_overlap(const aabb<float>& box, aabb<float>* finite) {
    using exact::less_equal;
    const float most = detail::largest(0.0f);
    *finite = aabb<float>(exact::max(box.lower, vec3<float>(exact::neg(most))),
                          exact::min(box.upper, vec3<float>(most)));
    return less_equal(box.lower.x, box.upper.x) && less_equal(box.lower.y, box.upper.y) &&
           less_equal(box.lower.z, box.upper.z);
}

} // namespace bvh

// Calls `f(item)` for each item whose box overlaps this one; touching is enough. Bounds may be infinite. A box that
// is empty or has a NaN overlaps none.
template <class F>
__device__ __forceinline__ bool for_each_overlap(const Bvh& bvh, const aabb<float>& box, F&& f) {
    aabb<float> finite;
    if (!bvh::can_overlap(box, &finite)) return false;
#ifdef GEOM_AD
    finite = aabb<float>(ad::stop(finite.lower), ad::stop(finite.upper));
#endif
    bvh::EachOverlap<F> query(bvh, finite, f);
    return bvh::traverse(bvh, query);
}

// Calls `f(item, distance_squared)` for each item whose box is not farther than `radius` from `center`: where
// `distance_squared` of the two is at most the rounded square of the radius. There are none if a coordinate is not
// finite or beyond 2^60, or the radius negative or NaN; it may be infinite.
template <class F>
__device__ __forceinline__ bool
for_each_within(const Bvh& bvh, vec3<float> center, float radius, F&& f) {
#ifdef GEOM_AD
    center = ad::stop(center), radius = ad::stop(radius);
#endif
    if (!bvh::is_in_range(center) || !exact::less_equal(0.0f, radius)) return false;
    bvh::EachWithin<F> query(bvh, center, radius, f);
    return bvh::traverse(bvh, query);
}

// Calls `f(item, t)` for each item whose box the ray meets, as defined by `enters` (math/ray.cuh), at t or after. The
// ray is a `ray<float>`, a `MeshRay`, or any type with `origin`, `direction`, `t_min` and `t_max`. There are none if
// its origin or direction is not finite or beyond 2^60, all components of the direction are below 2^-60 in magnitude,
// or t are out of order or NaN; a negative t_min counts as 0.
template <class Ray, class F>
__device__ __forceinline__ bool for_each_along(const Bvh& bvh, const Ray& along, F&& f) {
    ray<float> prepared;
    if (!bvh::prepare(along, &prepared)) return false;
    bvh::EachAlong<F> query(bvh, prepared, f);
    return bvh::traverse(bvh, query);
}

} // namespace geom
