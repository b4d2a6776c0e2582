// Hash grids over points of f64: building them within bounds.
#include <geom/hash_grid/kernels.cuh>

GEOM_HASH_GRID_BUILD(double, f64)
