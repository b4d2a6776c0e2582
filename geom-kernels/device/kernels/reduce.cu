// Sums, least and greatest elements. src/algorithms/reduce.rs launches the kernels.
#include <geom/sort/reduce.cuh>

using namespace geom::sort;
typedef unsigned u32;
typedef unsigned long long u64;

#define REDUCE(name, Op, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) name(const T* in, T* out, u32 n) {            \
        __shared__ T shared[REDUCE_THREADS];                                                        \
        reduce_chunk<Op>(shared, in, out, n);                                                       \
    }
// The kernels for unsigned sums also compute those of signed integers.
REDUCE(reduce_add_u32, Add, u32)
REDUCE(reduce_add_u64, Add, u64)
REDUCE(reduce_add_f32, Add, float)
REDUCE(reduce_add_f64, Add, double)
REDUCE(reduce_min_u32, Min, u32)
REDUCE(reduce_min_i32, Min, int)
REDUCE(reduce_min_u64, Min, u64)
REDUCE(reduce_min_i64, Min, long long)
REDUCE(reduce_min_f32, Min, float)
REDUCE(reduce_min_f64, Min, double)
REDUCE(reduce_max_u32, Max, u32)
REDUCE(reduce_max_i32, Max, int)
REDUCE(reduce_max_u64, Max, u64)
REDUCE(reduce_max_i64, Max, long long)
REDUCE(reduce_max_f32, Max, float)
REDUCE(reduce_max_f64, Max, double)
