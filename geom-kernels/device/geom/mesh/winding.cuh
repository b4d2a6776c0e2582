// Winding numbers: how often a mesh winds around a point. 1 inside a closed mesh whose faces are oriented outwards, 0
// outside; for an open mesh, or one with holes, overlaps or stray faces, a value between, which is greater for points
// that are more likely inside: A. Jacobson, L. Kavan, O. Sorkine-Hornung: Robust Inside-Outside Segmentation using
// Generalized Winding Numbers. 2013.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options, and a thread always
// sums in the same order. But the number is an approximation that depends on the tree: distant parts of the mesh are
// replaced by a series (mesh/moments.cuh). So its bits depend on the builder.
//
// A part is distant if its distance is more than beta times its radius. The omitted terms of the series have a
// relative size of beta^-3 and less. Measured (the greatest error / the nodes visited for a point, half of the points
// in the box of a knotted tube of 1 M triangles, the others farther away):
//   beta 1.5: 1.2e-2 / 10    beta 2: 5e-3 / 18    beta 3: 7e-4 / 41    beta 4: 3e-4 / 76
// With beta infinite all triangles are summed. Then the number is right to some 1e-6 for q away from edges; it is
// undetermined if q lies on an edge within the precision of f32.
//
// Edges shorter than 2^-60 are ignored.
#pragma once

#include <geom/bvh/traverse.cuh>
#include <geom/math/angle.cuh>
#include <geom/mesh/closest.cuh>
#include <geom/mesh/moments.cuh>

namespace geom {
namespace mesh {

// 1 / sqrt(a) to about an ulp; values less than 2^-126 count as 2^-126. It uses only operations with the same bits
// everywhere, and is faster than a root and a division: half the exponent gives it to 4%, and each step cubes the
// error.
__device__ __forceinline__ float inverse_root(float a) {
    using namespace exact;
    a = max(a, 1.17549435e-38f);
    float root = __uint_as_float(0x5f37642fu - (__float_as_uint(a) >> 1));
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        const float off = fma(neg(mul(a, root)), root, 1.0f);
        root = fma(mul(root, off), fma(0.375f, off, 0.5f), root);
    }
    return root;
}

// A compensated sum (Kahan).
struct WindingSum {
    float value = 0.0f, excess = 0.0f;

