// D = act(alpha op(A) op(B) + beta C + bias), in tiles.
#pragma once
#include <blas_emu/types.cuh>

namespace blas {

// What is written of D: all of it, the lower or the upper triangle.
enum Fill { ALL, LOWER, UPPER };

// The functions of cublasLt's epilogues.
enum Act { NO_ACT, RELU, GELU, D_RELU, D_GELU };

// What follows the product. Addresses of 0 are none.
struct Epilogue {
    u64 bias, aux, scale_a, scale_b, scale_c, scale_d, scale_aux, amax_d;
    i64 bias_batch, aux_ld, aux_batch;
    int bias_type, bias_by_col, aux_type, act;
};

struct Product {
    Operand a, b, c, d;
    Scalar alpha, beta;
    i64 m, n, k, batches;
    int fill, real_diagonal;
    Epilogue after;
};

const int TILE = 16;

__device__ __forceinline__ float factor(u64 at) { return at ? *(const float*)at : 1.0f; }

// The only type with epilogues is float.
template <typename T>
__device__ __forceinline__ T finished(const Product&, i64, i64, i64, T value) { return value; }

__device__ __forceinline__ float gelu(float x) {
    float inner = mul(0.7978845608f, fused(mul(0.044715f, mul(x, x)), x, x));
    return mul(mul(0.5f, x), add(1.0f, tanhf(inner)));
}

__device__ __forceinline__ float d_gelu(float x) {
    float square = mul(x, x);
    float t = tanhf(mul(0.7978845608f, fused(mul(0.044715f, square), x, x)));
    float inner = mul(0.7978845608f, fused(0.134145f, square, 1.0f));
    return fused(mul(mul(0.5f, x), fused(-t, t, 1.0f)), inner, mul(0.5f, add(1.0f, t)));
}

template <>
__device__ __forceinline__ float finished(const Product& p, i64 batch, i64 i, i64 j, float value) {
    const Epilogue& after = p.after;
    if (after.bias)
        value = add(value, load<float>((const void*)after.bias,
            batch * after.bias_batch + (after.bias_by_col ? j : i), after.bias_type));
    i64 place = batch * after.aux_batch + j * after.aux_ld + i;
    if (after.aux && after.act < D_RELU) {
        if (after.act == RELU) {
            // A bit for each element; cuBLASLt 13.1 sets that of 0 (measured on an H200).
            unsigned bit = value >= 0 ? 1u << (place & 31) : 0;
            unsigned* word = (unsigned*)after.aux + (place >> 5);
            atomicAnd(word, ~(1u << (place & 31)));
            atomicOr(word, bit);
        } else {
            store((void*)after.aux, place, after.aux_type, mul(value, factor(after.scale_aux)));
        }
    }
    switch (after.act) {
    case RELU: value = value > 0 || value != value ? value : 0.0f; break;
    case GELU: value = gelu(value); break;
    case D_RELU: value = ((const unsigned*)after.aux)[place >> 5] >> (place & 31) & 1 ? value : 0.0f; break;
    case D_GELU: value = mul(value, d_gelu(load<float>((const void*)after.aux, place, after.aux_type))); break;
    }
    if (after.amax_d)
        atomicMax((int*)after.amax_d, __float_as_int(magnitude(value)));
    return mul(value, factor(after.scale_d));
}

template <typename T>
__device__ __forceinline__ void product(const Product& p) {
    __shared__ T left[TILE][TILE + 1], right[TILE][TILE + 1];
    int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    i64 rows = (p.m + TILE - 1) / TILE, cols = (p.n + TILE - 1) / TILE;
    for (i64 tile = blockIdx.x; tile < rows * cols * p.batches; tile += gridDim.x) {
        i64 batch = tile / (rows * cols), rest = tile % (rows * cols);
        i64 top = rest % rows * TILE, side = rest / rows * TILE, i = top + x, j = side + y;
        T alpha = p.alpha.get<T>(batch, i < p.m ? i : 0), beta = p.beta.get<T>(batch, i < p.m ? i : 0);
        T sum = T{};
        // As in BLAS, factors of 0 mean that matrices are not read. A factor for each row is read in each row.
        bool read = p.alpha.row || !is_zero(alpha);
        for (i64 k = 0; read && k < p.k; k += TILE) {
            i64 ka = k + y, kb = k + x;
            left[y][x] = i < p.m && ka < p.k ? p.a.shaped<T>(batch, i, ka) : T{};
            right[y][x] = j < p.n && kb < p.k ? p.b.shaped<T>(batch, kb, j) : T{};
            __syncthreads();
#pragma unroll
            for (int step = 0; step < TILE; ++step)
                sum = fused(left[step][x], right[y][step], sum);
            __syncthreads();
        }
        if (i >= p.m || j >= p.n || (p.fill == LOWER && i < j) || (p.fill == UPPER && i > j))
            continue;
        if (p.after.scale_a || p.after.scale_b)
            sum = mul(sum, number<T>(mul(factor(p.after.scale_a), factor(p.after.scale_b))));
        T value = mul(alpha, sum);
        if (!is_zero(beta)) {
            T old = p.c.get<T>(batch, i, j);
            if (p.real_diagonal && i == j)
                old = number<T>(real(old));
            if (p.after.scale_c)
                old = mul(old, number<T>(factor(p.after.scale_c)));
            value = fused(beta, old, value);
        }
        if (p.real_diagonal && i == j)
            value = number<T>(real(value));
        p.d.put(batch, i, j, finished(p, batch, i, j, value));
    }
}

}  // namespace blas
