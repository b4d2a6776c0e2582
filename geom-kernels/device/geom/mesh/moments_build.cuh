// The computation of moments, from the leaves to the root: after a build, and after a refit.
//
// All of this is written in exact arithmetic (exact.cuh). It computes in f64 from values stored in f32, so nothing
// overflows: areas are below 2^152, and fourth powers of lengths below 2^252.
#pragma once

#include <geom/bvh/build_state.cuh>
#include <geom/mesh/moments.cuh>
#include <geom/mesh/packed.cuh>

namespace geom {
namespace mesh {

// A symmetric matrix, and a symmetric tensor of three indices.
struct Symmetric2 {
    double xx, yy, zz, xy, xz, yz;
};
struct Symmetric3 {
    double xxx, yyy, zzz, xxy, xxz, xyy, yyz, xzz, yzz, xyz;
};

// The moments of triangles about a point, not yet made traceless.
struct Expansion {
    double area;
    vec3<double> center;
    double radius;
    vec3<double> dipole;
    Symmetric2 quadrupole;
    // Three times the octupole.
    Symmetric3 octupole;

    static __device__ __forceinline__ Expansion zero() {
        const vec3<double> none(0.0);
        return Expansion{0.0, none, 0.0, none, {}, {}};
    }
};

// Computes a += k s.
__device__ __forceinline__ void add_times(Symmetric2& a, double k, const Symmetric2& s) {
    using exact::fma;
    a.xx = fma(k, s.xx, a.xx), a.yy = fma(k, s.yy, a.yy), a.zz = fma(k, s.zz, a.zz);
    a.xy = fma(k, s.xy, a.xy), a.xz = fma(k, s.xz, a.xz), a.yz = fma(k, s.yz, a.yz);
}

// The symmetric part of v w^T.
__device__ __forceinline__ Symmetric2 product(vec3<double> v, vec3<double> w) {
    using namespace exact;
    return {mul(v.x, w.x),
            mul(v.y, w.y),
            mul(v.z, w.z),
            mul(0.5, fma(v.x, w.y, mul(v.y, w.x))),
            mul(0.5, fma(v.x, w.z, mul(v.z, w.x))),
            mul(0.5, fma(v.y, w.z, mul(v.z, w.y)))};
}

// Adds three times the symmetric part of v times s.
__device__ __forceinline__ void add_product(Symmetric3& t, vec3<double> v, const Symmetric2& s) {
    using namespace exact;
    const vec3<double> w = exact::add(v, v);
    t.xxx = fma(mul(3.0, v.x), s.xx, t.xxx);
    t.yyy = fma(mul(3.0, v.y), s.yy, t.yyy);
    t.zzz = fma(mul(3.0, v.z), s.zz, t.zzz);
    t.xxy = fma(w.x, s.xy, fma(v.y, s.xx, t.xxy));
    t.xxz = fma(w.x, s.xz, fma(v.z, s.xx, t.xxz));
    t.xyy = fma(w.y, s.xy, fma(v.x, s.yy, t.xyy));
    t.yyz = fma(w.y, s.yz, fma(v.z, s.yy, t.yyz));
    t.xzz = fma(w.z, s.xz, fma(v.x, s.zz, t.xzz));
    t.yzz = fma(w.z, s.yz, fma(v.y, s.zz, t.yzz));
    t.xyz = fma(v.x, s.yz, fma(v.y, s.xz, fma(v.z, s.xy, t.xyz)));
}

// Adds a triangle: half of `normal` is its area vector, the others lead from the centre to its corners. The integrals
// over it of d and d d^T, divided by its area, are those of its centroid, and a twelfth of the sum over the corners
// and three times the centroid.
__device__ __forceinline__ void add_triangle(Expansion& to, vec3<double> normal, vec3<double> a,
                                             vec3<double> b, vec3<double> c) {
    using namespace exact;
    const vec3<double> area = exact::mul(normal, 0.5), sum = exact::add(exact::add(a, b), c);
    to.dipole = exact::add(to.dipole, area);
    add_times(to.quadrupole, 0.33333333333333331, product(area, sum));
    Symmetric2 second = product(sum, sum);
    add_times(second, 1.0, product(a, a));
    add_times(second, 1.0, product(b, b));
    add_times(second, 1.0, product(c, c));
    add_product(to.octupole, exact::mul(area, 0.083333333333333329), second);
}

// Moves the moments to another point.
__device__ __forceinline__ void move_to(Expansion& e, vec3<double> center) {
    const vec3<double> d = exact::sub(e.center, center);
    add_product(e.octupole, exact::mul(d, 2.0), e.quadrupole);
    add_product(e.octupole, e.dipole, product(d, d));
    add_times(e.quadrupole, 1.0, product(e.dipole, d));
    e.center = center;
}

// Factors of the quadrupole and the octupole, for a radius that is not 0: -3 / (4 pi r^3), and 15 / 2 / (4 pi
// r^4). The dipole's is 1 / (4 pi r^2).
struct Units {
    double dipole, quadrupole, octupole;

