// Kernels over blocks by hand, without checks. `fmaf` stands where the Rust contracts, so that the bits are equal.

__device__ float warp_sum(float x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(~0u, x, distance);
    }
    return x;
}

__global__ void reduction(const float *__restrict__ x, unsigned n, float *__restrict__ sums) {
    __shared__ float of_warps[8];
    float sum = 0.0f;
    for (unsigned chunk = blockIdx.x * 4096; chunk < n; chunk += gridDim.x * 4096) {
#pragma unroll
        for (unsigned k = 0; k < 16; k++) {
            unsigned i = chunk + k * 256 + threadIdx.x;
            if (i < n) {
                sum += x[i];
            }
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) {
            sum += of_warps[w];
        }
        sums[blockIdx.x] = sum;
    }
}

// The sum of the blocks before `at`, by all threads of a warp. `blocks` has, for each block, 1 and its sum, or 2 and the
// sum of all up to it, in the upper and the lower half.
__device__ unsigned look_back(volatile unsigned long long *blocks, unsigned at, unsigned total) {
    unsigned lane = threadIdx.x % 32, sums = 0;
    if (lane == 0) {
        blocks[at] = (at == 0 ? 2ull : 1ull) << 32 | total;
    }
    for (int window = int(at); window > 0; window -= 32) {
        int from = window - 1 - int(lane);
        unsigned long long found = 2ull << 32;
        do {
            if (from >= 0) {
                found = blocks[from];
            }
        } while (__any_sync(~0u, found >> 32 == 0));
        unsigned whole = __ballot_sync(~0u, found >> 32 == 2);
        // What is before the nearest whole sum is in it.
        unsigned part = whole == 0 || lane <= __ffs(whole) - 1 ? unsigned(found) : 0;
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) {
            part += __shfl_xor_sync(~0u, part, distance);
        }
        sums += part;
        if (whole != 0) {
            break;
        }
    }
    if (lane == 0) {
        blocks[at] = 2ull << 32 | (sums + total);
    }
    return sums;
}

// One pass by decoupled look-back (Merrill and Garland). `state[0]` counts the blocks that have begun; the others are those
// of `look_back`. All are zero before.
__global__ void __launch_bounds__(256) scan(const unsigned *__restrict__ x, unsigned n, unsigned *__restrict__ out,
                                            unsigned long long *state) {
    __shared__ unsigned of_warps[8], block, before_block;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        block = unsigned(atomicAdd(state, 1ull));
    }
    __syncthreads();
    unsigned at = block, first = at * 4096 + threadIdx.x * 16;
    unsigned own[16] = {};
    if (first + 16 <= n) {
#pragma unroll
        for (unsigned k = 0; k < 16; k += 4) {
            uint4 four = *reinterpret_cast<const uint4 *>(x + first + k);
            own[k] = four.x, own[k + 1] = four.y, own[k + 2] = four.z, own[k + 3] = four.w;
        }
    } else {
#pragma unroll
        for (unsigned k = 0; k < 16; k++) {
            own[k] = first + k < n ? x[first + k] : 0;
        }
    }
#pragma unroll
    for (int k = 1; k < 16; k++) {
        own[k] += own[k - 1];
    }
    unsigned sum = own[15];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        unsigned before = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) {
            sum += before;
        }
    }
    if (lane == 31) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    unsigned before = sum - own[15], total = 0;
#pragma unroll
    for (unsigned w = 0; w < 8; w++) {
        before += w < warp ? of_warps[w] : 0;
        total += of_warps[w];
    }
    if (warp == 0) {
        unsigned sums = look_back(state + 1, at, total);
        if (lane == 0) {
            before_block = sums;
        }
    }
    __syncthreads();
    before += before_block;
#pragma unroll
    for (int k = 0; k < 16; k++) {
        own[k] += before;
    }
    if (first + 16 <= n) {
#pragma unroll
        for (unsigned k = 0; k < 16; k += 4) {
            *reinterpret_cast<uint4 *>(out + first + k) = make_uint4(own[k], own[k + 1], own[k + 2], own[k + 3]);
        }
    } else {
#pragma unroll
        for (unsigned k = 0; k < 16; k++) {
            if (first + k < n) {
                out[first + k] = own[k];
            }
        }
    }
}

