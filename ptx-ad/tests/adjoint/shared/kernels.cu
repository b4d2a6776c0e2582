// Kernels whose threads exchange values by shared memory, shuffles and barriers. `f32.ptx` and `f64.ptx` are compiled
// from this text by the test `texts`.
#ifndef REAL
#define REAL float
#endif
typedef REAL real;
#define KERNEL extern "C" __global__ void

KERNEL tree(const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] * x[i] : real(0);
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0] * s[0];
}

KERNEL turned(const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : real(0);
    __syncthreads();
    if (i < n) out[i] = s[63 - t];
}

struct alignas(4 * sizeof(real)) four {
    real a, b, c, d;
};

KERNEL vectors(const real* x, real* out, int n) {
    __shared__ four s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    real v = i < n ? x[i] : real(1);
    s[t] = {v, v * v, real(1), v + 1};
    __syncthreads();
    four f = s[t ^ 5], g = s[(t + 9) % 64];
    if (i < n) out[i] = f.a * g.b + f.b * g.d + f.c * g.c;
}

// A loop with barriers whose number of iterations comes with the launch.
KERNEL rolled_tree(const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] * x[i] : real(0);
    __syncthreads();
#pragma unroll 1
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) s[t] = s[t] * s[t + half] + s[t];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// Two buffers.
KERNEL scan(const real* x, real* out, int n) {
    __shared__ real s[2][64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t, from = 0;
    s[0][t] = i < n ? x[i] * x[i] : real(0);
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < 64; step *= 2) {
        s[1 - from][t] = t >= step ? s[from][t] + s[from][t - step] : s[from][t];
        from = 1 - from;
        __syncthreads();
    }
    if (i < n) out[i] = s[from][t];
}

KERNEL product(const real* a, const real* b, real* c, int m, int n, int p) {
    __shared__ real as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    real sum = 0;
    for (int at = 0; at < p; at += 16) {
        as[ty][tx] = row < m && at + tx < p ? a[row * p + at + tx] : real(0);
        bs[ty][tx] = column < n && at + ty < p ? b[(at + ty) * n + column] : real(0);
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

// A row for each block, the greatest element first.
KERNEL softmax(const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x;
    x += blockIdx.x * n, out += blockIdx.x * n;
    real top = x[0];
    for (int i = t; i < n; i += blockDim.x) top = max(top, x[i]);
    s[t] = top;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) s[t] = max(s[t], s[t + half]);
        __syncthreads();
    }
    top = s[0];
    __syncthreads();
    real sum = 0;
    for (int i = t; i < n; i += blockDim.x) sum += exp(x[i] - top);
    s[t] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    for (int i = t; i < n; i += blockDim.x) out[i] = exp(x[i] - top) / s[0];
}

static __device__ real sum_of_warp(real v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    return v;
}

// A row for each warp. Warps without a row leave.
KERNEL layer_norm(const real* x, const real* w, real* out, int rows, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += row * n, out += row * n;
    real mean = 0, square = 0;
    for (int i = lane; i < n; i += 32) mean += x[i];
    mean = sum_of_warp(mean) / n;
    for (int i = lane; i < n; i += 32) square += (x[i] - mean) * (x[i] - mean);
    real scale = 1 / sqrt(sum_of_warp(square) / n + real(0.001));
    for (int i = lane; i < n; i += 32) out[i] = (x[i] - mean) * scale * w[i];
}

// Steps within tiles, whose halos stay.
KERNEL heat(const real* x, real* out, int n, int steps) {
    __shared__ real s[2][34];
    int t = threadIdx.x + 1, i = blockIdx.x * 32 + t - 1, from = 0;
    s[0][t] = i < n ? x[i] : real(0);
    if (t == 1) s[0][0] = s[1][0] = i > 0 ? x[i - 1] : real(0);
    if (t == 32) s[0][33] = s[1][33] = i + 1 < n ? x[i + 1] : real(0);
    __syncthreads();
    for (int k = 0; k < steps; k++) {
        real c = s[from][t];
        s[1 - from][t] = c + real(0.2) * c * (s[from][t - 1] - 2 * c + s[from][t + 1]);
        from ^= 1;
        __syncthreads();
    }
    if (i < n) out[i] = s[from][t];
}

// A window in shared memory; threads without an element leave.
KERNEL convolution(const real* x, const real* w, real* out, int n) {
    __shared__ real s[38], ws[7];
    int t = threadIdx.x, first = blockIdx.x * 32 - 3;
    if (t < 7) ws[t] = w[t];
    for (int k = t; k < 38; k += 32) s[k] = first + k >= 0 && first + k < n ? x[first + k] : real(0);
    __syncthreads();
    int i = blockIdx.x * 32 + t;
    if (i >= n) return;
    real sum = 0;
    for (int k = 0; k < 7; k++) sum += s[t + k] * ws[k];
    out[i] = sum;
}

