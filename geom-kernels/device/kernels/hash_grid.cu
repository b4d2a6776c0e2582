// Hash grids over points of f32 and f64: builds with and without bounds, sorting of queries, counts and lists of
// neighbours, the nearest neighbours. One module each: `sources!` in src/geometry.rs.
#include <geom/hash_grid/kernels.cuh>

#if defined(MODULE_hash_grid_build_f32)
GEOM_HASH_GRID_BUILD(float, f32)
#elif defined(MODULE_hash_grid_build_f64)
GEOM_HASH_GRID_BUILD(double, f64)
#elif defined(MODULE_hash_grid_unbounded_f32)
GEOM_HASH_GRID_UNBOUNDED(float, f32)
#elif defined(MODULE_hash_grid_unbounded_f64)
GEOM_HASH_GRID_UNBOUNDED(double, f64)
#elif defined(MODULE_hash_grid_order_f32)
GEOM_HASH_GRID_ORDER(float, f32)
#elif defined(MODULE_hash_grid_order_f64)
GEOM_HASH_GRID_ORDER(double, f64)
#elif defined(MODULE_hash_grid_query_f32)
GEOM_HASH_GRID_QUERY(float, f32)
#elif defined(MODULE_hash_grid_query_f64)
GEOM_HASH_GRID_QUERY(double, f64)
#elif defined(MODULE_hash_grid_nearest_f32)
GEOM_HASH_GRID_NEAREST(float, f32, 16)
GEOM_HASH_GRID_NEAREST(float, f32, 128)
#elif defined(MODULE_hash_grid_nearest_f64)
GEOM_HASH_GRID_NEAREST(double, f64, 16)
GEOM_HASH_GRID_NEAREST(double, f64, 128)
#else
#error "no module of this file is named"
#endif
