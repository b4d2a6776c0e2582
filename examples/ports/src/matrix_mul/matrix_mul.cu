// C = A * B for matrices in row-major order, by tiles in shared memory. All extents are multiples of TILE.

#include <cuda_runtime.h>

#define TILE 16

__global__ void matrixMul(float *C, float *A, float *B, int wA, int wB)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];

    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;

    for (int tile = 0; tile < wA / TILE; ++tile) {
        As[threadIdx.y][threadIdx.x] = A[row * wA + tile * TILE + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(tile * TILE + threadIdx.y) * wB + col];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    C[row * wB + col] = sum;
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const int hA = 96, wA = 64, wB = 160;
    std::vector<float> a(hA * wA), b(wA * wB), c(hA * wB);
    for (int i = 0; i < hA * wA; ++i) a[i] = i % 7;
    for (int i = 0; i < wA * wB; ++i) b[i] = i % 5;

    float *dA, *dB, *dC;
    CHECK(cudaMalloc(&dA, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&dB, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&dC, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(dA, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dB, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    matrixMul<<<dim3(wB / TILE, hA / TILE), dim3(TILE, TILE)>>>(dC, dA, dB, wA, wB);
    CHECK(cudaGetLastError());

    CHECK(cudaMemcpy(c.data(), dC, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dA));
    CHECK(cudaFree(dB));
    CHECK(cudaFree(dC));
    print(c);
}
#endif
