// Volumes as fields of blocks. src/isosurface/volume.rs launches the kernels.
#include <geom/isosurface/volume_field.cuh>

using namespace geom;
using namespace geom::isosurface;

extern "C" __global__ void __launch_bounds__(256) isosurface_beside_leaves(
    const vec3<int>* leaves, unsigned n, vec3<int>* list, Findings* findings
) {
    list_beside_leaves(leaves, n, list, findings);
}
// The kernels compare the bits of values.
extern "C" __global__ void __launch_bounds__(256) isosurface_list_root_f32(
    Volume<unsigned> volume, unsigned* uppers, unsigned room, Findings* findings
) {
    list_root(volume, uppers, room, findings);
}
extern "C" __global__ void __launch_bounds__(256) isosurface_list_root_f64(
    Volume<long long> volume, unsigned* uppers, unsigned room, Findings* findings
) {
    list_root(volume, uppers, room, findings);
}
extern "C" __global__ void __launch_bounds__(256) isosurface_tile_borders_f32(
    Volume<unsigned> volume, const unsigned* uppers, unsigned n, vec3<int>* list, unsigned long long room,
    Findings* findings
) {
    list_tile_borders(volume, uppers, n, list, room, findings);
}
extern "C" __global__ void __launch_bounds__(256) isosurface_tile_borders_f64(
    Volume<long long> volume, const unsigned* uppers, unsigned n, vec3<int>* list, unsigned long long room,
    Findings* findings
) {
    list_tile_borders(volume, uppers, n, list, room, findings);
}
extern "C" __global__ void __launch_bounds__(256) isosurface_link_blocks(
    Volume<VolumeMask> blocks, unsigned n, vec3<int>* origins, unsigned* neighbors
) {
    link_blocks(blocks, n, origins, neighbors);
}
extern "C" __global__ void __launch_bounds__(128) isosurface_fill_blocks_f32(
    Volume<float> volume, const vec3<int>* origins, unsigned n, float* values
) {
    fill_blocks(volume, origins, n, values);
}
extern "C" __global__ void __launch_bounds__(128) isosurface_fill_blocks_f64(
    Volume<double> volume, const vec3<int>* origins, unsigned n, float* values
) {
    fill_blocks(volume, origins, n, values);
}
