// Lists of the leaves and active voxels of a volume. src/volume/build/lists.rs launches the kernels.
#include <geom/volume/lists.cuh>

using namespace geom;
using namespace geom::volume;

extern "C" __global__ void __launch_bounds__(256) volume_list_leaves(Leaves leaves, unsigned n, int* origins) {
    list_leaves(leaves, n, origins);
}
extern "C" __global__ void __launch_bounds__(256)
    volume_count_voxels(Leaves leaves, unsigned n, unsigned* counts) {
    count_voxels(leaves, n, counts);
}
extern "C" __global__ void __launch_bounds__(256) volume_list_voxels(
    Leaves leaves, unsigned n, const unsigned long long* offsets, unsigned long long room, int* voxels
) {
    list_voxels(leaves, n, offsets, room, voxels);
}
