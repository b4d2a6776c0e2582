// The device code of batch calls: queries of a hierarchy by arrays of boxes, spheres and rays.
#pragma once

#include <geom/bvh/order.cuh>
#include <geom/bvh/query.cuh>
#include <geom/bvh/rows.cuh>

namespace geom {
namespace bvh {

// Queries in an array: boxes (`aabb<float>`), rays (`MeshRay`), or the centres of spheres.
struct Queries {
    const void* data;
    // The layout of spheres: coordinate c of centre i is data[i * stride + c * component], in floats.
    unsigned long long stride, component;
    // The radius of each sphere; null if all have `radius`.
    const float* radii;
    float radius;
    unsigned length;
    // The order in which threads take queries, or null.
    const unsigned* order;

    // The query of this thread; `no_index` if it has none.
    __device__ __forceinline__ unsigned mine() const {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= length) return no_index;
        return order != nullptr ? order[i] : i;
    }
};

__device__ __forceinline__ aabb<float> load_box(const Queries& queries, unsigned i) {
    const float* at = static_cast<const float*>(queries.data) + 6ull * i;
    return aabb<float>(vec3<float>(__ldg(at), __ldg(at + 1), __ldg(at + 2)),
                       vec3<float>(__ldg(at + 3), __ldg(at + 4), __ldg(at + 5)));
}
__device__ __forceinline__ vec3<float> load_center(const Queries& queries, unsigned i, float* radius) {
    const float* at = static_cast<const float*>(queries.data) + i * queries.stride;
    *radius = queries.radii ? __ldg(queries.radii + i) : queries.radius;
    return vec3<float>(__ldg(at), __ldg(at + queries.component), __ldg(at + 2 * queries.component));
}

// The kinds of queries. Each calls `f(item)` for every item of query i.
struct OfBoxes {
    template <class F>
    static __device__ __forceinline__ void ask(const Bvh& bvh, const Queries& queries, unsigned i, F&& f) {
        for_each_overlap(bvh, load_box(queries, i), f);
    }
};
struct OfSpheres {
    template <class F>
    static __device__ __forceinline__ void ask(const Bvh& bvh, const Queries& queries, unsigned i, F&& f) {
        float radius;
        const vec3<float> center = load_center(queries, i, &radius);
        for_each_within(bvh, center, radius, [&](unsigned item, float) { f(item); });
    }
};
struct OfRays {
    template <class F>
    static __device__ __forceinline__ void ask(const Bvh& bvh, const Queries& queries, unsigned i, F&& f) {
        const float4* at = static_cast<const float4*>(queries.data) + 2ull * i;
        const float4 a = __ldg(at), b = __ldg(at + 1);
        const MeshRay ray{vec3<float>(a.x, a.y, a.z), a.w, vec3<float>(b.x, b.y, b.z), b.w};
        for_each_along(bvh, ray, [&](unsigned item, float) { f(item); });
    }
};

// Writes the position of each query along a Morton curve through the hierarchy's bounds. A thread for each.
__device__ __forceinline__ void
write_keys(const BvhHeader& header, const Queries& queries, bool boxes, unsigned* keys) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries.length) return;
    float radius;
    const vec3<float> at = boxes ? center(load_box(queries, i)) : load_center(queries, i, &radius);
    keys[i] = morton(header.bounds, at);
}

// A thread for each query of a `Bvh`, or of another scene that `Of` queries.
template <class Of, class Scene>
__device__ __forceinline__ void
count_overlaps(const Scene& scene, const Queries& queries, unsigned* counts) {
    const unsigned i = queries.mine();
    if (i >= queries.length) return;
    unsigned count = 0;
    Of::ask(scene, queries, i, [&](unsigned) { ++count; });
    counts[i] = count;
}

// Writes the items of query i from offsets[i] on, ascending, up to `capacity`. A thread for each query, in whole
// blocks.
template <class Of, class Scene>
__device__ __forceinline__ void list_overlaps(const Scene& scene, const Queries& queries,
                                              const unsigned long long* offsets, unsigned* indices,
                                              unsigned long long capacity) {
    const unsigned i = queries.mine();
    List list(indices, 0);
    if (i < queries.length) {
        const unsigned long long begin = offsets[i], end = min(offsets[i + 1], capacity);
        if (begin < end) {
            list = List(indices + begin, static_cast<unsigned>(end - begin));
            Of::ask(scene, queries, i, [&](unsigned item) { list.add(item); });
        }
    }
    sort_rows(list.elements, list.length);
}

} // namespace bvh
} // namespace geom
