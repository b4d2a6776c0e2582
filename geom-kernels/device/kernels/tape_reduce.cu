// Sums with gradients, always in the same order. src/tape/reductions.rs launches the kernels.
// inexact: tape_dot_adjoint_f32 where factors overlap, sums depend on their order
// inexact: tape_dot_adjoint_f64 as above
#include <geom/sort/reduce.cuh>
#include <geom/tape.cuh>

using namespace geom;
typedef unsigned u32;

namespace {

template <class T>
struct Products {
    const T *x, *y;
    __device__ __forceinline__ T operator[](u32 i) const { return exact::mul(x[i], y[i]); }
};
template <class T>
struct Squares {
    const T* x;
    __device__ __forceinline__ T operator[](u32 i) const {
        const T a = x[i];
        return exact::mul(a, a);
    }
};

template <class T>
struct Sizes {
    const T* x;
    __device__ __forceinline__ T operator[](u32 i) const { return exact::abs(x[i]); }
};

// The sign: 1, -1, or 0 for 0.
template <class T>
__device__ __forceinline__ T sign(T x) {
    return exact::less(T(0), x) ? T(1) : exact::less(x, T(0)) ? T(-1) : T(0);
}

// The sum; the last launch, of one block, also divides.
template <class T, class In>
__device__ __forceinline__ void sum_up(In in, u32 n, T divisor, T* out) {
    __shared__ T shared[sort::REDUCE_THREADS];
    sort::reduce_chunk<sort::Add>(shared, in, out, n);
    if (gridDim.x == 1 && threadIdx.x == 0) *out = exact::div(*out, divisor);
}

__device__ __forceinline__ u32 thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Adds to gradient i, to which no other thread adds unless gradients are shared.
template <class T>
__device__ __forceinline__ void add_to(const tape::Frame& frame, u32 shared, T* gradients, u32 i, T g) {
    if (shared != 0)
        tape::grad_add(frame, 0, tape::at(gradients, i), g);
    else if (gradients != nullptr)
        gradients[i] = exact::add(gradients[i], g);
}

// The least index whose element has that absolute value. One lane of each warp writes it.
template <class T>
__device__ __forceinline__ void find_first(const T* x, u32 n, T size, u32* first) {
    const bool is = thread() < n && exact::equal(exact::abs(x[thread()]), size);
    const u32 lanes = __ballot_sync(sort::ALL_LANES, is);
    if (lanes != 0 && threadIdx.x % 32 == u32(__ffs(lanes) - 1)) atomicMin(first, thread());
}

} // namespace

#define TAPE_REDUCE(T, suffix)                                                                            \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_sum_##suffix(const T* x, u32 n, T divisor, T* out) {                                         \
        sum_up(x, n, divisor, out);                                                                       \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_dot_##suffix(const T* x, const T* y, u32 n, T divisor, T* out) {                             \
        sum_up(Products<T>{x, y}, n, divisor, out);                                                       \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_squares_##suffix(const T* x, u32 n, T divisor, T* out) {                                     \
        sum_up(Squares<T>{x}, n, divisor, out);                                                           \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_sum_adjoint_##suffix(u32 n, T divisor, const T* g, T* of_x, tape::Frame frame) {             \
        if (!tape::begin(frame) || thread() >= n) return;                                                 \
        add_to(frame, 0, of_x, thread(), exact::div(*g, divisor));                                        \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_dot_adjoint_##suffix(const T* x, const T* y, u32 n, const T* g, T* of_x, T* of_y, u32 shared, \
                                  tape::Frame frame) {                                                    \
        if (!tape::begin(frame) || thread() >= n) return;                                                 \
        const T a = x[thread()], b = y[thread()];                                                         \
        add_to(frame, shared, of_x, thread(), exact::mul(*g, b));                                         \
        add_to(frame, shared, of_y, thread(), exact::mul(*g, a));                                         \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_squares_adjoint_##suffix(const T* x, u32 n, const T* g, T* of_x, tape::Frame frame) {        \
        if (!tape::begin(frame) || thread() >= n) return;                                                 \
        const T a = x[thread()];                                                                          \
        add_to(frame, 0, of_x, thread(), exact::mul(exact::add(*g, *g), a));                              \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_sizes_##suffix(const T* x, u32 n, T divisor, T* out) {                                       \
        sum_up(Sizes<T>{x}, n, divisor, out);                                                             \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_sizes_adjoint_##suffix(const T* x, u32 n, const T* g, T* of_x, tape::Frame frame) {          \
        if (!tape::begin(frame) || thread() >= n) return;                                                 \
        add_to(frame, 0, of_x, thread(), exact::mul(*g, sign(x[thread()])));                              \
    }                                                                                                     \
    extern "C" __global__ void tape_root_##suffix(T* out) { *out = exact::sqrt(*out); }                   \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_norm_adjoint_##suffix(const T* x, u32 n, const T* norm, const T* g, T* of_x,                 \
                                   tape::Frame frame) {                                                   \
        if (!tape::begin(frame) || thread() >= n) return;                                                 \
        if (exact::equal(*norm, T(0))) return;                                                            \
        add_to(frame, 0, of_x, thread(), exact::mul(*g, exact::div(x[thread()], *norm)));                 \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_greatest_##suffix(const T* x, u32 n, T* out) {                                               \
        __shared__ T shared[sort::REDUCE_THREADS];                                                        \
        sort::reduce_chunk<sort::Max>(shared, Sizes<T>{x}, out, n);                                       \
    }                                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                     \
        tape_first_greatest_##suffix(const T* x, u32 n, const T* norm, u32* first) {                      \
        find_first(x, n, *norm, first);                                                                   \
    }                                                                                                     \
    extern "C" __global__ void                                                                            \
        tape_greatest_adjoint_##suffix(const T* x, u32 n, const u32* first, const T* g, T* of_x,          \
                                       tape::Frame frame) {                                               \
        if (!tape::begin(frame) || *first >= n) return;                                                   \
        add_to(frame, 0, of_x, *first, exact::mul(*g, sign(x[*first])));                                  \
    }

TAPE_REDUCE(float, f32)
TAPE_REDUCE(double, f64)