__global__ void histogram(const unsigned *__restrict__ data, unsigned n, unsigned *__restrict__ bins) {
    __shared__ unsigned counts[256];
    counts[threadIdx.x] = 0;
    __syncthreads();
    unsigned end = min(n, (blockIdx.x + 1) * 32768);
    for (unsigned i = blockIdx.x * 32768 + threadIdx.x; i < end; i += 256) {
        atomicAdd(&counts[data[i] & 255], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}

// 32 x 8 threads.
__global__ void transpose(unsigned rows, unsigned columns, const float *__restrict__ x, float *__restrict__ out) {
    __shared__ float tile[32][33];
    unsigned row = blockIdx.y * 32, column = blockIdx.x * 32;
#pragma unroll
    for (unsigned i = threadIdx.y; i < 32; i += 8) {
        if (row + i < rows && column + threadIdx.x < columns) {
            tile[i][threadIdx.x] = x[(row + i) * columns + column + threadIdx.x];
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = threadIdx.y; i < 32; i += 8) {
        if (column + i < columns && row + threadIdx.x < rows) {
            out[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
        }
    }
}

// 32 x 32 threads.
__global__ void tiled(unsigned m, unsigned n, unsigned k, const float *__restrict__ a, const float *__restrict__ b,
                      float *__restrict__ c) {
    __shared__ float left[32][32];
    __shared__ float right[32][32];
    unsigned row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (unsigned start = 0; start < k; start += 32) {
        left[threadIdx.y][threadIdx.x] =
            row < m && start + threadIdx.x < k ? a[row * k + start + threadIdx.x] : 0.0f;
        right[threadIdx.y][threadIdx.x] =
            start + threadIdx.y < k && column < n ? b[(start + threadIdx.y) * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned t = 0; t < 32; t++) {
            sum = fmaf(left[threadIdx.y][t], right[t][threadIdx.x], sum);
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}

// 32 x 8 threads.
__global__ void heat(float rate, unsigned rows, unsigned columns, const float *__restrict__ now,
                     float *__restrict__ next) {
    __shared__ float tile[10][34];
    int row = blockIdx.y * 8, column = blockIdx.x * 32;
    for (int at = threadIdx.y * 32 + threadIdx.x; at < 340; at += 256) {
        int y = row + at / 34 - 1, x = column + at % 34 - 1;
        bool inside = y >= 0 && y < int(rows) && x >= 0 && x < int(columns);
        tile[at / 34][at % 34] = inside ? now[y * int(columns) + x] : 0.0f;
    }
    __syncthreads();
    int i = threadIdx.y, j = threadIdx.x;
    if (row + i < rows && column + j < columns) {
        float here = tile[i + 1][j + 1];
        float around = tile[i][j + 1] + tile[i + 2][j + 1] + tile[i + 1][j] + tile[i + 1][j + 2];
        next[(row + i) * columns + column + j] = here + rate * (around - 4.0f * here);
    }
}

// 16 x 16 threads, each with 8 x 8 sums. All sides are multiples of a tile's.
__global__ void __launch_bounds__(256) gemm(unsigned m, unsigned n, unsigned k, const float *__restrict__ a,
                                            const float *__restrict__ b, float *__restrict__ c) {
    __shared__ float4 left[8][32], right[8][32];
    unsigned t = threadIdx.y * 16 + threadIdx.x;
    // A thread loads four neighbours of a row of each matrix; the left one is kept by columns.
    const float *from_a = a + (blockIdx.y * 128 + t / 2) * k + t % 2 * 4;
    const float *from_b = b + t / 32 * n + blockIdx.x * 128 + t % 32 * 4;
    float sum[8][8] = {};
    for (unsigned start = 0; start < k; start += 8) {
        float4 x = *(const float4 *)(from_a + start);
        right[t / 32][t % 32] = *(const float4 *)(from_b + start * n);
        float *column = (float *)left[t % 2 * 4] + t / 2;
        column[0] = x.x;
        column[128] = x.y;
        column[256] = x.z;
        column[384] = x.w;
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            float4 rows[2] = {left[i][threadIdx.y * 2], left[i][threadIdx.y * 2 + 1]};
            float4 columns[2] = {right[i][threadIdx.x * 2], right[i][threadIdx.x * 2 + 1]};
#pragma unroll
            for (unsigned y = 0; y < 8; y++) {
#pragma unroll
                for (unsigned x = 0; x < 8; x++) {
                    sum[y][x] = fmaf(((float *)rows)[y], ((float *)columns)[x], sum[y][x]);
                }
            }
        }
        __syncthreads();
    }
    float *to = c + (blockIdx.y * 128 + threadIdx.y * 8) * n + blockIdx.x * 128 + threadIdx.x * 8;
#pragma unroll
    for (unsigned y = 0; y < 8; y++) {
        ((float4 *)(to + y * n))[0] = make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
        ((float4 *)(to + y * n))[1] = make_float4(sum[y][4], sum[y][5], sum[y][6], sum[y][7]);
    }
}

// To 1 unit in the last place, for x of at most 0.
__device__ float exp_(float x) {
    if (x < -87.0f) {
        return 0.0f;
    }
    float k = rintf(x * 1.44269504f);
    float r = fmaf(k, -0.69314575f, x);
    r = fmaf(k, -1.4286068e-6f, r);
     float sum = 1.9875692e-4f;
    sum = fmaf(sum, r, 1.3981999e-3f);
    sum = fmaf(sum, r, 8.333452e-3f);
    sum = fmaf(sum, r, 4.1665796e-2f);
    sum = fmaf(sum, r, 1.6666665e-1f);
    sum = fmaf(sum, r, 0.5f);
    sum = fmaf(sum, r, 1.0f);
    sum = fmaf(sum, r, 1.0f);
   return sum * __int_as_float((int(k) + 127) << 23);
}

// A warp has a row.
__global__ void softmax(unsigned rows, unsigned columns, const float *__restrict__ x, float *__restrict__ out) {
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) {
        return;
    }
    const float *from = x + row * columns;
    float top = -__int_as_float(0x7f800000);
    for (unsigned k = lane; k < columns; k += 32) {
        top = fmaxf(top, from[k]);
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        top = fmaxf(top, __shfl_xor_sync(~0u, top, distance));
    }
    float sum = 0.0f;
    for (unsigned k = lane; k < columns; k += 32) {
        sum += exp_(from[k] - top);
    }
    float by = 1.0f / warp_sum(sum);
    for (unsigned k = lane; k < columns; k += 32) {
        out[row * columns + k] = exp_(from[k] - top) * by;
    }
}

// A warp has a row.
__global__ void layer_norm(unsigned rows, unsigned columns, const float *__restrict__ x,
                           const float *__restrict__ scale, const float *__restrict__ shift,
                           float *__restrict__ out) {
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) {
        return;
    }
    const float *from = x + row * columns;
    float mean = 0.0f, square = 0.0f, by = 1.0f / float(columns);
    for (unsigned k = lane; k < columns; k += 32) {
        mean += from[k];
    }
    mean = warp_sum(mean) * by;
    for (unsigned k = lane; k < columns; k += 32) {
        float d = from[k] - mean;
        square = fmaf(d, d, square);
    }
    by = 1.0f / sqrtf(fmaf(warp_sum(square), by, 1e-5f));
    for (unsigned k = lane; k < columns; k += 32) {
        out[row * columns + k] = fmaf((from[k] - mean) * by, scale[k], shift[k]);
    }
}

__global__ void sort_chunks(const unsigned *__restrict__ x, unsigned n, unsigned *__restrict__ out) {
    __shared__ unsigned tile[1024];
    unsigned first = blockIdx.x * 1024, t = threadIdx.x;
    tile[t] = first + t < n ? x[first + t] : ~0u;
    tile[t + 512] = first + t + 512 < n ? x[first + t + 512] : ~0u;
    __syncthreads();
    for (unsigned size = 2; size <= 1024; size *= 2) {
        for (unsigned distance = size / 2; distance > 0; distance /= 2) {
            unsigned i = 2 * t - (t & (distance - 1)), a = tile[i], b = tile[i + distance];
            if ((a > b) == ((i & size) == 0)) {
                tile[i] = b;
                tile[i + distance] = a;
            }
            __syncthreads();
        }
    }
    if (first + t < n) {
        out[first + t] = tile[t];
    }
    if (first + t + 512 < n) {
        out[first + t + 512] = tile[t + 512];
    }
}

// As `scan`, with the same state. A block collects what it keeps in shared memory, so that neighbours write neighbours.
__global__ void __launch_bounds__(256) keep_less(unsigned limit, const unsigned *__restrict__ x, unsigned n,
                                                 unsigned *__restrict__ kept, unsigned *__restrict__ count,
                                                 unsigned long long *state) {
    __shared__ unsigned collected[4096], of_warps[8], block, before_block;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        block = unsigned(atomicAdd(state, 1ull));
    }
    __syncthreads();
    unsigned at = block, first = at * 4096 + threadIdx.x * 16;
    unsigned own[16];
    if (first + 16 <= n) {
#pragma unroll
        for (unsigned k = 0; k < 16; k += 4) {
            uint4 four = *reinterpret_cast<const uint4 *>(x + first + k);
            own[k] = four.x, own[k + 1] = four.y, own[k + 2] = four.z, own[k + 3] = four.w;
        }
    } else {
#pragma unroll
        for (unsigned k = 0; k < 16; k++) {
            own[k] = first + k < n ? x[first + k] : ~0u;
        }
    }
    unsigned keeps = 0;
#pragma unroll
    for (unsigned k = 0; k < 16; k++) {
        keeps += own[k] < limit;
    }
    unsigned sum = keeps;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        unsigned before = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) {
            sum += before;
        }
    }
    if (lane == 31) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    unsigned to = sum - keeps, total = 0;
#pragma unroll
    for (unsigned w = 0; w < 8; w++) {
        to += w < warp ? of_warps[w] : 0;
        total += of_warps[w];
    }
    if (warp == 0) {
        unsigned before = look_back(state + 1, at, total);
        if (lane == 0) {
            before_block = before;
        }
    }
#pragma unroll
    for (unsigned k = 0; k < 16; k++) {
        if (own[k] < limit) {
            collected[to++] = own[k];
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < total; i += 256) {
        kept[before_block + i] = collected[i];
    }
    if (at + 1 == gridDim.x && threadIdx.x == 0) {
        count[0] = before_block + total;
    }
}
