// What the directory says of a voxel's leaf, and what the walk says.
#include <geom/volume.cuh>

using namespace geom;
using namespace geom::volume;

extern "C" __global__ void ways(Volume<float> volume, const int* voxels, unsigned n, long long* ways) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int x = voxels[3 * i], y = voxels[3 * i + 1], z = voxels[3 * i + 2];
    const DirectoryPlace place(volume, x, y, z);
    // In the box, and there a leaf.
    ways[3 * i] = place.has() ? 32ll * place.entries[place.number()] : -1;
    const unsigned char* walked = find_below<float>(find_lower(volume, x, y, z), x, y, z).leaf;
    ways[3 * i + 1] = walked != nullptr ? walked - volume.grid : 0;
    const unsigned char* found = find(volume, x, y, z).leaf;
    ways[3 * i + 2] = found != nullptr ? found - volume.grid : 0;
}
