// Kernels with derivatives. tests/exec/tangents/kernels.rs has each again in f64.
//
// To make tangents.ptx: NVRTC 13.0, --gpu-architecture=compute_80 --generate-line-info
extern "C" {

struct World { float gravity; float4 wind; double drag; };

__device__ __noinline__ float blend(float a, float b, float t)
{
    return a + (b - a) * t * t;
}

__device__ __noinline__ float4 turned(float4 v, float angle)
{
    float s = __sinf(angle), c = __cosf(angle);
    return make_float4(c * v.x - s * v.y, s * v.x + c * v.y, v.z * angle, v.w);
}

__global__ void branches(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i], r;
    if (a > b) {
        if (a * b > 0.25f) { out[i] = a / (1.0f + b * b); return; }
        r = sqrtf(a * a + 0.5f);
    } else if (b > 0.5f) {
        r = fmaxf(a, 0.125f) * b - fminf(b, 2.0f * a);
    } else {
        r = fabsf(a) * rsqrtf(b * b + 1.0f);
    }
    out[i] = r * r + a;
}

__global__ void loops(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], w = y[i], sum = 0.0f;
    for (int k = 0; k < i % 7; ++k) {
        float old = v;
        v = v * v * 0.5f - w;
        w = 0.25f * old * w + 0.1f;
        if (v > 1.5f) break;
        for (int j = k; j < i % 3; ++j) { sum += v * w; v *= 0.75f; }
    }
    out[i] = sum + v / (2.0f + w * w);
}

__global__ void arrays(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a[8];
    for (int k = 0; k < 8; ++k) a[k] = x[i] * (k + 1) + y[i] * y[i];
    for (int k = 0; k < 5; ++k) a[(i + k) & 7] *= a[(i * 3 + k) & 7];
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) sum += a[(i + k * k) & 7] * (k - 3);
    out[i] = sum;
}

__global__ void blocks(const float *x, const float *y, float *out, int n)
{
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = i < n ? x[i] * y[i] : 0.0f;
    __syncthreads();
    for (int step = 32; step > 0; step >>= 1) {
        if (i < step) s[i] = s[i] + s[i + step] * s[i + step];
        __syncthreads();
    }
    float v = i < n ? x[i] : 0.0f;
    for (int lanes = 16; lanes > 0; lanes >>= 1) v += __shfl_xor_sync(~0u, v, lanes);
    if (i < n) out[i] = s[0] * v;
}

__global__ void sums(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&out[i % 3], x[i] * y[i]);
}

__global__ void calls(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = turned(make_float4(x[i], y[i], blend(x[i], y[i], 0.5f), 2.0f), x[i]);
    out[i] = blend(v.x * v.y, v.z, v.w * y[i]);
}

__global__ void vectors(const float4 *x, float4 *out, World world, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = x[i];
    p.x += world.wind.x * p.w;
    p.y -= world.gravity * p.w * p.w;
    p.z *= p.z * 0.5f + (float)world.drag;
    p.w = p.x * (float)(world.drag * (double)p.y);
    out[i] = p;
}

// Markers.
__device__ float rule(float y, float x, float slope)
{
    float d;
    asm("ad.rule.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(y), "f"(x), "f"(slope));
    return d;
}

__device__ float stop(float x)
{
    float d;
    asm("ad.stop.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}

__device__ double lost(double x)
{
    double d;
    asm("ad.lost.f64 %0, %1;" : "=d"(d) : "d"(x));
    return d;
}

__global__ void markers(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    out[i] = rule(stop(v * v * v), v, 3.0f * v * v) + rule(7.0f, y[i], 2.0f) * stop(v);
    if (i == 5) out[i] = (float)lost((double)v);
}

// Functions of the mathematical library: right, or lost.
__global__ void library(const float *x, float *out, int which, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], r = 0.0f;
    switch (which) {
    case 0: r = sinf(v); break;
    case 1: r = cosf(v); break;
    case 2: r = expf(v); break;
    case 3: r = logf(v); break;
    case 4: r = powf(v, 1.5f); break;
    case 5: r = tanhf(v); break;
    case 6: r = atanf(v); break;
    case 7: r = cbrtf(v); break;
    case 8: r = erff(v); break;
    case 9: r = exp2f(v); break;
    case 10: r = (float)exp((double)v); break;
    case 11: r = (float)log((double)v); break;
    case 12: r = (float)sin((double)v); break;
    case 13: r = sqrtf(v) / (1.0f + v); break;
    case 14: r = hypotf(v, 2.0f); break;
    case 15: r = fmodf(v, 0.75f); break;
    case 16: r = floorf(v) * v; break;
    case 17: r = copysignf(v, -1.0f) * v; break;
    case 18: r = isfinite(v) ? v * v : 0.0f; break;
    default: r = v;
    }
    out[i] = r;
}

}
