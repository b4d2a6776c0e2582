// Sorting pairs of a key of 32 bits and a value.
#include <geom/sort/kernels.cuh>

GEOM_SORT_PASS(sort_pairs_u32, unsigned, 32, true)
