// Hash grids over points of f32: building them within bounds.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_BUILD(float, f32)
