// The nearest item of a hierarchy, and the first one along a ray, for items that a function evaluates.
//
// All of this is written in exact arithmetic (exact.cuh). The result is the item of the least (distance, index), or
// (t, index): it depends on the results of the function, but neither on the tree nor on the order in which items are
// visited. For this, a distance less than the distance to the item's box counts as the latter, because an exact
// distance is never less; and so does a t before the ray meets the box.
//
// Each item is visited at most once, roughly nearest first, and only if it can still be the result. The function may
// itself query this or another hierarchy. Local memory: the stack of a traversal, 512 bytes.
#pragma once

#include <geom/bvh/query.cuh>

namespace geom {

// The result.
struct NearestItem {
    // `no_index` if there is none.
    unsigned item;
    // Infinite if there is none.
    float distance_squared;
};
struct FirstItem {
    unsigned item;
    float t;
};

namespace bvh {

// The best result so far: the bits of a number that is not negative, and the item in the lower bits. It begins as the
// limit, with `no_index`.
struct Best {
    unsigned long long key;

    static __device__ __forceinline__ unsigned long long make(float value, unsigned item) {
        return static_cast<unsigned long long>(__float_as_uint(value)) << 32 | item;
    }
    __device__ __forceinline__ float value() const {
        return __uint_as_float(static_cast<unsigned>(key >> 32));
    }
    __device__ __forceinline__ unsigned item() const { return static_cast<unsigned>(key); }
    // Whether an item with at least this value may replace the best.
    __device__ __forceinline__ bool admits(float least, unsigned item) const {
        return make(least, item) < key;
    }
    // Takes a value from `lowest` to the best value; a value less than `least` counts as `least`. A NaN is ignored.
    __device__ __forceinline__ void take(float found, float lowest, float least, unsigned item) {
#ifdef GEOM_AD
        found = ad::stop(found);
#endif
        if (!exact::less_equal(lowest, found) || !exact::less_equal(found, value())) return;
        const unsigned long long other = make(exact::max(found, least), item);
        if (other < key) key = other;
    }
};

template <class F>
struct NearestQuery {
    static constexpr bool ordered = true, votes = false, repeatable = false;
    Items items;
    PointBoxes point;
    Best best;
    F& f;

    __device__ __forceinline__ void restart() {}
    __device__ __forceinline__ void adopt(const NearestQuery&) {}
    __device__ __forceinline__ unsigned limit() const { return key_limit(best.value()); }
    __device__ __forceinline__ void keys(const Boxes& boxes, unsigned (&key)[4]) const {
        point.keys(boxes, key);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
#pragma unroll 1
        for (unsigned at = first; at < end; ++at) {
            const unsigned item = items.index(at);
            const float least = distance_squared(items.box(at), point.q);
            if (best.admits(least, item)) best.take(f(item, best.value()), 0.0f, least, item);
        }
        return false;
    }
};

template <class F>
struct FirstQuery {
    static constexpr bool ordered = true, votes = false, repeatable = false;
    Items items;
    ray<float> along;
    RayBoxes nodes;
    float farthest;
    Best best;
    F& f;

    __device__ __forceinline__ void restart() {}
    __device__ __forceinline__ void adopt(const FirstQuery&) {}
    __device__ __forceinline__ unsigned limit() const { return key_limit(farthest); }
    __device__ __forceinline__ void keys(const Boxes& boxes, unsigned (&key)[4]) const {
        nodes.keys(boxes, farthest, key);
    }
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
#pragma unroll 1
        for (unsigned at = first; at < end; ++at) {
            const unsigned item = items.index(at);
            float enter;
            if (!enters(along, items.box(at), &enter) || !best.admits(enter, item)) continue;
            best.take(f(item, enter, along.t_max), along.t_min, enter, item);
            along.t_max = best.value();
            farthest = nodes.scaled(along.t_max);
        }
        return false;
    }
};

} // namespace bvh

// The nearest item within `max_distance` of p, which may be infinite. `f(item, limit)` returns the square of an
// item's distance; it may return any greater number beyond `limit`, the least that was found so far. An item whose
// distance is infinite, negative or NaN is not found. There is no result if a coordinate of p is not finite or beyond
// 2^60, or `max_distance` negative or NaN.
template <class F>
__device__ __forceinline__ NearestItem
nearest(const Bvh& bvh, vec3<float> p, float max_distance, F&& f) {
    NearestItem found{no_index, exact::infinity()};
#ifdef GEOM_AD
    p = ad::stop(p), max_distance = ad::stop(max_distance);
#endif
    if (!bvh::is_in_range(p) || !exact::less_equal(0.0f, max_distance)) return found;
    const bvh::Best none{bvh::Best::make(bvh::finite_square(max_distance), no_index)};
    bvh::NearestQuery<F> query{bvh::Items(bvh), {p}, none, f};
    bvh::traverse(bvh, query);
    if (query.best.item() != no_index) {
        found.item = query.best.item();
        found.distance_squared = query.best.value();
#ifdef GEOM_AD
        found.distance_squared = ad::lost_result(found.distance_squared);
#endif
    }
    return found;
}

// The first item along a ray, which is one as for `for_each_along`. `f(item, t_enter, t_max)` returns the t at which
// the ray hits an item whose box it meets from `t_enter` on; it may return any greater number beyond `t_max`, the
// least t that was found so far. A t that is less than the ray's t_min, infinite or NaN is no hit.
template <class Ray, class F>
__device__ __forceinline__ FirstItem first_along(const Bvh& bvh, const Ray& along, F&& f) {
    FirstItem found{no_index, exact::infinity()};
    ray<float> prepared;
    if (!bvh::prepare(along, &prepared)) return found;
    const bvh::RayBoxes nodes(bounds_of(bvh), prepared.origin, prepared.direction, prepared.t_min);
    const bvh::Best none{bvh::Best::make(prepared.t_max, no_index)};
    bvh::FirstQuery<F> query{bvh::Items(bvh), prepared, nodes, nodes.scaled(prepared.t_max), none, f};
    bvh::traverse(bvh, query);
    if (query.best.item() != no_index) {
        found.item = query.best.item();
        found.t = query.best.value();
#ifdef GEOM_AD
        found.t = ad::lost_result(found.t);
#endif
    }
    return found;
}

} // namespace geom
