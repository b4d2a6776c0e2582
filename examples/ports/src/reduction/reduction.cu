// The sum of an array: each block adds up a part of it in shared memory, and a second launch adds up the blocks.

#include <cuda_runtime.h>

template <typename T>
__global__ void reduce(T *in, T *out, unsigned int n)
{
    extern __shared__ __align__(8) unsigned char memory[];
    T *part = reinterpret_cast<T *>(memory);

    unsigned int tid = threadIdx.x;
    T sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + tid; i < n; i += gridDim.x * (size_t)blockDim.x) sum += in[i];
    part[tid] = sum;
    __syncthreads();

    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) part[tid] += part[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[blockIdx.x] = part[0];
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const unsigned int n = 1 << 20, blocks = 64, threads = 256;
    std::vector<float> x(n), sum(1);
    for (unsigned int i = 0; i < n; ++i) x[i] = i % 10;

    float *dX, *dParts, *dSum;
    CHECK(cudaMalloc(&dX, n * sizeof(float)));
    CHECK(cudaMalloc(&dParts, blocks * sizeof(float)));
    CHECK(cudaMalloc(&dSum, sizeof(float)));
    CHECK(cudaMemcpy(dX, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    reduce<<<blocks, threads, threads * sizeof(float)>>>(dX, dParts, n);
    CHECK(cudaGetLastError());
    reduce<<<1, threads, threads * sizeof(float)>>>(dParts, dSum, blocks);
    CHECK(cudaGetLastError());

    CHECK(cudaMemcpy(sum.data(), dSum, sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dX));
    CHECK(cudaFree(dParts));
    CHECK(cudaFree(dSum));
    print(sum);
}
#endif