// Warps by shuffles, their sums by the first warp.
KERNEL block_sum(const real* x, real* out, int n) {
    __shared__ real s[32];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    real v = i < n ? x[i] * x[i] : real(0);
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(~0u, v, step);
    if (t % 32 == 0) s[t / 32] = v;
    __syncthreads();
    if (t / 32 == 0) {
        v = t < blockDim.x / 32 ? s[t] : real(0);
        for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(~0u, v, step);
        if (t == 0) out[blockIdx.x] = v * v;
    }
}

#define SHUFFLES(name, code)                                        \
    KERNEL name(const real* x, real* out, int n) {                  \
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;       \
        real v = i < n ? x[i] : real(1);                            \
        code                                                        \
        if (i < n) out[i] = v;                                      \
    }

SHUFFLES(broadcast, v *= __shfl_sync(~0u, v, 0); v += v * __shfl_sync(~0u, v, 21);)
SHUFFLES(up, v += __shfl_up_sync(~0u, v, 3) * v; v += __shfl_up_sync(~0u, v, 5, 8) * v;)
SHUFFLES(down, v += __shfl_down_sync(~0u, v, 3, 8) * v; v *= __shfl_down_sync(~0u, v, t % 3);)
SHUFFLES(bfly, v *= __shfl_xor_sync(~0u, v, 5, 8); v *= __shfl_xor_sync(~0u, v, 8, 8); v *= __shfl_xor_sync(~0u, v, 20, 16);)
SHUFFLES(index, v *= __shfl_sync(~0u, v, t * 7 % 11); v *= __shfl_sync(~0u, v, t * 3, 8); v *= __shfl_sync(~0u, v, 2, 4);)
SHUFFLES(masks, unsigned m = t % 32 < 16 ? 0xffffu : 0xffff0000u; v *= __shfl_down_sync(m, v, 3, 16);
    v += __shfl_up_sync(m, v, 2, 16) * v; v *= __shfl_sync(m, v, 3, 16);)
SHUFFLES(first_warp, if (t / 32 == 0) v *= __shfl_xor_sync(~0u, v, 1);)
SHUFFLES(in_loop, _Pragma("unroll 1") for (int k = 1; k < 4; k++) v *= __shfl_xor_sync(~0u, v, k);)

// Some threads need more scratch memory than others.
KERNEL uneven(const real* x, real* out, int n) {
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    real v = i < n ? x[i] : real(1);
#pragma unroll 1
    for (int k = 0; k < t * 7 % 23; k++) v = v * v * real(0.5) + real(0.4);
    v *= __shfl_xor_sync(~0u, v, 1);
    if (i < n) out[i] = v;
}

// Threads leave between barriers.
KERNEL leaves(const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = 1;
    __syncthreads();
    if (i >= n) return;
    real v = x[i];
    s[t] = v * v;
    __syncthreads();
    v *= s[(t + 1) % 64];
    if (t % 3 == 0) { out[i] = v; return; }
    __syncthreads();
    s[t] = v;
    __syncthreads();
    out[i] = v * s[t ^ 1];
}

// The number of iterations differs from thread to thread.
KERNEL leaves_loop(real a, const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x;
    real v = 0;
    for (int i = blockIdx.x * 64 + t; i < n; i += 64 * gridDim.x) {
        s[t] = x[i] * x[i] * a;
        __syncthreads();
        v += s[t & 31] * s[t];
        __syncthreads();
    }
    out[blockIdx.x * 64 + t] = v;
}

// Atomic additions, integers, and a number that all threads store.
__shared__ real total;
KERNEL atomics(real a, const real* x, real* out, int n) {
    __shared__ int count;
    __shared__ real first;
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0) total = 0, count = 0;
    first = x[blockIdx.x * 64];
    __syncthreads();
    if (i < n) atomicAdd(&total, x[i] * x[i] * a), atomicAdd(&count, 1);
    __syncthreads();
    if (i < n) out[i] = total / count * x[i] * first;
}

// Threads of a warp, and votes of the block.
KERNEL warps(const real* x, real* out, int n) {
    __shared__ real s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : real(1);
    __syncwarp();
    real v = s[t ^ 1] * s[t];
    __syncwarp();
    s[t] = v;
    int some = __syncthreads_count(v > real(0.6));
    if (i < n) out[i] = s[t ^ 3] * some;
    if (__syncthreads_or(v > real(1.2)) && i < n) out[i] = v;
}

// Device memory that the threads of a block exchange.
KERNEL device(real* x, real* out, int n) {
    int i = threadIdx.x;
    real y = x[(i + 1) % n];
    __syncthreads();
    x[i] = y * y;
    __syncthreads();
    out[i] = y * x[(i + 3) % n];
}
