// The surface in a dense field.
#include <geom/isosurface/kernels.cuh>

GEOM_ISOSURFACE(dense, geom::isosurface::DenseField)
