// Functions of elements, sums over elements, and triangular matrices.
#pragma once
#include <blas_emu/types.cuh>

namespace blas {

enum EachOp { COPY, SWAP, SCALE, AXPY, ROTATE, MODIFIED_ROTATE, SUM_OF_TWO, TIMES_DIAGONAL };

// A function of each element (i, j) of x, y and z.
struct Each {
    Operand x, y, z;
    Scalar alpha, beta;
    i64 m, n, batches;
    int op;
};

template <typename T>
__device__ __forceinline__ void each_element(const Each& p) {
    i64 all = p.m * p.n * p.batches;
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < all; at += gridDim.x * (i64)blockDim.x) {
        i64 b = at / (p.m * p.n), i = at % (p.m * p.n) % p.m, j = at % (p.m * p.n) / p.m;
        switch (p.op) {
        case COPY: p.y.put(b, i, j, p.x.get<T>(b, i, j)); break;
        case SWAP: {
            T x = p.x.get<T>(b, i, j);
            p.x.put(b, i, j, p.y.get<T>(b, i, j));
            p.y.put(b, i, j, x);
            break;
        }
        case SCALE: p.x.put(b, i, j, mul(p.alpha.get<T>(b), p.x.get<T>(b, i, j))); break;
        case AXPY:
            p.y.put(b, i, j, fused(p.alpha.get<T>(b), p.x.get<T>(b, i, j), p.y.get<T>(b, i, j)));
            break;
        case ROTATE: {
            T c = p.alpha.get<T>(), s = p.beta.get<T>(), x = p.x.get<T>(b, i, j), y = p.y.get<T>(b, i, j);
            p.x.put(b, i, j, fused(c, x, mul(s, y)));
            p.y.put(b, i, j, fused(c, y, mul(negative(conjugate(s)), x)));
            break;
        }
        case MODIFIED_ROTATE: {
            // The matrix is in the factors, or else z is the list of its kind and of h11, h21, h12 and h22.
            T one = number<T>(1), h11 = number<T>(p.alpha.x), h12 = number<T>(p.alpha.y), h21 = number<T>(p.beta.x),
              h22 = number<T>(p.beta.y);
            if (p.z.at) {
                T kind = p.z.get<T>(0, 0, 0);
                h11 = p.z.get<T>(0, 1, 0), h21 = p.z.get<T>(0, 2, 0), h12 = p.z.get<T>(0, 3, 0), h22 = p.z.get<T>(0, 4, 0);
                if (real(kind) == -2)
                    break;
                if (real(kind) == 0)
                    h11 = h22 = one;
                if (real(kind) == 1)
                    h12 = one, h21 = negative(one);
            }
            T x = p.x.get<T>(b, i, j), y = p.y.get<T>(b, i, j);
            p.x.put(b, i, j, fused(h11, x, mul(h12, y)));
            p.y.put(b, i, j, fused(h21, x, mul(h22, y)));
            break;
        }
        case SUM_OF_TWO: {
            T alpha = p.alpha.get<T>(b), beta = p.beta.get<T>(b);
            T value = is_zero(alpha) ? T{} : mul(alpha, p.x.get<T>(b, i, j));
            p.z.put(b, i, j, is_zero(beta) ? value : fused(beta, p.y.get<T>(b, i, j), value));
            break;
        }
        case TIMES_DIAGONAL: p.z.put(b, i, j, mul(p.x.get<T>(b, i, j), p.y.get<T>(b, i, j))); break;
        }
    }
}

enum FoldOp { DOT, NORM, ABSOLUTE_SUM, GREATEST, LEAST };

// A number for each vector of a batch, in one block.
struct Fold {
    Operand x, y;
    i64 n;
    u64 to;
    int to_type, op;
};

const int THREADS = 256;

// Adds the values of all threads of the block.
template <typename T>
__device__ T total(T value) {
    __shared__ T all[THREADS];
    all[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half)
            all[threadIdx.x] = add(all[threadIdx.x], all[threadIdx.x + half]);
        __syncthreads();
    }
    value = all[0];
    __syncthreads();
    return value;
}

