// A user's kernels that ask volumes, and one that writes.
#include <geom/volume.cuh>

using namespace geom;

namespace {

__device__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class S>
__device__ void put(S*& out, S value) {
    *out++ = value;
}
template <class S>
__device__ void put(S*& out, const vec3<S>& value) {
    put(out, value.x);
    put(out, value.y);
    put(out, value.z);
}
template <class S, int N>
__device__ void put(S*& out, const VectorGradient<S, N>& value) {
    for (int i = 0; i < N; ++i)
        put(out, value.of[i]);
}

} // namespace

// At positions in the world.
extern "C" __global__ void ask_f32(Volume<float> volume, const vec3<float>* points, unsigned n, float* out) {
    if (thread() >= n) return;
    const vec3<float> p = world_to_index(volume.map, points[thread()]);
    out += 11 * thread();
    put(out, sample_nearest(volume, p));
    put(out, sample_trilinear(volume, p));
    const auto line = sample_trilinear_with_gradient(volume, p);
    put(out, line.value);
    put(out, index_to_world_gradient(volume.map, line.gradient));
    put(out, sample_tricubic(volume, p));
    const auto cubic = sample_tricubic_with_gradient(volume, p);
    put(out, cubic.value);
    put(out, index_to_world_gradient(volume.map, cubic.gradient));
}

extern "C" __global__ void ask_vec3d(Volume<vec3<double>> volume, const vec3<float>* points, unsigned n,
                                     double* out) {
    if (thread() >= n) return;
    const vec3<float> p = points[thread()];
    out += 27 * thread();
    put(out, sample_nearest(volume, p));
    const auto line = sample_trilinear_with_gradient(volume, p);
    put(out, line.value);
    put(out, line.gradient);
    const auto cubic = sample_tricubic_with_gradient(volume, p);
    put(out, cubic.value);
    put(out, cubic.gradient);
}

// The last two are of indices that the array has not.
extern "C" __global__ void ask_index(Volume<VolumeOnIndex> volume, IndexedValues<float> values,
                                     const vec3<float>* points, unsigned n, float* out) {
    if (thread() >= n) return;
    const vec3<float> p = points[thread()];
    out += 9 * thread();
    put(out, sample_nearest_index(volume, p, values));
    const auto line = sample_trilinear_with_gradient_index(volume, p, values);
    put(out, line.value);
    put(out, line.gradient);
    put(out, sample_tricubic_index(volume, p, values));
    put(out, sample_trilinear_index(volume, p, values));
    put(out, values.at(0));
    put(out, values.at(values.count + 1));
}

extern "C" __global__ void flip(Volume<VolumeBool> volume, const vec3<int>* voxels, unsigned n,
                                unsigned char* out) {
    if (thread() >= n) return;
    const vec3<int> v = voxels[thread()];
    store(volume, v.x, v.y, v.z, !lookup(volume, v.x, v.y, v.z));
    out[thread()] = lookup(volume, v.x, v.y, v.z);
}
