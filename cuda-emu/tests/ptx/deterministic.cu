// Kernels whose results do not depend on the order of anything; and one whose do.
// The PTX: NVRTC 13.0.88, -arch=compute_80.
extern "C" {

__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

// One sum of each block, by shuffles and shared memory.
__global__ void reduce(const float *in, float *out)
{
    __shared__ float s[32];
    int i = threadIdx.x;
    float v = in[blockIdx.x * blockDim.x + i];
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (i % 32 == 0) s[i / 32] = v;
    __syncthreads();
    if (i < 32) {
        v = i < blockDim.x / 32 ? s[i] : 0;
        for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
        if (i == 0) out[blockIdx.x] = v;
    }
}

// The inclusive scan of each block, in floating point.
__global__ void scan_block(const float *in, float *out)
{
    __shared__ float s[2][256];
    int i = threadIdx.x, at = blockIdx.x * 256 + i, from = 0;
    s[0][i] = in[at];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        s[1 - from][i] = i >= d ? s[from][i] + s[from][i - d] : s[from][i];
        from = 1 - from;
        __syncthreads();
    }
    out[at] = s[from][i];
}

__global__ void transpose(const float *in, float *out, int w, int h)
{
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}

// Integer atomics whose results nobody reads before the end.
__global__ void atomics(const int *in, int *out, int n)
{
    __shared__ int s[16];
    if (threadIdx.x < 16) s[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int v = in[i];
        atomicAdd(&s[v & 15], 1);
        atomicAdd(&out[0], v);
        atomicMin(&out[1], v);
        atomicMax(&out[2], v);
        atomicXor(&out[3], v * 2654435761u);
        atomicOr(&out[4], 1 << (v & 31));
        atomicAnd(&out[5], ~(1 << (v >> 3 & 31)));
        atomicAdd((unsigned long long *)&out[6], (unsigned long long)v * v);
    }
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&out[8 + threadIdx.x], s[threadIdx.x]);
}

// Each lane takes its own number of rounds, and its own way in each.
__global__ void divergent(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = in[i] + 1, rounds = 0, mix = 0;
    while (v != 1 && rounds < 500) {
        if (v & 1) { v = 3 * v + 1; mix = mix * 31 + v; }
        else { v >>= 1; mix ^= v << (rounds & 15); }
        ++rounds;
        if (mix % 97 == 5) break;
    }
    out[i] = mix + rounds;
}

__global__ void multiply(const float *a, const float *b, float *c, int n)
{
    __shared__ float s[16][16], t[16][16];
    int x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        s[y][x] = a[row * n + k + x];
        t[y][x] = b[(k + y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += s[y][j] * t[j][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

__global__ void shuffles(const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    for (int d = 1; d < 32; d *= 2) {
        int up = __shfl_up_sync(~0u, v, d), any = __match_any_sync(~0u, v & 7);
        if ((threadIdx.x & 31) >= d) v += up;
        v ^= __popc(any) << d;
        if (v & 1) v += __shfl_sync(__activemask(), v, 0) & 0;
        __syncwarp();
    }
    out[i] = v + __ballot_sync(~0u, v & 2);
}

__global__ void special(const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    out[i] = __sinf(x) + __expf(-x * x) * rsqrtf(1 + x * x) + __logf(2 + x * x) / (3 + x);
}

// The order in which blocks come: not deterministic, so that the test sees that orders differ.
__global__ void order(int *ticket, int *out)
{
    out[blockIdx.x] = atomicAdd(ticket, 1);
}

}
