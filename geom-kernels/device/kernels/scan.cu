// Prefix sums.
#include <geom/sort/kernels.cuh>

GEOM_SCAN(scan_u32, unsigned, unsigned, 16)
GEOM_SCAN(scan_u64, unsigned long long, unsigned long long, 16)
