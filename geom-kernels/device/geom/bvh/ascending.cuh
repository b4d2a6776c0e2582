// The items that a query finds, one after the other and in ascending order: for loops of kernels, whose results then
// depend neither on the tree nor on the order of a traversal.
//
//     geom::bvh::Ascending<geom::bvh::Within> near(bvh, geom::bvh::Within{center, radius});
//     while (near.next()) use(near.item(), near.value());
//
// A traversal keeps the least items after those that were returned. If there are more than `room`, the tree is
// traversed again when the loop comes to them. Local memory: 8 bytes for each kept item, and a traversal's stack.
#pragma once

#include <geom/bvh/query.cuh>

namespace geom {
namespace bvh {

// The queries: `each` calls `f(item, value)` for each item.
struct Overlapping {
    aabb<float> box;
    template <class F>
    __device__ __forceinline__ void each(const Bvh& bvh, F&& f) const {
        for_each_overlap(bvh, box, [&](unsigned item) { f(item, 0.0f); });
    }
};
// The value is the square of the distance.
struct Within {
    vec3<float> center;
    float radius;
    template <class F>
    __device__ __forceinline__ void each(const Bvh& bvh, F&& f) const {
        for_each_within(bvh, center, radius, [&](unsigned item, float square) { f(item, square); });
    }
};
// The value is the t from which the ray meets the item's box.
struct Along {
    MeshRay from;
    template <class F>
    __device__ __forceinline__ void each(const Bvh& bvh, F&& f) const {
        for_each_along(bvh, from, [&](unsigned item, float t) { f(item, t); });
    }
};

template <class Query>
struct Ascending {
    static constexpr unsigned room = 32;
    const Bvh& bvh;
    Query query;
    // The kept items, ascending, and how many of them were returned.
    unsigned items[room];
    float values[room];
    unsigned count, returned;
    // The least item of the next traversal, and whether one is needed.
    unsigned begin;
    bool more;

    __device__ __forceinline__ Ascending(const Bvh& bvh, const Query& query)
        : bvh(bvh), query(query), count(0), returned(0), begin(0), more(true) {}

    __device__ __forceinline__ void keep(unsigned item, float value) {
        if (item < begin) return;
        if (count == room) {
            more = true;
            if (item > items[room - 1]) return;
            --count;
        }
        unsigned at = count++;
        for (; at > 0 && items[at - 1] > item; --at) {
            items[at] = items[at - 1];
            values[at] = values[at - 1];
        }
        items[at] = item;
        values[at] = value;
    }

    // Goes to the next item; returns whether there is one.
    __device__ __forceinline__ bool next() {
        if (returned == count) {
            if (!more) return false;
            if (count > 0) begin = items[count - 1] + 1;
            count = returned = 0;
            more = false;
            query.each(bvh, [&](unsigned item, float value) { keep(item, value); });
            if (count == 0) return false;
        }
        ++returned;
        return true;
    }
    __device__ __forceinline__ unsigned item() const { return items[returned - 1]; }
    __device__ __forceinline__ float value() const { return values[returned - 1]; }
};

} // namespace bvh
} // namespace geom
