// Hash grids over points of f32: counts and lists of neighbours.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_QUERY(float, f32)
