// Hash grids over points of f64: the nearest neighbours.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_NEAREST(double, f64, 16)
GEOM_HASH_GRID_NEAREST(double, f64, 128)
