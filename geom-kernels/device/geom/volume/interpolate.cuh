// Interpolation between voxels. All of it is exact: see exact.cuh.
//
// Trilinear: of the eight voxels of a cell, first along z, then y, then x, each step a + t (b - a). So constant and
// linear fields are reproduced up to the rounding of their values. Continuous.
//
// Tricubic: of 4^3 voxels, by the splines of E. Catmull and R. Rom ("A Class of Local Interpolating Splines", 1974),
// along z, then y, then x. It interpolates the voxels' values; it and its gradient are continuous.
//
// Gradients are the derivatives of these functions: for the trilinear one, where cells meet, that of the cell on the
// far side.
#pragma once

#include <geom/volume/indexed.cuh>
#include <geom/volume/numbers.cuh>

namespace geom {

// A value and its derivatives along x, y and z.
template <class V>
struct Sample {
    V value;
    typename volume::Parts<V>::gradient gradient;
};

namespace volume {

// The largest coordinates that are looked up; voxels around them have valid coordinates.
template <class C>
__device__ __forceinline__ bool in_reach(const vec3<C>& p) {
    const C limit = C(1 << 30);
    return exact::less_equal(exact::abs(p.x), limit) & exact::less_equal(exact::abs(p.y), limit) &
           exact::less_equal(exact::abs(p.z), limit);
}

// The cell of a position: its least voxel, and the position relative to it.
template <class C>
struct Cell {
    vec3<int> voxel;
    vec3<C> t;

    __device__ __forceinline__ explicit Cell(const vec3<C>& p)
        : voxel(exact::floor_to_int(p.x), exact::floor_to_int(p.y), exact::floor_to_int(p.z)),
          t(exact::sub(p.x, exact::floor(p.x)), exact::sub(p.y, exact::floor(p.y)),
            exact::sub(p.z, exact::floor(p.z))) {}
};

template <class Source>
__device__ __forceinline__ Sample<typename Source::value> nowhere(const Source& source) {
    using V = typename Source::value;
    const Numbers<typename Parts<V>::real, Parts<V>::count> zero{};
    return {source.outside(), put_together<V>(zero, zero, zero)};
}

// The eight values.
template <class C, class Source, int N>
__device__ __forceinline__ void fetch_cell(const Source& source, const vec3<int>& voxel,
                                           Numbers<C, N> (&v)[8]) {
    using T = typename Source::grid;
    using V = typename Source::value;
    Entry<T> entries[8];
    Corners<T>::find(source.volume, voxel, entries);
    V values[8];
#pragma unroll
    for (int k = 0; k < 8; ++k)
        values[k] = source.fetch(entries[k]);
#pragma unroll
    for (int k = 0; k < 8; ++k)
        v[k] = taken_apart<C>(values[k]);
}

template <class C, class Source>
__device__ __forceinline__ typename Source::value trilinear(const Source& source, const vec3<C>& p) {
    using V = typename Source::value;
    if (!in_reach(p)) return source.outside();
    const Cell<C> cell(p);
    Numbers<C, Parts<V>::count> v[8];
    fetch_cell(source, cell.voxel, v);
    const auto c00 = lerp(v[0], v[1], cell.t.z), c01 = lerp(v[2], v[3], cell.t.z),
               c10 = lerp(v[4], v[5], cell.t.z), c11 = lerp(v[6], v[7], cell.t.z);
    return put_together<V>(lerp(lerp(c00, c01, cell.t.y), lerp(c10, c11, cell.t.y), cell.t.x));
}

template <class C, class Source>
__device__ __forceinline__ Sample<typename Source::value>
trilinear_with_gradient(const Source& source, const vec3<C>& p) {
    using V = typename Source::value;
    if (!in_reach(p)) return nowhere(source);
    const Cell<C> cell(p);
    const vec3<C> t = cell.t;
    Numbers<C, Parts<V>::count> v[8];
    fetch_cell(source, cell.voxel, v);
    const auto c00 = lerp(v[0], v[1], t.z), c01 = lerp(v[2], v[3], t.z), c10 = lerp(v[4], v[5], t.z),
               c11 = lerp(v[6], v[7], t.z);
    const auto c0 = lerp(c00, c01, t.y), c1 = lerp(c10, c11, t.y);
    const auto z0 = lerp(difference(v[1], v[0]), difference(v[3], v[2]), t.y),
               z1 = lerp(difference(v[5], v[4]), difference(v[7], v[6]), t.y);
    const auto y = lerp(difference(c01, c00), difference(c11, c10), t.x);
    return {put_together<V>(lerp(c0, c1, t.x)),
            put_together<V>(difference(c1, c0), y, lerp(z0, z1, t.x))};
}

// The spline from v1 to v2, with the neighbours v0 and v3, as a polynomial in t, and its derivative. If all are
// equal, or collinear with slopes that floats represent, its higher coefficients are 0.
template <class C, int N>
struct Cubic {
    Numbers<C, N> a, b, c, d;

