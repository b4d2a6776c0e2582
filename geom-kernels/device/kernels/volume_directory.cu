// The directory of a volume's leaves. src/volume/directory.rs launches the kernel.
#include <geom/volume/build_directory.cuh>

using namespace geom;
using namespace geom::volume;

extern "C" __global__ void __launch_bounds__(256)
    volume_directory(NodeLayout layout, const unsigned char* grid, const unsigned char* root, unsigned room,
                     unsigned char* directory) {
    write_directory(layout, grid, root, room, directory);
}
