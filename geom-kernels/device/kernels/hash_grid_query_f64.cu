// Hash grids over points of f64: counts and lists of neighbours.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_QUERY(double, f64)
