// Adjoints of sampling a volume: the gradients of the position and of the values of voxels.
//
// A sample is a sum of voxels' values times weights, each a product of three factors of one coordinate; the gradient
// of a sample is the same with derivatives of the weights. So a value gets the gradient of the sample times its
// weight, and the position gets the sum of all values times the derivatives of their weights. The adjoint of a
// gradient needs second derivatives, which are those of the cell that the position is in: where trilinear cells meet,
// the first derivative jumps, and where tricubic cells meet, the second.
//
// Values have a gradient if they are variables: those in leaves, active or not, and for index grids those in the
// array, also for tiles. The values of tiles and the background are constants, and so is the background of an array;
// nothing is reported for them. A position that is not sampled (not finite, or beyond 2^30) has the background, and
// gradient 0.
//
// All of this is exact (see exact.cuh), in the precision of samples: double if values or positions are. Each sum over
// values uses their differences to one of them, so that a large common part costs no bits.
//
// World space: a position's gradient is transformed by `index_to_world_gradient`, and the gradient of a sample in
// world space by `sample_adjoint_in_index`. The adjoints of the functions of map.cuh are:
//
//     index_to_world, index_to_world_direction   world_to_index_gradient
//     world_to_index, world_to_index_direction   index_to_world_gradient
//     index_to_world_gradient                    world_to_index_direction
//     world_to_index_gradient                    index_to_world_direction
#pragma once

#include <geom/volume/sample.cuh>

namespace geom {
namespace volume {

// The address of the variable that is a voxel's value; null if the value is constant. The address is not read, and
// may be offset to that of a gradient.
template <class T>
__device__ __forceinline__ const T* variable(const Stored<T>&, const Leaf<T>& leaf, const unsigned char* entry) {
    return leaf.step != 0 ? reinterpret_cast<const T*>(entry) : nullptr;
}
template <class T, class V>
__device__ __forceinline__ const V* variable(const Indexed<T, V>& source, const Leaf<T>&,
                                             unsigned long long index) {
    // The subtraction turns 0 into the greatest number.
    const unsigned long long place = index - 1;
    return place < source.values.count ? source.values.data + place : nullptr;
}

// The weights of neighbours along an axis, with their first and second derivatives.
template <class C, int N>
struct AxisWeights {
    C of[N], slope[N], bend[N];

    // Selects an element by a run-time index without an array in local memory.
    static __device__ __forceinline__ C pick(const C (&from)[N], int i) {
        C found = from[0];
#pragma unroll
        for (int k = 1; k < N; ++k)
            if (i == k) found = from[k];
        return found;
    }
};

struct TrilinearWeights {
    static constexpr int count = 2, first = 0;
    static constexpr bool bends = false;
    template <class C>
    static __device__ __forceinline__ AxisWeights<C, 2> at(C t) {
        return {{exact::sub(C(1), t), t}, {C(-1), C(1)}, {C(0), C(0)}};
    }
};

// The Catmull-Rom polynomials: see interpolate.cuh.
struct TricubicWeights {
    static constexpr int count = 4, first = -1;
    static constexpr bool bends = true;
    template <class C>
    static __device__ __forceinline__ AxisWeights<C, 4> at(C t) {
        using namespace exact;
        const C rest = sub(C(1), t), half = mul(C(0.5), t), square = mul(t, t);
        AxisWeights<C, 4> w;
        w.of[0] = mul(neg(half), mul(rest, rest));
        w.of[1] = fma(square, fma(C(1.5), t, C(-2.5)), C(1));
        w.of[2] = mul(half, fma(t, fma(C(-3), t, C(4)), C(1)));
        w.of[3] = mul(neg(half), mul(t, rest));
        w.slope[0] = fma(t, fma(C(-1.5), t, C(2)), C(-0.5));
        w.slope[1] = mul(t, fma(C(4.5), t, C(-5)));
        w.slope[2] = fma(t, fma(C(-4.5), t, C(4)), C(0.5));
        w.slope[3] = mul(t, fma(C(1.5), t, C(-1)));
        w.bend[0] = fma(C(-3), t, C(2));
        w.bend[1] = fma(C(9), t, C(-5));
        w.bend[2] = fma(C(-9), t, C(4));
        w.bend[3] = fma(C(3), t, C(-1));
        return w;
    }
};

// The leaves of a stencil from `low` to `low + extent`, indexed by sides (4 for the far one along x, 2 y, 1 z).
template <int extent, class T>
struct StencilLeaves {
    Leaf<T> leaves[8];
    int far_x, far_y, far_z;