    __device__ __forceinline__ void add(float term) {
        using namespace exact;
        const float part = sub(term, excess), sum = exact::add(value, part);
        excess = sub(sub(sum, value), part);
        value = sum;
    }
};

// The tangent of half the solid angle of a triangle as a fraction: A. van Oosterom, J. Strackee: The Solid Angle of a
// Plane Triangle. 1983. Both parts are divided by the product of the lengths of a, b and c, which lead from q to the
// corners. The volume that they span is computed from the triangle's edges and the shortest of the three, so that the
// rounding error is in proportion to the area and the distance to the nearest corner.
__device__ __forceinline__ void
solid_angle(vec3<float> a, vec3<float> b, vec3<float> c, vec3<float> area, float* over, float* under) {
    using namespace exact;
    const float ia = inverse_root(exact::length_squared(a));
    const float ib = inverse_root(exact::length_squared(b));
    const float ic = inverse_root(exact::length_squared(c));
    const float ab = mul(mul(exact::dot(a, b), ia), ib), bc = mul(mul(exact::dot(b, c), ib), ic);
    const float ca = mul(mul(exact::dot(c, a), ic), ia);
    *under = add(add(ab, bc), add(ca, 1.0f));
    const float least = min(ia, ib), more = max(ia, ib);
    const vec3<float> of_two = less(ia, ib) ? b : a, nearest = less(more, ic) ? c : of_two;
    const float height = exact::dot(exact::mul(nearest, max(more, ic)), area);
    *over = mul(mul(height, least), min(more, ic));
}

// The part of the winding number that is due to some consecutive triangles.
//
// Tangents are represented as complex numbers, whose product has the sum of their angles, so that one arc tangent is
// enough. `turns` counts crossings of the negative axis. The angle of a factor is between -pi and pi, so the product
// moves from the upper half plane to the lower one by a factor of the upper half plane only across that axis.
__device__ __forceinline__ float winding_of(const MeshTriangle* triangles, unsigned first, unsigned end,
                                            vec3<float> q) {
    using namespace exact;
    float re = 1.0f, im = 0.0f, turns = 0.0f;
#pragma unroll 1
    for (unsigned at = first; at < end; ++at) {
        const float4* from = reinterpret_cast<const float4*>(triangles + at);
        const float4 v0 = from[0], v1 = from[1], v2 = from[2];
        const vec3<float> a(v0.x, v0.y, v0.z), b(v1.x, v1.y, v1.z), c(v2.x, v2.y, v2.z);
        const vec3<float> area = exact::cross(exact::sub(b, a), exact::sub(c, a));
        float over, under;
        solid_angle(exact::sub(a, q), exact::sub(b, q), exact::sub(c, q), area, &over, &under);
        // The solid angle is 0 if q is in the plane of the triangle; the triangle is skipped also if it has no area
        // or is invalid (NaN).
        if (!less(0.0f, abs(over))) continue;
        // The sign is reversed for reordered corners.
        over = __uint_as_float(__float_as_uint(over) ^ (__float_as_uint(v0.w) & 0x80000000u));
        const bool below = less(im, 0.0f), down = less(over, 0.0f);
        const float real = fma(re, under, neg(mul(im, over)));
        im = fma(re, over, mul(im, under));
        re = real;
        if (below == down && less(im, 0.0f) != below) turns = add(turns, below ? -1.0f : 1.0f);
    }
    return fma(exact::atan2(im, re), 0.159154943f, turns); // 1 / 2 pi
}

// A sum over the tree for one point.
struct Winding {
    const NodeMoments* nodes;
    const MeshTriangle* triangles;
    vec3<float> q;
    float beta;
    WindingSum sum;

    // Adds a child if it is distant. Returns whether it is.
    __device__ __forceinline__ bool add_far(const ChildMoments& child, unsigned* opened) {
        using namespace exact;
        const float4* from = reinterpret_cast<const float4*>(&child);
        const float4 ball = from[0], dipole = from[1];
        *opened = __float_as_uint(dipole.w);
        if (*opened == no_index) return true;
        const vec3<float> d(sub(ball.x, q.x), sub(ball.y, q.y), sub(ball.z, q.z));
        const float square = exact::length_squared(d), near = mul(beta, ball.w);
        if (!less(mul(near, near), square)) return false;
        const float4 q0 = from[2], q1 = from[3], o1 = from[4];
        const float inverse = inverse_root(square), size = mul(ball.w, inverse);
        const float scale = mul(size, inverse);
        const float x = mul(d.x, scale), y = mul(d.y, scale), z = mul(d.z, scale);
        const float zz = mul(z, z), twice = add(zz, zz), yz = mul(y, z);
        const float xx = fma(x, x, neg(zz)), yy = fma(y, y, neg(zz));
        float of_x = fma(q0.z, y, fma(q0.w, z, dipole.x)), of_y = fma(q1.x, z, dipole.y);
        of_x = fma(q1.y, sub(xx, twice), of_x);
        of_x = fma(o1.w, yz, fma(q1.z, yy, of_x));
        of_y = fma(o1.x, sub(yy, twice), fma(q1.w, xx, of_y));
        float of_z = fma(o1.y, fma(3.0f, xx, twice), dipole.z);
        of_z = fma(o1.z, fma(3.0f, yy, twice), of_z);
        float all = fma(q0.x, xx, mul(q0.y, yy));
        all = fma(x, of_x, fma(y, of_y, fma(z, of_z, all)));
        sum.add(mul(size, all));
        return true;
    }

