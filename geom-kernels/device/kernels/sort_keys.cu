// Sorting keys without values.
#include <geom/sort/kernels.cuh>

GEOM_SORT_PASS(sort_keys_u32, unsigned, 32, false)
GEOM_SORT_PASS(sort_keys_u64, unsigned long long, 64, false)
