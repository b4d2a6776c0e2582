// Values stored by a kernel of a user's own, in all leaves of a volume; and what is then there.
#include <geom/volume/iterate.cuh>

using namespace geom;

// A sum of small whole numbers, which no fusing changes.
__device__ inline float value_at(vec3<int> v) {
    return static_cast<float>((v.x & 63) + 64 * (v.y & 63) + 4096 * (v.z & 63));
}

// A block for each leaf, a thread for each voxel.
extern "C" __global__ void store(Volume<float> volume, unsigned* counts) {
    if (blockIdx.x == 0 && threadIdx.x == 0) counts[0] = volume::leaf_count(volume);
    for (unsigned i = blockIdx.x; i < volume::leaf_count(volume); i += gridDim.x) {
        unsigned char* leaf = volume::leaf(volume, i);
        const unsigned place = threadIdx.x;
        if (!volume::leaf_active(leaf, place)) continue;
        const vec3<int> v = volume::leaf_voxel(leaf, place), origin = volume::leaf_origin(leaf);
        *volume::leaf_value<float>(leaf, place) = value_at(v);
        if (v.x - origin.x > 7 || v.y - origin.y > 7 || v.z - origin.z > 7) atomicAdd(counts + 1, 1u);
        if (volume::leaf_place(v.x, v.y, v.z) != place) atomicAdd(counts + 1, 1u);
        atomicAdd(counts + 2, 1u);
    }
}

// A thread for each voxel.
extern "C" __global__ void look(Volume<float> volume, const vec3<int>* voxels, unsigned n, float* found) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) found[i] = lookup(volume, voxels[i].x, voxels[i].y, voxels[i].z);
}
