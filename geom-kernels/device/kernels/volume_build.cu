// Volumes built on the device. src/volume/build/run.rs launches the kernels.
#include <geom/sort/scan.cuh>
#include <geom/volume/build_leaves.cuh>
#include <geom/volume/build_nodes.cuh>
#include <geom/volume/build_order.cuh>

using namespace geom;
using namespace geom::volume;

extern "C" __global__ void __launch_bounds__(256)
    volume_index_keys(Build b, IndexPoints points) {
    write_keys(b, points);
}
extern "C" __global__ void __launch_bounds__(256)
    volume_world_keys(Build b, WorldPoints points) {
    write_keys(b, points);
}

extern "C" __global__ void __launch_bounds__(256) volume_order(Build b) {
    __shared__ NodeTile::Shared shared;
    NodeTile::run(shared, b);
}

extern "C" __global__ void __launch_bounds__(128) volume_tile_leaves(Build b) {
    write_leaves(b, TileSource{});
}
extern "C" __global__ void __launch_bounds__(128)
    volume_index_leaves(Build b, IndexPoints points, const unsigned char* values) {
    write_leaves(b, VoxelSource<IndexPoints>{points, values});
}
extern "C" __global__ void __launch_bounds__(128)
    volume_world_leaves(Build b, WorldPoints points, const unsigned char* values) {
    write_leaves(b, VoxelSource<WorldPoints>{points, values});
}

// Sums the active voxels before each leaf, for a grid that indexes them; `number_leaves` then writes the first index
// of each leaf.
extern "C" __global__ void __launch_bounds__(256) volume_scan(Build b) {
    typedef sort::ScanTile<unsigned, unsigned long long, 256, 16> Tile;
    __shared__ Tile::Shared shared;
    Tile::run(shared, b.leaf_active, b.before, b.leaf_room, false, false, b.scan);
}
extern "C" __global__ void __launch_bounds__(256) volume_number(Build b) { number_leaves(b); }

extern "C" __global__ void __launch_bounds__(256) volume_lowers(Build b) { write_lowers(b); }
extern "C" __global__ void __launch_bounds__(256) volume_uppers(Build b) { write_uppers(b); }
extern "C" __global__ void __launch_bounds__(256) volume_root(Build b) { write_root(b); }
