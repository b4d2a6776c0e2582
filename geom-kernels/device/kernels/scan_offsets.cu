// Prefix sums of counts, as offsets of 64 bits.
#include <geom/sort/kernels.cuh>

GEOM_SCAN(scan_offsets, unsigned, unsigned long long, 16)