    __device__ __forceinline__ Cubic(const Numbers<C, N>& v0, const Numbers<C, N>& v1,
                                     const Numbers<C, N>& v2, const Numbers<C, N>& v3)
        : a(v1) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            // The slopes at v1 and v2, and between them.
            const C from = exact::mul(C(0.5), exact::sub(v2.of[i], v0.of[i])),
                    to = exact::mul(C(0.5), exact::sub(v3.of[i], v1.of[i])),
                    between = exact::sub(v2.of[i], v1.of[i]);
            b.of[i] = from;
            d.of[i] = exact::fma(C(-2), between, exact::add(from, to));
            c.of[i] = exact::sub(exact::sub(between, from), d.of[i]);
        }
    }
    __device__ __forceinline__ Numbers<C, N> at(C t) const {
        Numbers<C, N> v;
#pragma unroll
        for (int i = 0; i < N; ++i)
            v.of[i] = exact::fma(t, exact::fma(t, exact::fma(t, d.of[i], c.of[i]), b.of[i]), a.of[i]);
        return v;
    }
    __device__ __forceinline__ Numbers<C, N> slope(C t) const {
        Numbers<C, N> v;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const C twice = exact::add(c.of[i], c.of[i]), thrice = exact::mul(C(3), d.of[i]);
            v.of[i] = exact::fma(t, exact::fma(t, thrice, twice), b.of[i]);
        }
        return v;
    }
};

// Four neighbours along an axis, filled from the near side on, so that no index is computed at run time.
template <class C, int N>
struct Four {
    Numbers<C, N> v[4];

    __device__ __forceinline__ void push(const Numbers<C, N>& next) {
        v[0] = v[1];
        v[1] = v[2];
        v[2] = v[3];
        v[3] = next;
    }
    __device__ __forceinline__ Cubic<C, N> cubic() const { return {v[0], v[1], v[2], v[3]}; }
};

// The leaf of a stencil of two leaves per axis.
template <class T>
__device__ __forceinline__ Leaf<T> either(bool far, const Leaf<T>& near_leaf, const Leaf<T>& far_leaf) {
    Leaf<T> leaf = near_leaf;
    if (far) leaf = far_leaf;
    return leaf;
}

template <bool gradient, class C, class Source>
__device__ __forceinline__ Sample<typename Source::value> tricubic(const Source& source, const vec3<C>& p) {
    using T = typename Source::grid;
    using V = typename Source::value;
    constexpr int N = Parts<V>::count;
    if (!in_reach(p)) return nowhere(source);
    const Cell<C> cell(p);
    const vec3<C> t = cell.t;
    const vec3<int> low(cell.voxel.x - 1, cell.voxel.y - 1, cell.voxel.z - 1);
    // The leaves by side. Those of sides that the stencil does not have are never read.
    Leaf<T> leaves[8];
    const Lower lower = find_lower(source.volume, low.x, low.y, low.z);
    for_each_leaf<3>(source.volume, low, lower, [&](unsigned side, unsigned, const Found<T>& found) {
#pragma unroll
        for (unsigned k = 0; k < 8; ++k)
            if (side == 0 || k == side) leaves[k] = Leaf<T>(found);
    });
    // The first voxel of the stencil in the far leaf, along each axis.
    const int far_x = 8 - (low.x & 7), far_y = 8 - (low.y & 7), far_z = 8 - (low.z & 7);
    Four<C, N> values{}, along_y{}, along_z{};
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
        const unsigned x = ((low.x + i) & 7u) << 6;
        const Leaf<T> l00 = either(i >= far_x, leaves[0], leaves[4]),
                      l01 = either(i >= far_x, leaves[1], leaves[5]),
                      l10 = either(i >= far_x, leaves[2], leaves[6]),
                      l11 = either(i >= far_x, leaves[3], leaves[7]);
        Four<C, N> rows{}, slopes{};
#pragma unroll (N == 1 && !Traits<T>::is_index ? 4 : 1)
        for (int j = 0; j < 4; ++j) {
            const unsigned xy = x | ((low.y + j) & 7u) << 3;
            const Leaf<T> l0 = either(j >= far_y, l00, l10), l1 = either(j >= far_y, l01, l11);
            Numbers<C, N> v[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                v[k] = taken_apart<C>(
                    source.fetch(either(k >= far_z, l0, l1).entry(xy | ((low.z + k) & 7u))));
            const Cubic<C, N> row(v[0], v[1], v[2], v[3]);
            rows.push(row.at(t.z));
            if (gradient) slopes.push(row.slope(t.z));
        }
        const Cubic<C, N> layer = rows.cubic();
        values.push(layer.at(t.y));
        if (gradient) {
            along_y.push(layer.slope(t.y));
            along_z.push(slopes.cubic().at(t.y));
        }
    }
    const Cubic<C, N> all = values.cubic();
    const V value = put_together<V>(all.at(t.x));
    if (!gradient) return {value, {}};
    return {value, put_together<V>(all.slope(t.x), along_y.cubic().at(t.x), along_z.cubic().at(t.x))};
}

} // namespace volume
} // namespace geom