    __device__ __forceinline__ StencilLeaves(const Volume<T>& volume, const vec3<int>& low)
        : far_x(8 - (low.x & 7)), far_y(8 - (low.y & 7)), far_z(8 - (low.z & 7)) {
        const unsigned split = crossings<extent>(low, 3);
        unsigned side = 0;
        // The loop visits all subsets of the bits of `split`, ascending.
#pragma unroll 1
        do {
            const Leaf<T> leaf(find(volume, low.x + ((side & 4) != 0 ? extent : 0),
                                    low.y + ((side & 2) != 0 ? extent : 0),
                                    low.z + ((side & 1) != 0 ? extent : 0)));
#pragma unroll
            for (unsigned k = 0; k < 8; ++k)
                if (side == 0 || k == side) leaves[k] = leaf;
            side = (side - split) & split;
        } while (side != 0);
    }
    // The leaf of the voxel at (i, j, k) from the least one.
    __device__ __forceinline__ Leaf<T> at(int i, int j, int k) const {
        const bool x = i >= far_x, y = j >= far_y, z = k >= far_z;
        const Leaf<T> l00 = either(x, leaves[0], leaves[4]), l01 = either(x, leaves[1], leaves[5]),
                      l10 = either(x, leaves[2], leaves[6]), l11 = either(x, leaves[3], leaves[7]);
        return either(z, either(y, l00, l10), either(y, l01, l11));
    }
};

// The gradient of a sample in the precision of the arithmetic: of its value, and of its derivatives.
template <class C, int N>
struct SampleNumbers {
    C value[N];
    vec3<C> gradient[N];

