// Rays through volumes in users' kernels.
#include <geom/volume/march.cuh>

using namespace geom;

extern "C" __global__ void ask(Volume<float> volume, const MeshRay* rays, unsigned n, double iso,
                               VolumeHit* hits, float* sums) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // Rays of either kind.
    const MeshRay r = rays[i];
    const ray<float> other(r.origin, r.direction, r.t_min, r.t_max);
    const bool found = i % 2 == 0 ? first_crossing(volume, r, iso, hits + i)
                                  : first_crossing(volume, other, iso, hits + i);
    if (found != exact::is_finite(hits[i].t)) hits[i].t = exact::not_a_number();
    sums[i] = exact::narrow(i % 2 == 0 ? integrate(volume, r) : integrate(volume, other));
}

// Counts pieces, and what is wrong with them: gaps, and values that are not the volume's.
struct Count {
    const Volume<float>& volume;
    const MeshRay& ray;
    unsigned constants, cells, wrong;
    double last;

    __device__ void follows(double t0, double t1) {
        if (constants + cells > 0 && !exact::equal(t0, last)) ++wrong;
        if (!exact::less_equal(t0, t1)) ++wrong;
        last = t1;
    }
    __device__ bool constant(float, double t0, double t1) {
        follows(t0, t1);
        ++constants;
        return false;
    }
    __device__ bool cell(vec3<int> at, const float (&corners)[8], double t0, double t1) {
        follows(t0, t1);
        ++cells;
        for (int i = 0; i < 8; ++i) {
            const vec3<int> corner(at.x + (i >> 2), at.y + (i >> 1 & 1), at.z + (i & 1));
            if (!exact::equal(corners[i], lookup(volume, corner.x, corner.y, corner.z))) ++wrong;
        }
        return false;
    }
};

extern "C" __global__ void count_segments(Volume<float> volume, const MeshRay* rays, unsigned n,
                                          float4* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const MeshRay ray = rays[i];
    Count count = {volume, ray, 0, 0, 0, 0.0};
    for_each_segment(volume, ray, count);
    out[i] = make_float4(float(count.constants), float(count.cells), float(count.wrong),
                         exact::narrow(count.last));
}
