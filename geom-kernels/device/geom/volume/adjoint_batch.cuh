// Adjoints of samples of arrays: the device code of batch calls, and the kernels.
#pragma once

#include <geom/tape.cuh>
#include <geom/volume/adjoint.cuh>
#include <geom/volume/batch.cuh>

namespace geom {
namespace volume {

// The gradient of a variable has the variable's offset from the beginning of `of`.
template <class V>
__device__ __forceinline__ V* shifted(const V* address, const void* from, void* of) {
    const long long away = reinterpret_cast<const char*>(address) - static_cast<const char*>(from);
    return reinterpret_cast<V*>(static_cast<char*>(of) + away);
}

// The adjoint of sample `first` + thread: the gradients of its position, unless that pointer is null, and, if VOXELS,
// of its variables. `shared`: whether positions lie in memory that also has variables.
template <class How, bool VOXELS, class P, class Source>
__device__ __forceinline__ void
sample_adjoint(const Source& source, const Samples& samples, unsigned long long first,
               const typename Source::value* g, vec3<P>* of_points, const void* variables, void* of_variables,
               bool shared, const tape::Frame& frame) {
    using V = typename Source::value;
    using C = Real<V, P>;
    if (!tape::begin(frame)) return;
    const unsigned i = thread();
    if (i >= samples.length) return;
    const VolumeMap& map = source.volume.map;
    const vec3<C> p = samples.at<C>(i, map);
    vec3<C> of_point =
        interpolation_adjoint<How, true, VOXELS>(source, p, g[first + i], [&](const V* address, const V& by) {
            if (of_variables != nullptr)
                tape::grad_add(frame, 0, shifted(address, variables, of_variables), by);
        });
    if (of_points == nullptr) return;
#pragma unroll 1
    for (unsigned n = samples.maps; n != 0; --n)
        of_point = index_to_world_gradient(map, of_point);
    const vec3<P> sum = converted<P>(of_point);
    vec3<P>* to = of_points + first + i;
    // Only this thread adds to the element if there are no variables.
    if (VOXELS && shared)
        tape::grad_add(frame, 0, to, sum);
    else
        *to = exact::add(*to, sum);
}

// The gradient of each voxel's value; 0 if the value is not a variable.
template <class V>
__device__ __forceinline__ void voxel_gradients(const Volume<V>& volume, const vec3<int>* coords, unsigned n,
                                                const void* of_grid, V* out) {
    const unsigned i = thread();
    if (i >= n) return;
    const vec3<int> c = coordinates(coords, i);
    const Leaf<V> leaf(find(volume, c.x, c.y, c.z));
    const V* address = variable(Stored<V>{volume}, leaf, leaf.entry(leaf_place(c.x, c.y, c.z)));
    const V* there =
        address != nullptr ? shifted(address, volume.grid, const_cast<void*>(of_grid)) : nullptr;
    out[i] = tape::grad_read(there);
}

} // namespace volume
} // namespace geom

// Defines the kernels for values V and positions P.
#define GEOM_TAPE_SAMPLE(V, name, How, VOXELS, P)                                                          \
    extern "C" __global__ void __launch_bounds__(128) tape_##name(                                         \
        geom::Volume<V> volume, geom::volume::Samples samples, unsigned long long first, const V* g,       \
        geom::vec3<P>* of_points, void* of_grid, unsigned shared, geom::tape::Frame frame) {               \
        const geom::volume::Stored<V> source = {volume};                                                   \
        geom::volume::sample_adjoint<geom::volume::How, VOXELS>(source, samples, first, g, of_points,      \
                                                                volume.grid, of_grid, shared != 0, frame); \
    }
#define GEOM_TAPE_SAMPLE_INDEXED(T, V, name, How, P)                                                       \
    extern "C" __global__ void __launch_bounds__(128) tape_##name(                                         \
        geom::Volume<T> volume, geom::volume::Samples samples, geom::IndexedValues<V> values,              \
        unsigned long long first, const V* g, geom::vec3<P>* of_points, void* of_values, unsigned shared,  \
        geom::tape::Frame frame) {                                                                         \
        using namespace geom::volume;                                                                      \
        const Indexed<T, V> source = {volume, values};                                                     \
        sample_adjoint<How, true>(source, samples, first, g, of_points, values.data, of_values,            \
                                  shared != 0, frame);                                                     \
    }
#define GEOM_TAPE_SAMPLES(V, suffix)                                                                       \
    GEOM_TAPE_SAMPLE(V, trilinear_points_##suffix##_f32, TrilinearWeights, false, float)                   \
    GEOM_TAPE_SAMPLE(V, trilinear_points_##suffix##_f64, TrilinearWeights, false, double)                  \
    GEOM_TAPE_SAMPLE(V, trilinear_voxels_##suffix##_f32, TrilinearWeights, true, float)                    \
    GEOM_TAPE_SAMPLE(V, trilinear_voxels_##suffix##_f64, TrilinearWeights, true, double)                   \
    GEOM_TAPE_SAMPLE(V, tricubic_points_##suffix##_f32, TricubicWeights, false, float)                     \
    GEOM_TAPE_SAMPLE(V, tricubic_points_##suffix##_f64, TricubicWeights, false, double)                    \
    GEOM_TAPE_SAMPLE(V, tricubic_voxels_##suffix##_f32, TricubicWeights, true, float)                      \
    GEOM_TAPE_SAMPLE(V, tricubic_voxels_##suffix##_f64, TricubicWeights, true, double)                     \
    GEOM_TAPE_SAMPLES_INDEXED(geom::VolumeIndex, V, index, suffix)                                         \
    GEOM_TAPE_SAMPLES_INDEXED(geom::VolumeOnIndex, V, on_index, suffix)                                    \
    extern "C" __global__ void __launch_bounds__(128)                                                      \
        tape_voxel_gradients_##suffix(geom::Volume<V> volume, const geom::vec3<int>* coords, unsigned n,   \
                                      const void* of_grid, V* out) {                                       \
        geom::volume::voxel_gradients(volume, coords, n, of_grid, out);                                    \
    }
#define GEOM_TAPE_SAMPLES_INDEXED(T, V, index, suffix)                                                     \
    GEOM_TAPE_SAMPLE_INDEXED(T, V, trilinear_##index##_##suffix##_f32, TrilinearWeights, float)            \
    GEOM_TAPE_SAMPLE_INDEXED(T, V, trilinear_##index##_##suffix##_f64, TrilinearWeights, double)           \
    GEOM_TAPE_SAMPLE_INDEXED(T, V, tricubic_##index##_##suffix##_f32, TricubicWeights, float)              \
    GEOM_TAPE_SAMPLE_INDEXED(T, V, tricubic_##index##_##suffix##_f64, TricubicWeights, double)
