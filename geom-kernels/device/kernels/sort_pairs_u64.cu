// Sorting pairs of a key of 64 bits and a value; and the plan of a sort, of keys of any size.
#include <geom/sort/kernels.cuh>

GEOM_SORT_PASS(sort_pairs_u64, unsigned long long, 64, true)

extern "C" __global__ void __launch_bounds__(256) sort_plan(unsigned n, unsigned passes, unsigned* state) {
    geom::sort::plan_passes(n, passes, state);
}
