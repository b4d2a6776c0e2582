// Rays through a volume, for arrays of rays. src/volume/march.rs launches the kernels.
#include <geom/volume/march.cuh>

using namespace geom;

namespace {

__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

} // namespace

#define VOLUME_MARCH(T, suffix)                                                                      \
    extern "C" __global__ void __launch_bounds__(128) volume_first_crossings_##suffix(               \
        Volume<T> volume, const MeshRay* rays, unsigned n, double iso, VolumeHit* hits) {            \
        if (thread() < n) first_crossing(volume, load_ray(rays, thread()), iso, hits + thread());        \
    }                                                                                                \
    extern "C" __global__ void __launch_bounds__(128) volume_integrals_##suffix(                     \
        Volume<T> volume, const MeshRay* rays, unsigned n, float* integrals) {                       \
        if (thread() < n) integrals[thread()] = exact::narrow(integrate(volume, load_ray(rays, thread()))); \
    }

VOLUME_MARCH(float, f32)
VOLUME_MARCH(double, f64)
