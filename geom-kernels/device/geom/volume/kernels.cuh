// The kernels of batch calls, each for one type of values. src/volume/ launches them.
#pragma once

#include <geom/volume/batch.cuh>

#define GEOM_VOLUME_MAP(C, suffix)                                                                         \
    extern "C" __global__ void __launch_bounds__(128) volume_map_##suffix(                                 \
        geom::VolumeMap map, const geom::vec3<C>* from, unsigned n, unsigned kind, unsigned to_world,      \
        geom::vec3<C>* to) {                                                                               \
        geom::volume::map_each(map, from, n, kind, to_world != 0, to);                                     \
    }

// Kernels without arithmetic on values: T is the stored type, O the type in arrays.
#define GEOM_VOLUME_LOOKUP(T, O, suffix)                                                                   \
    extern "C" __global__ void __launch_bounds__(128) volume_lookup_##suffix(                              \
        geom::Volume<T> volume, const geom::vec3<int>* coords, unsigned n, O* out) {                       \
        geom::volume::look_up(volume, coords, n, out);                                                     \
    }
#define GEOM_VOLUME_ACTIVE(T, suffix)                                                                      \
    extern "C" __global__ void __launch_bounds__(128) volume_active_##suffix(                              \
        geom::Volume<T> volume, const geom::vec3<int>* coords, unsigned n, unsigned char* out) {           \
        geom::volume::ask_active(volume, coords, n, out);                                                  \
    }
#define GEOM_VOLUME_STORE(T, O, suffix)                                                                    \
    extern "C" __global__ void __launch_bounds__(128) volume_store_##suffix(                               \
        geom::Volume<T> volume, const geom::vec3<int>* coords, unsigned n, const O* values,                \
        unsigned long long* refused) {                                                                     \
        geom::volume::store_values(volume, coords, n, values, refused);                                    \
    }
#define GEOM_VOLUME_NEAREST(T, O, suffix)                                                                  \
    GEOM_VOLUME_NEAREST_AT(T, O, suffix##_f32, float)                                                      \
    GEOM_VOLUME_NEAREST_AT(T, O, suffix##_f64, double)
#define GEOM_VOLUME_NEAREST_AT(T, O, suffix, C)                                                            \
    extern "C" __global__ void __launch_bounds__(128) volume_nearest_##suffix(                             \
        geom::Volume<T> volume, geom::volume::Samples samples, O* out) {                                   \
        geom::volume::nearest_values<C>(volume, samples, out);                                             \
    }

// Interpolation of values V in precision C, with `blocks` blocks at once on a multiprocessor: their number leaves
// room for the registers of the cells. Trilinear kernels have separate numbers with and without gradients, as it
// matters most there.
#define GEOM_VOLUME_SAMPLE(V, suffix, C, blocks, gradient_blocks)                                          \
    extern "C" __global__ void __launch_bounds__(128, blocks) volume_trilinear_##suffix(                   \
        geom::Volume<V> volume, geom::volume::Samples samples, V* out) {                                   \
        const geom::volume::Stored<V> source = {volume};                                                   \
        geom::volume::interpolate<geom::volume::Trilinear, C>(source, samples, out);                       \
    }                                                                                                      \
    GEOM_VOLUME_SAMPLE_BOTH(V, trilinear_gradient, geom::volume::Trilinear, suffix, C, gradient_blocks)    \
    GEOM_VOLUME_SAMPLE_BOTH(V, tricubic, geom::volume::Tricubic, suffix, C, 1)
#define GEOM_VOLUME_SAMPLE_BOTH(V, name, How, suffix, C, blocks)                                           \
    extern "C" __global__ void __launch_bounds__(128, blocks) volume_##name##_##suffix(                    \
        geom::Volume<V> volume, geom::volume::Samples samples, V* out,                                     \
        geom::volume::Parts<V>::gradient* gradients) {                                                     \
        const geom::volume::Stored<V> source = {volume};                                                   \
        geom::volume::interpolate_with_gradient<How, C>(source, samples, out, gradients);                  \
    }

// The same for values in arrays, with index grids T.
#define GEOM_VOLUME_INDEXED(T, V, suffix, C)                                                               \
    extern "C" __global__ void __launch_bounds__(128) volume_nearest_##suffix(                             \
        geom::Volume<T> volume, geom::volume::Samples samples, geom::IndexedValues<V> values, V* out) {    \
        geom::volume::nearest_indexed<C>(volume, samples, values, out);                                    \
    }                                                                                                      \
    GEOM_VOLUME_INDEXED_BOTH(T, V, trilinear, geom::volume::Trilinear, suffix, C)                          \
    GEOM_VOLUME_INDEXED_BOTH(T, V, tricubic, geom::volume::Tricubic, suffix, C)
#define GEOM_VOLUME_INDEXED_BOTH(T, V, name, How, suffix, C)                                               \
    extern "C" __global__ void __launch_bounds__(128) volume_##name##_##suffix(                            \
        geom::Volume<T> volume, geom::volume::Samples samples, geom::IndexedValues<V> values, V* out,      \
        geom::volume::Parts<V>::gradient* gradients) {                                                     \
        const geom::volume::Indexed<T, V> source = {volume, values};                                       \
        geom::volume::interpolate_with_gradient<How, C>(source, samples, out, gradients);                  \
    }
