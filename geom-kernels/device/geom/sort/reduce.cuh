// Sums, minima and maxima, always in the same order: a float's sum has the same bits in every run and on
// every device.
#pragma once

#include <geom/math/exact.cuh>
#include <geom/sort/block.cuh>

namespace geom {
namespace sort {

// Operations on two numbers. `nothing` is the neutral element.
struct Add {
    __device__ static unsigned join(unsigned a, unsigned b) { return a + b; }
    __device__ static unsigned long long join(unsigned long long a, unsigned long long b) { return a + b; }
    __device__ static float join(float a, float b) { return exact::add(a, b); }
    __device__ static double join(double a, double b) { return exact::add(a, b); }

    __device__ static void nothing(unsigned& d) { d = 0; }
    __device__ static void nothing(unsigned long long& d) { d = 0; }
    // -0 + x is x for every x, 0 + -0 is 0.
    __device__ static void nothing(float& d) { d = __int_as_float(0x80000000); }
    __device__ static void nothing(double& d) { d = __longlong_as_double(0x8000000000000000ll); }
};

// The operations ignore a NaN if the other number is not NaN; NaN is the neutral element.
struct Min {
    template <class T>
    __device__ static T join(T a, T b) { return b < a ? b : a; }
    __device__ static float join(float a, float b) { return exact::min(a, b); }
    __device__ static double join(double a, double b) { return exact::min(a, b); }

    __device__ static void nothing(unsigned& d) { d = 0xffffffffu; }
    __device__ static void nothing(int& d) { d = 0x7fffffff; }
    __device__ static void nothing(unsigned long long& d) { d = 0xffffffffffffffffull; }
    __device__ static void nothing(long long& d) { d = 0x7fffffffffffffffll; }
    __device__ static void nothing(float& d) { d = __int_as_float(0x7fffffff); }
    __device__ static void nothing(double& d) { d = __longlong_as_double(0x7ff8000000000000ll); }
};

struct Max {
    template <class T>
    __device__ static T join(T a, T b) { return a < b ? b : a; }
    __device__ static float join(float a, float b) { return exact::max(a, b); }
    __device__ static double join(double a, double b) { return exact::max(a, b); }

    __device__ static void nothing(unsigned& d) { d = 0; }
    __device__ static void nothing(int& d) { d = -0x7fffffff - 1; }
    __device__ static void nothing(unsigned long long& d) { d = 0; }
    __device__ static void nothing(long long& d) { d = -0x7fffffffffffffffll - 1; }
    __device__ static void nothing(float& d) { d = __int_as_float(0x7fffffff); }
    __device__ static void nothing(double& d) { d = __longlong_as_double(0x7ff8000000000000ll); }
};

// The elements are divided into chunks of 4096, each reduced by one block. Thread t of 256 reduces the elements t, t
// + 256, t + 512, ... of the chunk, in that order; then threads t and t + 128 for t < 128, then t and t + 64, and so
// on to one. The results of the chunks are reduced in the same way, until one is left.
constexpr unsigned REDUCE_THREADS = 256;
constexpr unsigned REDUCE_CHUNK = 4096;

// Reduces chunk blockIdx.x of `in` to out[blockIdx.x]. By a grid of as many blocks as there are chunks of n, which is
// not 0 and below 2^31. `in[i]` returns element i.
template <class Op, class T, class In>
__device__ __forceinline__ void reduce_chunk(T (&shared)[REDUCE_THREADS], In in, T* out, unsigned n) {
    const unsigned thread = threadIdx.x;
    const unsigned start = blockIdx.x * REDUCE_CHUNK;
    const unsigned valid = n - start < REDUCE_CHUNK ? n - start : REDUCE_CHUNK;
    T joined;
    Op::nothing(joined);
    if (valid == REDUCE_CHUNK) {
#pragma unroll 8
        for (unsigned at = thread; at < REDUCE_CHUNK; at += REDUCE_THREADS) {
            joined = Op::join(joined, in[start + at]);
        }
    } else {
#pragma unroll 1
        for (unsigned at = thread; at < valid; at += REDUCE_THREADS) {
            joined = Op::join(joined, in[start + at]);
        }
    }
    shared[thread] = joined;
    __syncthreads();
    if (thread >= 32) return;
    // Each lane of the first warp does its part of three halving steps at once.
    T part[8];
#pragma unroll
    for (unsigned i = 0; i < 8; i++) part[i] = shared[thread + 32 * i];
#pragma unroll
    for (unsigned step = 4; step > 0; step /= 2) {
#pragma unroll
        for (unsigned i = 0; i < step; i++) part[i] = Op::join(part[i], part[i + step]);
    }
    joined = part[0];
#pragma unroll
    for (unsigned step = 16; step > 0; step /= 2) {
        joined = Op::join(joined, __shfl_down_sync(ALL_LANES, joined, step));
    }
    if (thread == 0) out[blockIdx.x] = joined;
}

} // namespace sort
} // namespace geom
