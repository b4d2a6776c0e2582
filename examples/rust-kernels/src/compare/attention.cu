// Attention by tiles of 64 queries and 64 keys, for heads of 64 elements.

// Two halves as floats.
__device__ float2 wide(unsigned halves) {
    float2 x;
    asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %2;\n\tcvt.f32.f16 %0, low;\n\tcvt.f32.f16 %1, high;\n\t}"
        : "=f"(x.x), "=f"(x.y)
        : "r"(halves));
    return x;
}

// A tile of rows of 16 x 4 halves; zeros after the last row.
template <class F>
__device__ void load(const uint2 *__restrict__ from, unsigned row, unsigned n, unsigned heads, F to) {
#pragma unroll
    for (unsigned r = threadIdx.y; r < 64; r += 16) {
        uint2 four = row + r < n ? from[((row + r) * heads + blockIdx.x) * 16 + threadIdx.x] : make_uint2(0, 0);
        to(r, four);
    }
}

// 16 x 16 threads: a row of threads has the queries y, y + 16, and so on, its thread x the keys x, x + 16, and so on. Of a
// query's sums a thread has four neighbours.
__global__ void __launch_bounds__(256)
    attention(unsigned n, unsigned heads, bool causal, const unsigned short *__restrict__ q,
              const unsigned short *__restrict__ k, const unsigned short *__restrict__ v, float *__restrict__ out) {
    __shared__ unsigned queries[64][33], keys[64][33];
    __shared__ uint2 values[64][16];
    __shared__ __align__(16) float weights[64][68];
    const unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 64;
    const float scale = 0.125f * 1.44269504f;

    load(reinterpret_cast<const uint2 *>(q), row, n, heads, [&](unsigned r, uint2 four) {
        queries[r][2 * x] = four.x;
        queries[r][2 * x + 1] = four.y;
    });
    float sum[4][4] = {}, total[4] = {}, top[4] = {-1e30f, -1e30f, -1e30f, -1e30f};
    const unsigned end = causal ? min(row + 64, n) : n;
    for (unsigned start = 0; start < end; start += 64) {
        load(reinterpret_cast<const uint2 *>(k), start, n, heads, [&](unsigned r, uint2 four) {
            keys[r][2 * x] = four.x;
            keys[r][2 * x + 1] = four.y;
        });
        load(reinterpret_cast<const uint2 *>(v), start, n, heads, [&](unsigned r, uint2 four) { values[r][x] = four; });
        __syncthreads();

        float score[4][4] = {};
#pragma unroll 8
        for (unsigned t = 0; t < 32; t++) {
            float2 of_query[4], of_key[4];
#pragma unroll
            for (unsigned a = 0; a < 4; a++) {
                of_query[a] = wide(queries[y + 16 * a][t]);
                of_key[a] = wide(keys[x + 16 * a][t]);
            }
#pragma unroll
            for (unsigned a = 0; a < 4; a++) {
#pragma unroll
                for (unsigned b = 0; b < 4; b++) {
                    score[a][b] += of_query[a].x * of_key[b].x;
                    score[a][b] += of_query[a].y * of_key[b].y;
                }
            }
        }

#pragma unroll
        for (unsigned a = 0; a < 4; a++) {
            float next = top[a];
#pragma unroll
            for (unsigned b = 0; b < 4; b++) {
                unsigned query = row + y + 16 * a, key = start + x + 16 * b;
                bool seen = key < n && (key <= query || !causal);
                score[a][b] = seen ? score[a][b] * scale : __int_as_float(0xff800000);
                next = fmaxf(next, score[a][b]);
            }
#pragma unroll
            for (int distance = 1; distance < 16; distance *= 2) {
                next = fmaxf(next, __shfl_xor_sync(~0u, next, distance));
            }
            float shrink = exp2f(top[a] - next);
            top[a] = next;
            total[a] *= shrink;
#pragma unroll
            for (unsigned b = 0; b < 4; b++) {
                score[a][b] = exp2f(score[a][b] - next);
                total[a] += score[a][b];
                sum[a][b] *= shrink;
            }
        }
#pragma unroll
        for (unsigned b = 0; b < 4; b++) {
            float4 four = make_float4(score[0][b], score[1][b], score[2][b], score[3][b]);
            *reinterpret_cast<float4 *>(&weights[x + 16 * b][4 * y]) = four;
        }
        __syncthreads();

#pragma unroll 8
        for (unsigned key = 0; key < 64; key++) {
            float4 weight = *reinterpret_cast<const float4 *>(&weights[key][4 * y]);
            uint2 four = values[key][x];
            float2 low = wide(four.x), high = wide(four.y);
            const float of_queries[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
            for (unsigned a = 0; a < 4; a++) {
                sum[a][0] += of_queries[a] * low.x;
                sum[a][1] += of_queries[a] * low.y;
                sum[a][2] += of_queries[a] * high.x;
                sum[a][3] += of_queries[a] * high.y;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned a = 0; a < 4; a++) {
#pragma unroll
        for (int distance = 1; distance < 16; distance *= 2) {
            total[a] += __shfl_xor_sync(~0u, total[a], distance);
        }
        unsigned query = row + y + 16 * a;
        if (query < n) {
            float by = 1.0f / total[a];
            reinterpret_cast<float4 *>(out)[(query * heads + blockIdx.x) * 16 + x] =
                make_float4(sum[a][0] * by, sum[a][1] * by, sum[a][2] * by, sum[a][3] * by);
        }
    }
}
