// Bodies that attract each other: all pairs, by tiles of positions in shared memory.

#include <cuda_runtime.h>

#define BLOCK 128

__constant__ float softeningSquared;

__device__ float3 attraction(float3 acceleration, float4 a, float4 b)
{
    float3 r = make_float3(b.x - a.x, b.y - a.y, b.z - a.z);
    float distance = r.x * r.x + r.y * r.y + r.z * r.z + softeningSquared;
    float s = b.w * rsqrtf(distance * distance * distance);
    acceleration.x += r.x * s;
    acceleration.y += r.y * s;
    acceleration.z += r.z * s;
    return acceleration;
}

__global__ void integrate(float4 *newPos, float4 *oldPos, float4 *vel, int n, float dt)
{
    __shared__ float4 tile[BLOCK];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 pos = i < n ? oldPos[i] : make_float4(0, 0, 0, 0);
    float3 acceleration = make_float3(0, 0, 0);

    for (int first = 0; first < n; first += BLOCK) {
        int j = first + threadIdx.x;
        tile[threadIdx.x] = j < n ? oldPos[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < BLOCK; ++k) acceleration = attraction(acceleration, pos, tile[k]);
        __syncthreads();
    }
    if (i >= n) return;

    float4 v = vel[i];
    v.x += acceleration.x * dt;
    v.y += acceleration.y * dt;
    v.z += acceleration.z * dt;
    vel[i] = v;
    newPos[i] = make_float4(pos.x + v.x * dt, pos.y + v.y * dt, pos.z + v.z * dt, pos.w);
}

#ifndef __CUDACC_RTC__
#include <utility>
#include "../check.h"

int main()
{
    const int n = 300, steps = 5;
    const float softening = 0.01f, dt = 0.001f;
    std::vector<float4> bodies(n);
    for (int i = 0; i < n; ++i) bodies[i] = make_float4(i % 10, i / 10 % 10, i / 100, 1 + i % 3);

    float4 *pos[2], *vel;
    CHECK(cudaMalloc(&pos[0], n * sizeof(float4)));
    CHECK(cudaMalloc(&pos[1], n * sizeof(float4)));
    CHECK(cudaMalloc(&vel, n * sizeof(float4)));
    CHECK(cudaMemcpy(pos[0], bodies.data(), n * sizeof(float4), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(vel, 0, n * sizeof(float4)));
    CHECK(cudaMemcpyToSymbol(softeningSquared, &softening, sizeof(float)));

    for (int step = 0; step < steps; ++step) {
        integrate<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(pos[1], pos[0], vel, n, dt);
        CHECK(cudaGetLastError());
        std::swap(pos[0], pos[1]);
    }

    CHECK(cudaMemcpy(bodies.data(), pos[0], n * sizeof(float4), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(pos[0]));
    CHECK(cudaFree(pos[1]));
    CHECK(cudaFree(vel));
    std::vector<float> x;
    for (const float4 &body : bodies) x.push_back(body.x);
    print(x);
}
#endif
