// A kernel that calls functions of another file: nvcc -rdc=true multi_file.cu functions.cu

#include <cuda_runtime.h>
#include "functions.h"

__global__ void evaluate(float *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = rounded(polynomial(data[i]));
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const int n = 1000, block = 256;
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) x[i] = i;

    float *data;
    CHECK(cudaMalloc(&data, n * sizeof(float)));
    CHECK(cudaMemcpy(data, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    evaluate<<<(n + block - 1) / block, block>>>(data, n);
    CHECK(cudaGetLastError());

    CHECK(cudaMemcpy(x.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(data));
    print(x);
}
#endif
