// Random numbers, in the order in which cuRAND's host functions write them. How the kernels are launched: src/curand.
//
// Both generators have sequences that take turns: a group of results of each, then of the next one.
#include <blas_emu/types.cuh>

using namespace blas;

// inexact: philox cuRAND's normal distribution has approximate sines
// inexact: xorwow cuRAND's normal distribution has approximate sines

enum Kind { BITS, UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE };

struct Random {
    u64 out, first, count, seed, states;
    double mean, deviation;
    int kind;
};

const float INVERSE_32 = 2.3283064e-10f, INVERSE_32_2PI = 2.3283064e-10f * 6.2831855f;
const double INVERSE_53 = 1.1102230246251565e-16;

__device__ __forceinline__ float uniform(unsigned x) { return __fmaf_rn((float)x, INVERSE_32, INVERSE_32 / 2.0f); }
__device__ __forceinline__ u64 of_two(unsigned x, unsigned y) { return (u64)x ^ (u64)y << 21; }
__device__ __forceinline__ double uniform(unsigned x, unsigned y) {
    return __fma_rn((double)of_two(x, y), INVERSE_53, INVERSE_53 / 2.0);
}

// The method of Box and Muller: two normal numbers of two uniform ones.
__device__ __forceinline__ void normal(unsigned x, unsigned y, float& a, float& b) {
    float v = __fmaf_rn((float)y, INVERSE_32_2PI, INVERSE_32_2PI / 2.0f);
    float s = sqrtf(-2.0f * logf(uniform(x)));
    __sincosf(v, &a, &b);
    a = mul(a, s);
    b = mul(b, s);
}
__device__ __forceinline__ void normal(const unsigned* x, double& a, double& b) {
    double v = __fma_rn((double)of_two(x[2], x[3]), INVERSE_53 * 2.0, INVERSE_53);
    double s = sqrt(-2.0 * log(uniform(x[0], x[1])));
    sincospi(v, &a, &b);
    a = mul(a, s);
    b = mul(b, s);
}

__device__ __forceinline__ bool is_double(int kind) {
    return kind == UNIFORM_DOUBLE || kind == NORMAL_DOUBLE || kind == LOG_NORMAL_DOUBLE;
}

// Writes the results of two words, or for doubles of four, at two places; `only` is one of both, or 2 for both.
__device__ void pair(const Random& p, const unsigned* x, u64 at, u64 end) {
    if (is_double(p.kind)) {
        double a = 0, b = 0;
        if (p.kind == UNIFORM_DOUBLE) {
            a = uniform(x[0], x[1]);
            b = uniform(x[2], x[3]);
        } else {
            normal(x, a, b);
            a = __fma_rn(a, p.deviation, p.mean);
            b = __fma_rn(b, p.deviation, p.mean);
            if (p.kind == LOG_NORMAL_DOUBLE)
                a = exp(a), b = exp(b);
        }
        double* out = (double*)p.out;
        if (at >= p.first && at < end)
            out[at - p.first] = a;
        if (at + 1 >= p.first && at + 1 < end)
            out[at + 1 - p.first] = b;
        return;
    }
    unsigned a = x[0], b = x[1];
    if (p.kind == UNIFORM) {
        a = __float_as_uint(uniform(x[0]));
        b = __float_as_uint(uniform(x[1]));
    } else if (p.kind != BITS) {
        float c, d;
        normal(x[0], x[1], c, d);
        c = __fmaf_rn(c, (float)p.deviation, (float)p.mean);
        d = __fmaf_rn(d, (float)p.deviation, (float)p.mean);
        if (p.kind == LOG_NORMAL)
            c = expf(c), d = expf(d);
        a = __float_as_uint(c);
        b = __float_as_uint(d);
    }
    unsigned* out = (unsigned*)p.out;
    if (at >= p.first && at < end)
        out[at - p.first] = a;
    if (at + 1 >= p.first && at + 1 < end)
        out[at + 1 - p.first] = b;
}

__device__ void philox_block(u64 seed, u64 low, u64 high, unsigned* x) {
    unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
    unsigned a = (unsigned)low, b = (unsigned)(low >> 32), c = (unsigned)high, d = (unsigned)(high >> 32);
#pragma unroll 1
    for (int round = 0; round < 10; ++round) {
        u64 left = (u64)0xd2511f53u * a, right = (u64)0xcd9e8d57u * c;
        a = (unsigned)(right >> 32) ^ b ^ k0;
        b = (unsigned)right;
        c = (unsigned)(left >> 32) ^ d ^ k1;
        d = (unsigned)left;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    x[0] = a, x[1] = b, x[2] = c, x[3] = d;
}

// 65536 sequences, of which each gives four results in turn.
extern "C" __global__ void __launch_bounds__(256) philox(const Random p) {
    u64 end = p.first + p.count, groups = (end + 3) / 4;
    for (u64 g = p.first / 4 + blockIdx.x * (u64)blockDim.x + threadIdx.x; g < groups; g += gridDim.x * (u64)blockDim.x) {
        u64 sequence = g % 65536, turn = g / 65536;
        unsigned x[4];
        if (is_double(p.kind)) {
            for (int half = 0; half < 2; ++half) {
                philox_block(p.seed, 2 * turn + half, sequence, x);
                pair(p, x, 4 * g + 2 * half, end);
            }
        } else {
            philox_block(p.seed, turn, sequence, x);
            pair(p, x, 4 * g, end);
            pair(p, x + 2, 4 * g + 2, end);
        }
    }
}

// 4096 sequences, of which each gives one result in turn, or two of a normal distribution. Each thread has one, whose
// state stays in memory.
extern "C" __global__ void __launch_bounds__(256) xorwow(const Random p) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* state = (unsigned*)p.states + 6 * thread;
    unsigned v0 = state[0], v1 = state[1], v2 = state[2], v3 = state[3], v4 = state[4], d = state[5];
    bool pairs = p.kind >= NORMAL;
    u64 each = pairs ? 2 : 1, end = p.first + p.count;
    u64 begin = p.first / each;
    unsigned words = (unsigned)each * (is_double(p.kind) ? 2 : 1);
    // The first group at or after the beginning whose turn is this thread's.
    for (u64 g = begin + (thread + 4096 - begin % 4096) % 4096; g * each < end; g += 4096) {
        unsigned x[4] = {0, 0, 0, 0};
        for (unsigned word = 0; word < words; ++word) {
            unsigned t = v0 ^ v0 >> 2;
            v0 = v1, v1 = v2, v2 = v3, v3 = v4;
            v4 = v4 ^ v4 << 4 ^ (t ^ t << 1);
            d += 362437;
            x[word] = v4 + d;
        }
        if (pairs) {
            pair(p, x, 2 * g, end);
        } else {
            // As the first of a pair whose second has no place.
            pair(p, x, g, g + 1);
        }
    }
    state[0] = v0, state[1] = v1, state[2] = v2, state[3] = v3, state[4] = v4, state[5] = d;
}
