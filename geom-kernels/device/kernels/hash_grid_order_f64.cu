// Hash grids over points of f64: sorting queries.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_ORDER(double, f64)