    template <class V>
    __device__ __forceinline__ explicit SampleNumbers(const V& g) {
        const auto numbers = taken_apart<C>(g);
#pragma unroll
        for (int n = 0; n < N; ++n) {
            value[n] = numbers.of[n];
            gradient[n] = vec3<C>(C(0));
        }
    }
    template <class V>
    __device__ __forceinline__ explicit SampleNumbers(const Sample<V>& g) {
        const auto numbers = taken_apart<C>(g.value);
        typename Parts<V>::gradient slopes = g.gradient;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            value[n] = numbers.of[n];
            gradient[n] = converted<C>(gradient_part(slopes, n));
        }
    }
};

// Whether a gradient is that of a sample with derivatives.
template <class G>
struct HasGradient {
    static constexpr bool value = false;
};
template <class V>
struct HasGradient<Sample<V>> {
    static constexpr bool value = true;
};

// Returns the gradient of the position, if POSITION, and calls `use(address, gradient)` for voxels whose values are
// variables, if VOXELS. `g` is the gradient of a value, or of a `Sample` with its derivatives.
template <class How, bool POSITION, bool VOXELS, class C, class Source, class G, class Use>
__device__ __forceinline__ vec3<C> interpolation_adjoint(const Source& source, const vec3<C>& p, const G& g,
                                                         Use&& use) {
    using namespace exact;
    using T = typename Source::grid;
    using V = typename Source::value;
    constexpr int N = Parts<V>::count, M = How::count;
    constexpr bool GRADIENT = HasGradient<G>::value;
    vec3<C> of_position(C(0));
    if (!in_reach(p)) return of_position;
    const Cell<C> cell(p);
    const vec3<int> low(cell.voxel.x + How::first, cell.voxel.y + How::first, cell.voxel.z + How::first);
    const StencilLeaves<M - 1, T> leaves(source.volume, low);
    using Axis = AxisWeights<C, M>;
    const Axis along_x = How::at(cell.t.x), along_y = How::at(cell.t.y), along_z = How::at(cell.t.z);
    const SampleNumbers<C, N> of(g);
    Numbers<C, N> first{};
#pragma unroll 1
    for (int i = 0; i < M; ++i) {
        const C x = Axis::pick(along_x.of, i), dx = Axis::pick(along_x.slope, i),
                ddx = Axis::pick(along_x.bend, i);
#pragma unroll 1
        for (int j = 0; j < M; ++j) {
            const C y = Axis::pick(along_y.of, j), dy = Axis::pick(along_y.slope, j),
                    ddy = Axis::pick(along_y.bend, j);
            const C xy = mul(x, y), dx_y = mul(dx, y), x_dy = mul(x, dy), dx_dy = mul(dx, dy);
            const unsigned place_xy = ((low.x + i) & 7u) << 6 | ((low.y + j) & 7u) << 3;
#pragma unroll
            for (int k = 0; k < M; ++k) {
                const C z = along_z.of[k], dz = along_z.slope[k];
                const C weight = mul(xy, z);
                const vec3<C> slope(mul(dx_y, z), mul(x_dy, z), mul(xy, dz));
                const Leaf<T> leaf = leaves.at(i, j, k);
                const auto entry = leaf.entry(place_xy | ((low.z + k) & 7u));
                if (VOXELS) {
                    const V* address = variable(source, leaf, entry);
                    if (address != nullptr) {
                        Numbers<C, N> of_voxel;
#pragma unroll
                        for (int n = 0; n < N; ++n) {
                            of_voxel.of[n] = mul(weight, of.value[n]);
                            if (GRADIENT)
                                of_voxel.of[n] =
                                    add(of_voxel.of[n], exact::dot(slope, of.gradient[n]));
                        }
                        use(address, put_together<V>(of_voxel));
                    }
                }
                if (!POSITION) continue;
                const auto numbers = taken_apart<C>(source.fetch(entry));
                if (i == 0 && j == 0 && k == 0) first = numbers;
                const Numbers<C, N> values = difference(numbers, first);
                C times = C(0);
#pragma unroll
                for (int n = 0; n < N; ++n)
                    times = fma(values.of[n], of.value[n], times);
                of_position = vec3<C>(fma(slope.x, times, of_position.x),
                                      fma(slope.y, times, of_position.y),
                                      fma(slope.z, times, of_position.z));
                if (!GRADIENT) continue;
                vec3<C> by(C(0));
#pragma unroll
                for (int n = 0; n < N; ++n)
                    by = vec3<C>(fma(values.of[n], of.gradient[n].x, by.x),
                                 fma(values.of[n], of.gradient[n].y, by.y),
                                 fma(values.of[n], of.gradient[n].z, by.z));
                // yz, zx, xy
                const vec3<C> twist(mul(x_dy, dz), mul(dx_y, dz), mul(dx_dy, z));
                of_position.x = fma(twist.z, by.y, fma(twist.y, by.z, of_position.x));
                of_position.y = fma(twist.z, by.x, fma(twist.x, by.z, of_position.y));
                of_position.z = fma(twist.y, by.x, fma(twist.x, by.y, of_position.z));
                if (!How::bends) continue;
                const vec3<C> bend(mul(mul(ddx, y), z), mul(mul(x, ddy), z), mul(xy, along_z.bend[k]));
                of_position = vec3<C>(fma(bend.x, by.x, of_position.x),
                                      fma(bend.y, by.y, of_position.y),
                                      fma(bend.z, by.z, of_position.z));
            }
        }
    }
    return of_position;
}

// Ignores the gradients of voxels.
struct NoUse {
    template <class A, class V>
    __device__ __forceinline__ void operator()(A, const V&) const {}
};

} // namespace volume

// Transforms the gradient of a sample in world space to that of the sample in index space.
template <class V>
__device__ __forceinline__ Sample<V> sample_adjoint_in_index(const VolumeMap& map, Sample<V> g) {
#pragma unroll
    for (int i = 0; i < volume::Parts<V>::count; ++i) {
        auto& one = volume::gradient_part(g.gradient, i);
        one = world_to_index_direction(map, one);
    }
    return g;
}

