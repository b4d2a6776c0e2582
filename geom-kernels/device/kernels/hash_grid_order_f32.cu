// Hash grids over points of f32: sorting queries.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_ORDER(float, f32)
