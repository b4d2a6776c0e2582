// The surface in a sparse field of blocks.
#include <geom/isosurface/blocks.cuh>
#include <geom/isosurface/kernels.cuh>

GEOM_ISOSURFACE(blocks, geom::isosurface::BlockField)