// For each interpolation: the gradient of the position and `use(address, gradient)` for voxels; the position's only;
// and the voxels' only, for which no value is read. `g` is the gradient of the value, or, of type `Sample<V>`, of the
// value and its gradient. An address may come more than once.
#define GEOM_SAMPLE_ADJOINT(name, How)                                                                     \
    template <class T, class P, class G, class Use>                                                        \
    __device__ __forceinline__ vec3<P> name##_adjoint(const Volume<T>& volume, const vec3<P>& p,           \
                                                      const G& g, Use&& use) {                             \
        using C = volume::Real<T, P>;                                                                      \
        return volume::converted<P>(volume::interpolation_adjoint<volume::How, true, true>(                \
            volume::Stored<T>{volume}, volume::converted<C>(p), g, use));                                  \
    }                                                                                                      \
    template <class T, class P, class G>                                                                   \
    __device__ __forceinline__ vec3<P> name##_adjoint_of_position(const Volume<T>& volume,                 \
                                                                  const vec3<P>& p, const G& g) {          \
        using C = volume::Real<T, P>;                                                                      \
        return volume::converted<P>(volume::interpolation_adjoint<volume::How, true, false>(               \
            volume::Stored<T>{volume}, volume::converted<C>(p), g, volume::NoUse()));                      \
    }                                                                                                      \
    template <class T, class P, class G, class Use>                                                        \
    __device__ __forceinline__ void name##_adjoint_of_voxels(const Volume<T>& volume, const vec3<P>& p,    \
                                                             const G& g, Use&& use) {                      \
        using C = volume::Real<T, P>;                                                                      \
        volume::interpolation_adjoint<volume::How, false, true>(volume::Stored<T>{volume},                 \
                                                                volume::converted<C>(p), g, use);          \
    }                                                                                                      \
    template <class T, class V, class P, class G, class Use>                                               \
    __device__ __forceinline__ vec3<P> name##_index_adjoint(                                               \
        const Volume<T>& volume, const vec3<P>& p, const IndexedValues<V>& values, const G& g, Use&& use) { \
        using C = volume::Real<V, P>;                                                                      \
        const volume::Indexed<T, V> source = {volume, values};                                             \
        return volume::converted<P>(volume::interpolation_adjoint<volume::How, true, true>(                \
            source, volume::converted<C>(p), g, use));                                                     \
    }                                                                                                      \
    template <class T, class V, class P, class G>                                                          \
    __device__ __forceinline__ vec3<P> name##_index_adjoint_of_position(                                   \
        const Volume<T>& volume, const vec3<P>& p, const IndexedValues<V>& values, const G& g) {           \
        using C = volume::Real<V, P>;                                                                      \
        const volume::Indexed<T, V> source = {volume, values};                                             \
        return volume::converted<P>(volume::interpolation_adjoint<volume::How, true, false>(               \
            source, volume::converted<C>(p), g, volume::NoUse()));                                         \
    }                                                                                                      \
    template <class T, class V, class P, class G, class Use>                                               \
    __device__ __forceinline__ void name##_index_adjoint_of_voxels(                                        \
        const Volume<T>& volume, const vec3<P>& p, const IndexedValues<V>& values, const G& g, Use&& use) { \
        using C = volume::Real<V, P>;                                                                      \
        const volume::Indexed<T, V> source = {volume, values};                                             \
        volume::interpolation_adjoint<volume::How, false, true>(source, volume::converted<C>(p), g, use);  \
    }

GEOM_SAMPLE_ADJOINT(sample_trilinear, TrilinearWeights)
GEOM_SAMPLE_ADJOINT(sample_tricubic, TricubicWeights)

#undef GEOM_SAMPLE_ADJOINT

// The adjoint of the nearest voxel's value: it gets all of the gradient, and the position none.
template <class T, class P, class Use>
__device__ __forceinline__ void sample_nearest_adjoint_of_voxels(const Volume<T>& volume, const vec3<P>& p,
                                                                 const T& g, Use&& use) {
    if (!volume::in_reach(p)) return;
    const vec3<int> v = volume::nearest_voxel(p);
    const volume::Leaf<T> leaf(volume::find(volume, v.x, v.y, v.z));
    const T* address = volume::variable(volume::Stored<T>{volume}, leaf,
                                        leaf.entry(volume::leaf_place(v.x, v.y, v.z)));
    if (address != nullptr) use(address, g);
}
template <class T, class V, class P, class Use>
__device__ __forceinline__ void
sample_nearest_index_adjoint_of_voxels(const Volume<T>& volume, const vec3<P>& p,
                                       const IndexedValues<V>& values, const V& g, Use&& use) {
    if (!volume::in_reach(p)) return;
    const vec3<int> v = volume::nearest_voxel(p);
    const volume::Leaf<T> leaf(volume::find(volume, v.x, v.y, v.z));
    const V* address = volume::variable(volume::Indexed<T, V>{volume, values}, leaf,
                                        leaf.entry(volume::leaf_place(v.x, v.y, v.z)));
    if (address != nullptr) use(address, g);
}

} // namespace geom
