// Queries of arrays: the device code of batch calls.
#pragma once

#include <geom/volume/sample.cuh>
#include <geom/volume/store.cuh>

namespace geom {
namespace volume {

// Positions at which a volume is sampled. `geom_kernels::volume::Samples` in Rust.
struct Samples {
    // Coordinate c of position i is `stride` * i bytes after the first of these pointers, for c = 0, 1 and 2. A
    // pointer for each and a stride of 32 bits make an address one instruction, whatever the layout: packed positions
    // need no separate code.
    const void* x;
    const void* y;
    const void* z;
    unsigned length, stride;
    // Whether coordinates are f64, and how often the map is applied to positions: once, or not at all. A loop over
    // `maps` is a branch that all threads take alike; an `if` would become predicated instructions, which all of them
    // execute.
    unsigned of_f64, maps;

    // The hint is for data that is read once, and need not stay in caches.
    template <class P>
    __device__ __forceinline__ vec3<P> load(unsigned i) const {
        const unsigned long long at = static_cast<unsigned long long>(i) * stride;
        return vec3<P>(coordinate<P>(x, at), coordinate<P>(y, at), coordinate<P>(z, at));
    }
    template <class P>
    static __device__ __forceinline__ P coordinate(const void* first, unsigned long long at) {
        return __ldcs(reinterpret_cast<const P*>(static_cast<const char*>(first) + at));
    }
    __device__ __forceinline__ vec3<float> given(unsigned i, float) const { return load<float>(i); }
    __device__ __forceinline__ vec3<double> given(unsigned i, double) const {
        if (of_f64 == 0) return exact::widen(load<float>(i));
        return load<double>(i);
    }
    // Position i in index space.
    template <class C>
    __device__ __forceinline__ vec3<C> at(unsigned i, const VolumeMap& map) const {
        vec3<C> p = given(i, C(0));
#pragma unroll 1
        for (unsigned n = maps; n != 0; --n)
            p = world_to_index(map, p);
        return p;
    }
};

__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The hint is for results that are written once, and that their writers do not read.
__device__ __forceinline__ void write(float* to, float value) { __stcs(to, value); }
__device__ __forceinline__ void write(double* to, double value) { __stcs(to, value); }
__device__ __forceinline__ void write(unsigned* to, unsigned value) { __stcs(to, value); }
__device__ __forceinline__ void write(long long* to, long long value) { __stcs(to, value); }
__device__ __forceinline__ void write(unsigned long long* to, unsigned long long value) { __stcs(to, value); }
template <class S>
__device__ __forceinline__ void write(vec3<S>* to, const vec3<S>& value) {
    write(&to->x, value.x);
    write(&to->y, value.y);
    write(&to->z, value.z);
}
template <class S>
__device__ __forceinline__ void write(vec4<S>* to, const vec4<S>& value) {
    write(&to->x, value.x);
    write(&to->y, value.y);
    write(&to->z, value.z);
    write(&to->w, value.w);
}
template <class S, int N>
__device__ __forceinline__ void write(VectorGradient<S, N>* to, const VectorGradient<S, N>& value) {
#pragma unroll
    for (int i = 0; i < N; ++i)
        write(&to->of[i], value.of[i]);
}
template <class T>
__device__ __forceinline__ void write(T* to, const T& value) {
    *to = value;
}

// Transforms a gradient to the world, if the positions are there.
template <class V>
__device__ __forceinline__ void to_world(const VolumeMap& map, typename Parts<V>::gradient& gradient) {
#pragma unroll
    for (int i = 0; i < Parts<V>::count; ++i) {
        auto& one = gradient_part(gradient, i);
        one = index_to_world_gradient(map, one);
    }
}

template <class C, class T, class O>
__device__ __forceinline__ void nearest_values(const Volume<T>& volume, const Samples& samples, O* out) {
    const unsigned i = thread();
    if (i < samples.length) write(out + i, static_cast<O>(sample_nearest(volume, samples.at<C>(i, volume.map))));
}
template <class C, class T, class V>
__device__ __forceinline__ void nearest_indexed(const Volume<T>& volume, const Samples& samples,
                                                const IndexedValues<V>& values, V* out) {
    const unsigned i = thread();
    if (i < samples.length)
        write(out + i, sample_nearest_index(volume, samples.at<C>(i, volume.map), values));
}

// The interpolations of kernels.
struct Trilinear {
    template <class C, class Source>
    static __device__ __forceinline__ auto value(const Source& source, const vec3<C>& p) {
        return trilinear(source, p);
    }
    template <class C, class Source>
    static __device__ __forceinline__ auto both(const Source& source, const vec3<C>& p) {
        return trilinear_with_gradient(source, p);
    }
};
struct Tricubic {
    template <class C, class Source>
    static __device__ __forceinline__ auto both(const Source& source, const vec3<C>& p) {
        return tricubic<true>(source, p);
    }
};

template <class How, class C, class Source>
__device__ __forceinline__ void interpolate(const Source& source, const Samples& samples,
                                            typename Source::value* out) {
    const unsigned i = thread();
    if (i < samples.length) write(out + i, How::value(source, samples.at<C>(i, source.volume.map)));
}
// Samples with gradients, unless `gradients` is null.
template <class How, class C, class Source>
__device__ __forceinline__ void
interpolate_with_gradient(const Source& source, const Samples& samples, typename Source::value* out,
                          typename Parts<typename Source::value>::gradient* gradients) {
    const unsigned i = thread();
    if (i >= samples.length) return;
    auto sample = How::both(source, samples.at<C>(i, source.volume.map));
    write(out + i, sample.value);
    if (gradients == nullptr) return;
#pragma unroll 1
    for (unsigned n = samples.maps; n != 0; --n)
        to_world<typename Source::value>(source.volume.map, sample.gradient);
    write(gradients + i, sample.gradient);
}

// The maps of arrays of vectors: `geom_kernels::volume::MapKind` in Rust.
enum MapKind : unsigned { map_positions, map_directions, map_gradients };

template <class C>
__device__ __forceinline__ void map_each(const VolumeMap& map, const vec3<C>* from, unsigned n,
                                         unsigned kind, bool to_world, vec3<C>* to) {
    const unsigned i = thread();
    if (i >= n) return;
    const vec3<C> v = from[i];
    vec3<C> w;
    if (kind == map_positions)
        w = to_world ? index_to_world(map, v) : world_to_index(map, v);
    else if (kind == map_directions)
        w = to_world ? index_to_world_direction(map, v) : world_to_index_direction(map, v);
    else
        w = to_world ? index_to_world_gradient(map, v) : world_to_index_gradient(map, v);
    write(to + i, w);
}

// Coordinates of voxels.
__device__ __forceinline__ vec3<int> coordinates(const vec3<int>* coords, unsigned i) {
    const int* c = &coords[i].x;
    return vec3<int>(__ldcs(c), __ldcs(c + 1), __ldcs(c + 2));
}

template <class T, class O>
__device__ __forceinline__ void look_up(const Volume<T>& volume, const vec3<int>* coords, unsigned n, O* out) {
    const unsigned i = thread();
    if (i >= n) return;
    const vec3<int> c = coordinates(coords, i);
    write(out + i, static_cast<O>(lookup(volume, c.x, c.y, c.z)));
}
template <class T>
__device__ __forceinline__ void ask_active(const Volume<T>& volume, const vec3<int>* coords, unsigned n,
                                           unsigned char* out) {
    const unsigned i = thread();
    if (i >= n) return;
    const vec3<int> c = coordinates(coords, i);
    out[i] = is_active(volume, c.x, c.y, c.z);
}
// Counts the voxels that lie in no leaf; a warp adds its number at once.
template <class T, class O>
__device__ __forceinline__ void store_values(const Volume<T>& volume, const vec3<int>* coords, unsigned n,
                                             const O* values, unsigned long long* refused) {
    const unsigned i = thread();
    bool refuses = false;
    if (i < n) {
        const vec3<int> c = coordinates(coords, i);
        using V = typename Traits<T>::value;
        refuses = !store(volume, c.x, c.y, c.z, static_cast<V>(values[i]));
    }
    const unsigned votes = __ballot_sync(0xffffffffu, refuses);
    if ((threadIdx.x & 31) == 0 && votes != 0)
        atomicAdd(refused, static_cast<unsigned long long>(__popc(votes)));
}

} // namespace volume
} // namespace geom
