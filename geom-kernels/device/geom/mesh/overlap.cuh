// The faces of a mesh that have a point in common with a box or a ball.
//
// All of this is written in exact arithmetic (exact.cuh): which faces are found depends neither on a program's
// options nor on the tree, but their order depends on the tree.
//
// `f` is called for each face. It returns nothing, or whether to stop: true ends the query, which then returns true.
// Each running query has the stack of a traversal in local memory, 512 bytes.
#pragma once

#include <geom/bvh/query.cuh>
#include <geom/mesh/packed.cuh>
#include <geom/mesh/triangle/closest.cuh>
#include <geom/mesh/triangle/overlap.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {
namespace mesh {

// The tests of a face.
struct ByBox {
    __device__ __forceinline__ bool operator()(const Packed& triangle, const aabb<float>& box) const {
        return overlaps(bounds(triangle.ordered()), box);
    }
    // The box is already known to be near enough.
    __device__ __forceinline__ bool operator()(const Packed&, vec3<float>, float) const { return true; }
};
struct ByFace {
    __device__ __forceinline__ bool operator()(const Packed& triangle, const aabb<float>& box) const {
        return overlaps(triangle.ordered(), box);
    }
    __device__ __forceinline__ bool
    operator()(const Packed& triangle, vec3<float> center, float radius) const {
        const Places places(triangle.word());
        return overlaps(face_of(triangle, places), places.flags(), center, radius);
    }
};

template <class Test, class F>
struct EachInBox : bvh::EachOverlap<F> {
    const MeshTriangle* triangles;

    __device__ __forceinline__ EachInBox(const Mesh& mesh, const aabb<float>& wanted, F& f)
        : bvh::EachOverlap<F>(mesh.bvh, wanted, f), triangles(mesh.triangles) {}
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
#pragma unroll 1
        for (unsigned at = first; at < end; ++at) {
            const Packed triangle(triangles[at]);
            if (Test()(triangle, this->wanted) && bvh::stops(this->f, triangle.face())) return true;
        }
        return false;
    }
};

template <class Test, class F>
struct EachInBall : bvh::EachWithin<F> {
    const MeshTriangle* triangles;
    float radius;

    __device__ __forceinline__ EachInBall(const Mesh& mesh, vec3<float> center, float radius, F& f)
        : bvh::EachWithin<F>(mesh.bvh, center, radius, f), triangles(mesh.triangles), radius(radius) {}
    __device__ __forceinline__ bool leaf(unsigned leaf) {
        const unsigned first = leaf_first(leaf), end = first + leaf_count(leaf);
        const vec3<float> center = this->point.q;
#pragma unroll 1
        for (unsigned at = first; at < end; ++at) {
            const Packed triangle(triangles[at]);
            // The box is tested first: its distance is at most that of its contents, also rounded.
            const float apart = distance_squared(bounds(triangle.ordered()), center);
            if (exact::less_equal(apart, this->farthest) && Test()(triangle, center, radius) &&
                bvh::stops(this->f, triangle.face()))
                return true;
        }
        return false;
    }
};

template <class Test, class F>
__device__ __forceinline__ bool for_each_in_box(const Mesh& mesh, const aabb<float>& box, F& f) {
    aabb<float> wanted;
    if (!bvh::can_overlap(box, &wanted)) return false;
#ifdef GEOM_AD
    wanted = aabb<float>(ad::stop(wanted.lower), ad::stop(wanted.upper));
#endif
    EachInBox<Test, F> query(mesh, wanted, f);
    return bvh::traverse(mesh.bvh, query);
}

template <class Test, class F>
__device__ __forceinline__ bool
for_each_in_ball(const Mesh& mesh, vec3<float> center, float radius, F& f) {
#ifdef GEOM_AD
    center = ad::stop(center), radius = ad::stop(radius);
#endif
    if (!is_valid(center) || !exact::less_equal(0.0f, radius)) return false;
    EachInBall<Test, F> query(mesh, center, radius, f);
    return bvh::traverse(mesh.bvh, query);
}

} // namespace mesh

// Calls `f` for each face that has a point in common with the box; touching is enough. Exact: see `overlaps` of a
// triangle and a box. There are none for a box that is empty or has a NaN in it.
template <class F>
__device__ __forceinline__ bool for_each_overlap(const Mesh& mesh, const aabb<float>& box, F&& f) {
    return mesh::for_each_in_box<mesh::ByFace>(mesh, box, f);
}

// Calls `f` for each face whose box has a point in common with the box.
template <class F>
__device__ __forceinline__ bool for_each_box_overlap(const Mesh& mesh, const aabb<float>& box, F&& f) {
    return mesh::for_each_in_box<mesh::ByBox>(mesh, box, f);
}

// Calls `f` for each face that is not farther from the center than the radius, by the rounded distance of its
// `closest_point` and the rounded square of the radius. There are none for a radius that is negative or NaN.
template <class F>
__device__ __forceinline__ bool
for_each_within(const Mesh& mesh, vec3<float> center, float radius, F&& f) {
    return mesh::for_each_in_ball<mesh::ByFace>(mesh, center, radius, f);
}

// Calls `f` for each face whose box is not farther from the center than the radius.
template <class F>
__device__ __forceinline__ bool
for_each_box_within(const Mesh& mesh, vec3<float> center, float radius, F&& f) {
    return mesh::for_each_in_ball<mesh::ByBox>(mesh, center, radius, f);
}

} // namespace geom
