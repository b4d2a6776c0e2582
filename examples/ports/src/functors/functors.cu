// A kernel that takes what it does to each element as an argument.

#include <cuda_runtime.h>

struct Scale
{
    float factor;
    __device__ float operator()(float x) const { return factor * x; }
};

struct Clamp
{
    float low, high;
    __device__ float operator()(float x) const { return fminf(fmaxf(x, low), high); }
};

template <typename F>
__global__ void apply(F f, float *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = f(data[i]);
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const int n = 1000, block = 256, grid = (n + block - 1) / block;
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) x[i] = i;

    float *data;
    CHECK(cudaMalloc(&data, n * sizeof(float)));
    CHECK(cudaMemcpy(data, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    apply<<<grid, block>>>(Scale{0.5f}, data, n);
    CHECK(cudaGetLastError());
    apply<<<grid, block>>>(Clamp{10, 400}, data, n);
    CHECK(cudaGetLastError());

    CHECK(cudaMemcpy(x.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(data));
    print(x);
}
#endif