// The extreme value of all threads, and the first index that has it. Index 0 is no value.
template <typename R>
__device__ i64 extreme(R& value, i64 index, bool least) {
    __shared__ R all[THREADS];
    __shared__ i64 indices[THREADS];
    all[threadIdx.x] = value;
    indices[threadIdx.x] = index;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) {
            R own = all[threadIdx.x], other = all[threadIdx.x + half];
            i64 a = indices[threadIdx.x], b = indices[threadIdx.x + half];
            if (b && (!a || (least ? other < own : other > own) || (other == own && b < a))) {
                all[threadIdx.x] = other;
                indices[threadIdx.x] = b;
            }
        }
        __syncthreads();
    }
    value = all[0];
    index = indices[0];
    __syncthreads();
    return index;
}

template <typename T>
__device__ __forceinline__ void fold_all(const Fold& p) {
    typedef typename Of<T>::Real R;
    if (p.op == DOT) {
        T sum = T{};
        for (i64 i = threadIdx.x; i < p.n; i += THREADS)
            sum = fused(p.x.get<T>(0, i, 0), p.y.get<T>(0, i, 0), sum);
        sum = total(sum);
        if (threadIdx.x == 0)
            store((void*)p.to, 0, p.to_type, sum);
        return;
    }
    R best = 0, sum = 0;
    i64 index = 0;
    for (i64 i = threadIdx.x; i < p.n; i += THREADS) {
        T value = p.x.get<T>(0, i, 0);
        R x = magnitude(real(value)), y = magnitude(imaginary(value));
        R size = p.op == NORM ? (x > y ? x : y) : add(x, y);
        sum = add(sum, add(x, y));
        if (!index || (p.op == LEAST ? size < best : size > best)) {
            best = size;
            index = i + 1;
        }
    }
    if (p.op == ABSOLUTE_SUM) {
        sum = total(sum);
        if (threadIdx.x == 0)
            store((void*)p.to, 0, p.to_type, sum);
        return;
    }
    index = extreme(best, index, p.op == LEAST);
    if (p.op != NORM) {
        if (threadIdx.x == 0) {
            if (p.to_type == R_32I)
                *(int*)p.to = (int)index;
            else
                *(i64*)p.to = index;
        }
        return;
    }
    // Squares of what is at most 1 do not overflow.
    bool scaled = best > 0 && mul(best, R(0)) == 0;
    R scale = scaled ? best : R(1);
    R squares = 0;
    for (i64 i = threadIdx.x; i < p.n; i += THREADS) {
        T value = p.x.get<T>(0, i, 0);
        R x = quotient(real(value), scale), y = quotient(imaginary(value), scale);
        squares = fused(y, y, fused(x, x, squares));
    }
    squares = total(squares);
    if (threadIdx.x == 0)
        store((void*)p.to, 0, p.to_type, mul(scale, root(squares)));
}

enum TriangleOp { SOLVE, MULTIPLY };

// op(A) X = alpha B, or X = alpha op(A) B, where A is m x m: one thread for each of the n columns. X may be B.
struct Triangle {
    Operand a, b, x;
    Scalar alpha;
    i64 m, n, batches;
    int op;
};

template <typename T>
__device__ __forceinline__ void triangular(const Triangle& p) {
    i64 all = p.n * p.batches;
    bool unit = p.a.shape == UNIT_TRIANGULAR;
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < all; at += gridDim.x * (i64)blockDim.x) {
        i64 batch = at / p.n, j = at % p.n;
        T alpha = p.alpha.get<T>(batch);
        bool none = is_zero(alpha);
        // A row of a product needs rows that are not yet written, a row of a solution those that are.
        bool down = (p.op == SOLVE) != (p.a.upper != 0);
        for (i64 step = 0; step < p.m; ++step) {
            i64 i = down ? step : p.m - 1 - step;
            if (none) {
                p.x.put(batch, i, j, T{});
                continue;
            }
            i64 begin = p.a.upper ? i + 1 : 0, end = p.a.upper ? p.m : i;
            T own = p.b.get<T>(batch, i, j);
            if (p.op == SOLVE) {
                T sum = mul(alpha, own);
                for (i64 k = begin; k < end; ++k)
                    sum = fused(negative(p.a.get<T>(batch, i, k)), p.x.get<T>(batch, k, j), sum);
                p.x.put(batch, i, j, unit ? sum : quotient(sum, p.a.get<T>(batch, i, i)));
            } else {
                T sum = unit ? own : mul(p.a.get<T>(batch, i, i), own);
                for (i64 k = begin; k < end; ++k)
                    sum = fused(p.a.get<T>(batch, i, k), p.b.get<T>(batch, k, j), sum);
                p.x.put(batch, i, j, mul(alpha, sum));
            }
        }
    }
}

}  // namespace blas