    __device__ __forceinline__ explicit Units(double r) {
        using namespace exact;
        const double inverse = div(1.0, r);
        dipole = mul(mul(0.079577471545947673, inverse), inverse);
        quadrupole = mul(mul(-3.0, dipole), inverse);
        octupole = mul(mul(-2.5, quadrupole), inverse);
    }
};

// Converts to the stored form, with the area divided by r^2 in `child`, for the parent.
__device__ __forceinline__ ChildMoments pack(const Expansion& e) {
    using namespace exact;
    ChildMoments out = {};
    out.x = narrow(e.center.x), out.y = narrow(e.center.y), out.z = narrow(e.center.z);
    // The radius is rounded up.
    out.radius = narrow(mul(e.radius, 1.00000024));
    if (!less(0.0f, out.radius)) return out;
    const double radius = widen(out.radius);
    const Units units(radius);
    out.child = __float_as_uint(narrow(div(div(e.area, radius), radius)));
    const vec3<float> dipole = exact::narrow(exact::mul(e.dipole, units.dipole));
    out.nx = dipole.x, out.ny = dipole.y, out.nz = dipole.z;

    const Symmetric2& c = e.quadrupole;
    const double trace = div(add(add(c.xx, c.yy), c.zz), 3.0), twice = mul(2.0, units.quadrupole);
    out.qxx = narrow(mul(sub(c.xx, trace), units.quadrupole));
    out.qyy = narrow(mul(sub(c.yy, trace), units.quadrupole));
    out.qxy = narrow(mul(c.xy, twice));
    out.qxz = narrow(mul(c.xz, twice));
    out.qyz = narrow(mul(c.yz, twice));

    const Symmetric3& t = e.octupole;
    const double x = div(add(add(t.xxx, t.xyy), t.xzz), 5.0);
    const double y = div(add(add(t.xxy, t.yyy), t.yzz), 5.0);
    const double z = div(add(add(t.xxz, t.yyz), t.zzz), 5.0);
    // The stored value is three times as large.
    const double once = units.octupole, third = div(once, 3.0);
    out.oxxx = narrow(mul(fma(-3.0, x, t.xxx), third));
    out.oxyy = narrow(mul(sub(t.xyy, x), once));
    out.oxxy = narrow(mul(sub(t.xxy, y), once));
    out.oyyy = narrow(mul(fma(-3.0, y, t.yyy), third));
    out.oxxz = narrow(mul(sub(t.xxz, z), third));
    out.oyyz = narrow(mul(sub(t.yyz, z), third));
    out.oxyz = narrow(mul(t.xyz, add(once, once)));
    return out;
}

__device__ __forceinline__ Expansion unpack(const ChildMoments& in) {
    using namespace exact;
    Expansion out = Expansion::zero();
    out.center = vec3<double>(widen(in.x), widen(in.y), widen(in.z));
    out.radius = widen(in.radius);
    if (!less(0.0f, in.radius)) return out;
    const Units units(out.radius);
    out.area = mul(mul(widen(__uint_as_float(in.child)), out.radius), out.radius);
    const double dipole = div(1.0, units.dipole);
    out.dipole = exact::mul(vec3<double>(widen(in.nx), widen(in.ny), widen(in.nz)), dipole);

    const double once = div(1.0, units.quadrupole), half = mul(0.5, once);
    Symmetric2& c = out.quadrupole;
    c.xx = mul(widen(in.qxx), once), c.yy = mul(widen(in.qyy), once);
    c.zz = neg(add(c.xx, c.yy));
    c.xy = mul(widen(in.qxy), half), c.xz = mul(widen(in.qxz), half), c.yz = mul(widen(in.qyz), half);

    const double unit = div(1.0, units.octupole), three = mul(3.0, unit);
    Symmetric3& t = out.octupole;
    t.xxx = mul(widen(in.oxxx), three), t.yyy = mul(widen(in.oyyy), three);
    t.xyy = mul(widen(in.oxyy), unit), t.xxy = mul(widen(in.oxxy), unit);
    t.xxz = mul(widen(in.oxxz), three), t.yyz = mul(widen(in.oyyz), three);
    t.xyz = mul(mul(0.5, widen(in.oxyz)), unit);
    t.xzz = neg(add(t.xxx, t.xyy)), t.yzz = neg(add(t.xxy, t.yyy)), t.zzz = neg(add(t.xxz, t.yyz));
    return out;
}

// The data of a leaf's triangle; it has no area if the triangle is invalid.
struct LeafTriangle {
    vec3<double> a, b, c;
    // The vector along the normal whose length is twice the area.
    vec3<double> normal;
    double area;

