// Counting the digits of keys. src/algorithms/radix.rs launches the kernels.
#include <geom/sort/radix_sort.cuh>

using namespace geom::sort;
typedef unsigned u32;
typedef unsigned long long u64;

#define COUNT(name, Key, PASSES)                                                                    \
    extern "C" __global__ void __launch_bounds__(512)                                               \
        name(const Key* keys, u32 n, Digits digits, u32 map, u32* state) {                          \
        __shared__ DigitCounts<PASSES> counts;                                                      \
        count_digits(counts, keys, n, digits, map, state);                                          \
    }
COUNT(sort_count_u32, u32, 4)
COUNT(sort_count_u64, u64, 8)
