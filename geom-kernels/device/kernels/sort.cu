// Sorting keys without values, sorting pairs of a key and a value, with the plan of a sort of keys of any size; prefix
// sums, and prefix sums of counts as offsets of 64 bits. One module each: `sources!` in src/geometry.rs.
#include <geom/sort/kernels.cuh>

#if defined(MODULE_sort_keys)
GEOM_SORT_PASS(sort_keys_u32, unsigned, 32, false)
GEOM_SORT_PASS(sort_keys_u64, unsigned long long, 64, false)
#elif defined(MODULE_sort_pairs_u32)
GEOM_SORT_PASS(sort_pairs_u32, unsigned, 32, true)
#elif defined(MODULE_sort_pairs_u64)
GEOM_SORT_PASS(sort_pairs_u64, unsigned long long, 64, true)

extern "C" __global__ void __launch_bounds__(256) sort_plan(unsigned n, unsigned passes, unsigned* state) {
    geom::sort::plan_passes(n, passes, state);
}
#elif defined(MODULE_scan)
GEOM_SCAN(scan_u32, unsigned, unsigned, 16)
GEOM_SCAN(scan_u64, unsigned long long, unsigned long long, 16)
#elif defined(MODULE_scan_offsets)
GEOM_SCAN(scan_offsets, unsigned, unsigned long long, 16)
#else
#error "no module of this file is named"
#endif