    __device__ __forceinline__ explicit LeafTriangle(const MeshTriangle& triangle) {
        using namespace exact;
        const Packed packed(triangle);
        const Triangle t = packed.ordered();
        a = exact::widen(t.a), b = exact::widen(t.b), c = exact::widen(t.c);
        const vec3<double> n = exact::cross(exact::sub(b, a), exact::sub(c, a));
        normal = packed.turned() ? vec3<double>(neg(n.x), neg(n.y), neg(n.z)) : n;
        const float4 unit = packed.normal;
        const bool flat = equal(unit.x, 0.0f) && equal(unit.y, 0.0f) && equal(unit.z, 0.0f);
        area = flat || !is_valid(t) ? 0.0 : mul(0.5, exact::length(n));
    }
};

// The moments of a leaf, about the mean of its triangles by area, rounded to f32.
__device__ __forceinline__ Expansion
expand_leaf(const MeshTriangle* triangles, unsigned first, unsigned end) {
    using namespace exact;
    Expansion out = Expansion::zero();
#pragma unroll 1
    for (unsigned i = first; i < end; ++i) {
        const LeafTriangle t(triangles[i]);
        if (!less(0.0, t.area)) continue;
        const vec3<double> sum = exact::add(exact::add(t.a, t.b), t.c);
        out.area = add(out.area, t.area);
        out.center = exact::add(out.center, exact::mul(sum, div(t.area, 3.0)));
    }
    if (!less(0.0, out.area)) return Expansion::zero();
    out.center = exact::widen(exact::narrow(exact::mul(out.center, div(1.0, out.area))));
    double farthest = 0.0;
#pragma unroll 1
    for (unsigned i = first; i < end; ++i) {
        const LeafTriangle t(triangles[i]);
        if (!less(0.0, t.area)) continue;
        const vec3<double> a = exact::sub(t.a, out.center), b = exact::sub(t.b, out.center);
        const vec3<double> c = exact::sub(t.c, out.center);
        add_triangle(out, t.normal, a, b, c);
        farthest = max(max(farthest, exact::length_squared(a)),
                       max(exact::length_squared(b), exact::length_squared(c)));
    }
    out.radius = sqrt(farthest);
    return out;
}

// The sum and the maximum over four neighbouring lanes, with the same bits in all of them.
__device__ __forceinline__ double sum_of_four(double value, unsigned lanes) {
    value = exact::add(value, __shfl_xor_sync(lanes, value, 1));
    return exact::add(value, __shfl_xor_sync(lanes, value, 2));
}
__device__ __forceinline__ double max_of_four(double value, unsigned lanes) {
    value = exact::max(value, __shfl_xor_sync(lanes, value, 1));
    return exact::max(value, __shfl_xor_sync(lanes, value, 2));
}
__device__ __forceinline__ vec3<double> sum_of_four(vec3<double> v, unsigned lanes) {
    return vec3<double>(sum_of_four(v.x, lanes), sum_of_four(v.y, lanes), sum_of_four(v.z, lanes));
}

// The distance from a point to the farthest point of a child's box.
__device__ __forceinline__ double reach(const BvhNode& node, unsigned child, vec3<double> from) {
    using namespace exact;
    vec3<double> d(0.0);
#pragma unroll
    for (int axis = 0; axis < 3; ++axis)
        d[axis] = max(sub(from[axis], widen(node.lower[axis][child])),
                      sub(widen(node.upper[axis][child]), from[axis]));
    return exact::length(d);
}

// The moments of a node, in all of four neighbouring lanes, each of which has a child.
__device__ __forceinline__ Expansion
unite_four(Expansion mine, const BvhNode& node, unsigned lane, unsigned lanes) {
    using namespace exact;
    const bool counts = less(0.0, mine.area);
    const double area = sum_of_four(mine.area, lanes);
    const vec3<double> weighted = sum_of_four(exact::mul(mine.center, mine.area), lanes);
    vec3<double> center(0.0);
    if (less(0.0, area)) center = exact::widen(exact::narrow(exact::mul(weighted, div(1.0, area))));
    double radius = 0.0;
    if (counts) {
        const double away = exact::length(exact::sub(mine.center, center));
        radius = min(add(away, mine.radius), reach(node, lane, center));
        move_to(mine, center);
    }
    Expansion out;
    out.area = area;
    out.center = center;
    out.radius = max_of_four(radius, lanes);
    out.dipole = sum_of_four(mine.dipole, lanes);
    const Symmetric2& c = mine.quadrupole;
    out.quadrupole = {sum_of_four(c.xx, lanes), sum_of_four(c.yy, lanes), sum_of_four(c.zz, lanes),
                      sum_of_four(c.xy, lanes), sum_of_four(c.xz, lanes), sum_of_four(c.yz, lanes)};
    const Symmetric3& t = mine.octupole;
    out.octupole = {sum_of_four(t.xxx, lanes), sum_of_four(t.yyy, lanes), sum_of_four(t.zzz, lanes),
                    sum_of_four(t.xxy, lanes), sum_of_four(t.xxz, lanes), sum_of_four(t.xyy, lanes),
                    sum_of_four(t.yyz, lanes), sum_of_four(t.xzz, lanes), sum_of_four(t.yzz, lanes),
                    sum_of_four(t.xyz, lanes)};
    return out;
}

// The data was written by another thread: see bvh/build_state.cuh.
__device__ __forceinline__ ChildMoments load_shared(const ChildMoments* at) {
    ChildMoments out;
    unsigned* to = reinterpret_cast<unsigned*>(&out);
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        unsigned words[4];
        sort::load_four_words(reinterpret_cast<const unsigned*>(at) + 4 * i, words);
#pragma unroll
        for (int k = 0; k < 4; ++k) to[4 * i + k] = words[k];
    }
    return out;
}

// The tree and its moments.
struct MomentsBuild {
    const BvhHeader* header;
    const BvhNode* tree;
    const MeshTriangle* triangles;
    NodeMoments* nodes;
    // For each node, how many children have arrived; zero before and after.
    unsigned* arrivals;
    // The capacities in nodes and triangles.
    unsigned nodes_capacity, triangles_capacity;
};

// Four neighbouring lanes for each node within the capacity, one for each of its children, as in `bvh::refit`. They
// compute the moments of its leaves; the last thread to arrive at a node computes those of the node, for its parent.
__device__ __forceinline__ void make_moments(const MomentsBuild& build) {
    const unsigned count = min(build.header->nodes, build.nodes_capacity);
    unsigned index = bvh::thread() / 4;
    if (index >= count) return;
    const unsigned lane = threadIdx.x % 4, leader = threadIdx.x % 32 / 4 * 4, lanes = 0xfu << leader;
    const BvhNode* node = build.tree + index;
    const unsigned child = node->child[lane];
    if (is_leaf(child)) {
        unsigned first = 0, end = 0;
        if (child != no_index) {
            first = leaf_first(child);
            end = min(first + leaf_count(child), build.triangles_capacity);
        }
        build.nodes[index].child[lane] = pack(expand_leaf(build.triangles, first, end));
    }
    for (;;) {
        // The barrier orders the writes of the four lanes before the arrival of one of them.
        __syncwarp(lanes);
        const unsigned inner = node->inner;
        if (inner != 0) {
            unsigned last = 0;
            if (lane == 0) last = bvh::arrive(build.arrivals + index) == inner;
            last = __shfl_sync(lanes, last, leader);
            if (!last) return;
            __syncwarp(lanes);
            if (lane == 0) build.arrivals[index] = 0;
        }
        ChildMoments* place = build.nodes[index].child + lane;
        const Expansion mine = unpack(load_shared(place));
        place->child = node->child[lane];
        const unsigned parent = node->parent;
        if (parent == no_index) return;
        const Expansion all = unite_four(mine, *node, lane, lanes);
        index = parent / 4;
        if (index >= count) return;
        node = build.tree + index;
        if (lane == 0) build.nodes[index].child[parent % 4] = pack(all);
    }
}

} // namespace mesh
} // namespace geom
