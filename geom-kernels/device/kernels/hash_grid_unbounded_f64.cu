// Hash grids over points of f64: building them without bounds.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_UNBOUNDED(double, f64)
