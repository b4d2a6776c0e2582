// The kernels of the tape's rows: a step of particles on springs in air, a loss, saxpy, and their adjoints by hand.
#include <geom/math/vec.cuh>
#include <geom/tape.cuh>
using namespace geom::tape;
using vec3 = geom::vec3<float>;

constexpr float dt = 0.01f, spring = 10.0f, drag = 0.1f;

__device__ inline unsigned at_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void step(const float3* __restrict__ x, const float3* __restrict__ v,
                                float3* __restrict__ x1, float3* __restrict__ v1, unsigned n) {
    unsigned i = at_thread();
    if (i >= n)
        return;
    vec3 at(x[i]), velocity(v[i]);
    velocity += dt * (-spring * at - drag * length(velocity) * velocity);
    v1[i] = velocity;
    x1[i] = at + dt * velocity;
}

// The same, many times.
extern "C" __global__ void steps(const float3* __restrict__ x, const float3* __restrict__ v,
                                 float3* __restrict__ x1, float3* __restrict__ v1, unsigned count,
                                 unsigned n) {
    unsigned i = at_thread();
    if (i >= n)
        return;
    vec3 at(x[i]), velocity(v[i]);
    for (unsigned k = 0; k < count; k++) {
        velocity += dt * (-spring * at - drag * length(velocity) * velocity);
        at += dt * velocity;
    }
    v1[i] = velocity;
    x1[i] = at;
}

// It needs only velocities: the force of a spring is linear.
extern "C" __global__ void
step_adjoint(const float3*, const float3* __restrict__ v, float3*, float3*, unsigned n, float3* gx,
             float3* gv, float3* gx1, float3* gv1, Frame frame) {
    unsigned i = at_thread();
    if (!begin(frame) || i >= n)
        return;
    vec3 velocity(v[i]);
    vec3 g_at(grad_take(frame, 2, at(gx1, i))), g_velocity(grad_take(frame, 3, at(gv1, i)));
    g_velocity += dt * g_at;
    vec3 g_force = dt * g_velocity;
    float squared = dot(velocity, velocity), inverse = squared > 0.0f ? rsqrtf(squared) : 0.0f;
    g_velocity -= drag * inverse * (squared * g_force + dot(velocity, g_force) * velocity);
    grad_own<float3>(frame, 0, at(gx, i), g_at - spring * g_force);
    grad_own<float3>(frame, 1, at(gv, i), g_velocity);
}

// loss += the sum of x x: a sum for each thread, for each block, and then by atomics.
extern "C" __global__ void __launch_bounds__(256)
energy(const float3* x, float* loss, unsigned n) {
    __shared__ float warps[8];
    const float* numbers = (const float*)x;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned i = at_thread(); i < 3 * n; i += gridDim.x * blockDim.x)
        sum += numbers[i] * numbers[i];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0f;
    for (int step = 4; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0)
        atomicAdd(loss, sum);
}

extern "C" __global__ void
energy_adjoint(const float3* x, float*, unsigned n, float3* gx, const float* gloss, Frame frame) {
    if (!begin(frame))
        return;
    float g = 2.0f * grad_read(gloss);
    for (unsigned i = at_thread(); i < n; i += gridDim.x * blockDim.x)
        grad_own<float3>(frame, 0, at(gx, i), g * vec3(x[i]));
}

extern "C" __global__ void
saxpy(float a, const float* x, const float* y, float* out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}

extern "C" __global__ void
saxpy_adjoint(float a, const float* __restrict__ x, const float*, float*, size_t n, float* ga, float* gx,
              float* gy, float* gout, Frame frame) {
    if (!begin(frame))
        return;
    // Few blocks, each with one summand for the factor's gradient; four elements at a time, where all memory
    // is aligned for it. A gradient lies as its value does.
    float by_a = 0.0f;
    size_t first = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    size_t stride = size_t(gridDim.x) * blockDim.x;
    size_t fours = ((size_t(x) | size_t(gx) | size_t(gy) | size_t(gout)) & 15) == 0 ? n / 4 : 0;
#pragma unroll 2
    for (size_t i = first; i < fours; i += stride) {
        float4 g = grad_take(frame, 3, at((float4*)gout, i)), v = ((const float4*)x)[i];
        float4 scaled = {a * g.x, a * g.y, a * g.z, a * g.w};
        grad_own(frame, 1, at((float4*)gx, i), scaled);
        grad_own(frame, 2, at((float4*)gy, i), g);
        by_a += v.x * g.x + v.y * g.y + v.z * g.z + v.w * g.w;
    }
    for (size_t i = 4 * fours + first; i < n; i += stride) {
        float g = grad_take(frame, 3, at(gout, i));
        grad_own(frame, 1, at(gx, i), a * g);
        grad_own(frame, 2, at(gy, i), g);
        by_a += x[i] * g;
    }
    partial_add(frame, ga, by_a);
}

// saxpy again, with an adjoint by hand that has a thread for each element, as the kernel.
extern "C" __global__ void
saxpy_one(float a, const float* x, const float* y, float* out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}

extern "C" __global__ void
saxpy_one_adjoint(float a, const float* __restrict__ x, const float*, float*, size_t n, float* ga, float* gx,
                  float* gy, float* gout, Frame frame) {
    if (!begin(frame))
        return;
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    float g = i < n ? grad_take(frame, 3, at(gout, i)) : 0.0f;
    if (i < n) {
        grad_own(frame, 1, at(gx, i), a * g);
        grad_own(frame, 2, at(gy, i), g);
    }
    partial_add(frame, ga, i < n ? x[i] * g : 0.0f);
}

// saxpy of vectors, a thread for each: its adjoint is generated.
extern "C" __global__ void
saxpy_four(float a, const float4* x, const float4* y, float4* out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= n)
        return;
    float4 u = x[i], v = y[i];
    out[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
}
