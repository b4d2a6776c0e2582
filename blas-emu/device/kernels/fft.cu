// Fourier transforms of any length, one module for each precision. How the kernels are launched: src/cufft.
//
// The input is gathered into a dense array of complex numbers, each dimension is transformed by factors of its length, and
// the result is scattered. All offsets are in elements.
#include <blas_emu/types.cuh>

using namespace blas;

// Where elements lie in the arrays of the program: a distance for each dimension and for batches.
struct Places {
    u64 at;
    i64 dims[3], distances[3], batch, total;
    // Input: complex, real, or half of a Hermitian array. Output: complex, real part, or half.
    int form, pad;
    u64 work;  // the dense array
};

enum Form { COMPLEX, REAL, HALF };

// One factor of one dimension.
struct Stage {
    u64 from, to, roots;
    i64 total, length, inner, done, factor;
    int inverse, pad;
};

template <typename R>
__device__ __forceinline__ void gather(const Places& p) {
    Complex<R>* to = (Complex<R>*)p.work;
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < p.total; at += gridDim.x * (i64)blockDim.x) {
        i64 rest = at, index[3];
        for (int d = 2; d >= 0; --d) {
            index[d] = rest % p.dims[d];
            rest /= p.dims[d];
        }
        // The other half are the conjugates at the mirrored place.
        bool mirrored = p.form == HALF && index[2] > p.dims[2] / 2;
        i64 place = rest * p.batch;
        for (int d = 0; d < 3; ++d)
            place += (mirrored && index[d] ? p.dims[d] - index[d] : index[d]) * p.distances[d];
        Complex<R> value;
        if (p.form == REAL) {
            value = {((const R*)p.at)[place], 0};
        } else {
            value = {((const R*)p.at)[2 * place], ((const R*)p.at)[2 * place + 1]};
            if (mirrored)
                value.y = -value.y;
        }
        to[at] = value;
    }
}

template <typename R>
__device__ __forceinline__ void scatter(const Places& p) {
    const Complex<R>* from = (const Complex<R>*)p.work;
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < p.total; at += gridDim.x * (i64)blockDim.x) {
        i64 rest = at, index[3];
        for (int d = 2; d >= 0; --d) {
            index[d] = rest % p.dims[d];
            rest /= p.dims[d];
        }
        if (p.form == HALF && index[2] > p.dims[2] / 2)
            continue;
        i64 place = rest * p.batch;
        for (int d = 0; d < 3; ++d)
            place += index[d] * p.distances[d];
        if (p.form == REAL) {
            ((R*)p.at)[place] = from[at].x;
        } else {
            ((R*)p.at)[2 * place] = from[at].x;
            ((R*)p.at)[2 * place + 1] = from[at].y;
        }
    }
}

// Joins `factor` transforms of length `done` each to one, for each of the sequences that still have to be joined. An
// array is the result of earlier factors in the order of sequences and then of frequencies.
template <typename R>
__device__ __forceinline__ void stage(const Stage& p) {
    const Complex<R>*from = (const Complex<R>*)p.from, *roots = (const Complex<R>*)p.roots;
    i64 joined = p.done * p.factor, sequences = p.length / joined;
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < p.total; at += gridDim.x * (i64)blockDim.x) {
        i64 lane = at % p.inner, place = at / p.inner % p.length, outer = at / p.inner / p.length;
        i64 sequence = place / joined, frequency = place % joined;
        const Complex<R>* row = from + outer * p.length * p.inner + lane;
        i64 low = frequency % p.done, turn = 0;
        Complex<R> sum = {0, 0};
        for (i64 q = 0; q < p.factor; ++q) {
            Complex<R> root = roots[turn * sequences];
            if (p.inverse)
                root.y = -root.y;
            sum = fused(root, row[((sequence + q * sequences) * p.done + low) * p.inner], sum);
            turn += frequency;
            turn -= turn >= joined ? joined : 0;
        }
        ((Complex<R>*)p.to)[at] = sum;
    }
}

#define FFT(R)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(256) fft_gather(const Places p) { gather<R>(p); }                     \
    extern "C" __global__ void __launch_bounds__(256) fft_scatter(const Places p) { scatter<R>(p); }                   \
    extern "C" __global__ void __launch_bounds__(256) fft_stage(const Stage p) { stage<R>(p); }

#if defined(MODULE_fft_f32)
FFT(float)
#elif defined(MODULE_fft_f64)
FFT(double)
#endif