    __device__ __forceinline__ void add_near(unsigned leaf) {
        const unsigned first = leaf_first(leaf);
        sum.add(winding_of(triangles, first, first + leaf_count(leaf), q));
    }
};

// Adds all triangles below a node without a stack, from parent to parent.
__device__ __noinline__ WindingSum walk_winding(const BvhNode* tree, unsigned top, Winding winding) {
    unsigned node = top, next = 0;
    for (;;) {
        if (next == 4) {
            if (node == top) return winding.sum;
            const unsigned parent = tree[node].parent;
            if (parent == no_index) return winding.sum;
            node = parent / 4;
            next = parent % 4 + 1;
            continue;
        }
        unsigned child;
        if (winding.add_far(winding.nodes[node].child[next], &child)) {
            ++next;
        } else if (is_leaf(child)) {
            winding.add_near(child);
            ++next;
        } else {
            node = child;
            next = 0;
        }
    }
}

// Adds all triangles, in the order of the tree.
__device__ __forceinline__ void traverse_winding(const BvhNode* tree, Winding& winding) {
    unsigned stack[bvh::stack_room];
    unsigned size = 0;
    for (unsigned next = 0;;) {
        if (is_leaf(next)) {
            winding.add_near(next);
        } else if (size + 4 > bvh::stack_room) {
            winding.sum = walk_winding(tree, next, winding);
        } else {
#pragma unroll
            for (int i = 3; i >= 0; --i) {
                unsigned child;
                if (!winding.add_far(winding.nodes[next].child[i], &child)) stack[size++] = child;
            }
        }
        if (size == 0) return;
        next = stack[--size];
    }
}

} // namespace mesh

// The winding number of the mesh at q: see above. A part of the mesh is replaced by its series if it is farther than
// beta times its radius; beta is at least 1. 0 if q is invalid. For a mesh without moments, all triangles are summed.
// Local memory: a stack of 256 bytes.
__device__ __forceinline__ float winding_number(const Mesh& mesh, vec3<float> q, float beta = 2.0f) {
#ifdef GEOM_AD
    q = ad::stop(q), beta = ad::stop(beta);
#endif
    if (!is_valid(q)) return 0.0f;
    mesh::Winding winding{mesh.moments, mesh.triangles, q, exact::max(beta, 1.0f), {}};
    if (mesh.moments != nullptr) {
        mesh::traverse_winding(mesh.bvh.nodes, winding);
    } else {
        const unsigned items = mesh.bvh.header->items;
        for (unsigned first = 0; first < items; first += 4)
            winding.sum.add(mesh::winding_of(mesh.triangles, first, min(first + 4, items), q));
    }
#ifdef GEOM_AD
    return ad::lost_result(winding.sum.value);
#else
    return winding.sum.value;
#endif
}

// The distance to the mesh, negative where the winding number is greater than `threshold`, and the closest point;
// infinite if there is no closest point within `distance`. For open meshes, and for soups of triangles that overlap.
// The faces are oriented outwards.
__device__ __forceinline__ float
signed_distance_by_winding(const Mesh& mesh, vec3<float> q, ClosestPoint* closest,
                           float distance = exact::infinity(), float beta = 2.0f,
                           float threshold = 0.5f) {
#ifdef GEOM_AD
    Triangle corners;
    *closest = mesh::stopped_point(mesh::find_closest(mesh, q, distance, &corners));
    if (closest->face == no_index) return closest->distance_squared;
    const int side = exact::less(threshold, winding_number(mesh, q, beta)) ? -1 : 1;
    return mesh::signed_with_gradient(mesh, q, corners, side, closest);
#else
    *closest = closest_point(mesh, q, distance);
    if (closest->face == no_index) return closest->distance_squared;
    const float size = exact::sqrt(closest->distance_squared);
    return exact::less(threshold, winding_number(mesh, q, beta)) ? exact::neg(size) : size;
#endif
}

} // namespace geom
