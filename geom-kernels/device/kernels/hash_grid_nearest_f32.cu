// Hash grids over points of f32: the nearest neighbours.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_NEAREST(float, f32, 16)
GEOM_HASH_GRID_NEAREST(float, f32, 128)
