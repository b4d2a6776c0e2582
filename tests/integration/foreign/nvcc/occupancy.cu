// Sizes of launches by the occupancy functions, and attributes of kernels.
#include "common.h"
#include <vector>

__global__ void squares(int *values, int n, int mistake) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = i * i + mistake;
}

__global__ void dynamic(int *out) {
    extern __shared__ int part[];
    part[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *out = part[blockDim.x - 1];
}

__global__ void __launch_bounds__(96) bounded(int *out) {
    __shared__ int part[96];
    part[threadIdx.x] = threadIdx.x;
    __syncthreads();
    *out = part[95];
}

int main() {
    int grid = 0, block = 0, active = 0, n = 2000;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, squares, 0, 0));
    EXPECT(grid > 0 && block >= 32 && block <= 1024);
    CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(
        &grid, &block, dynamic, [](int threads) { return threads * sizeof(int); }));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, squares, block, 0));
    EXPECT(active >= 1);
    size_t bytes = 0;
    CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, dynamic, 1, 128));
    EXPECT(bytes >= 40000);
    int *values;
    std::vector<int> got(n);
    CHECK(cudaMalloc(&values, n * sizeof(int)));
    squares<<<(n + block - 1) / block, block>>>(values, n, mistake());
    CHECK(cudaMemcpy(got.data(), values, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(got[i] == i * i);
    cudaFuncAttributes of;
    CHECK(cudaFuncGetAttributes(&of, bounded));
    EXPECT(of.maxThreadsPerBlock == 96 && of.sharedSizeBytes == 96 * sizeof(int) && of.numRegs > 0);
    bounded<<<1, 128>>>(values);
    EXPECT(cudaGetLastError() != cudaSuccess);
    // More shared memory than without asking.
    int large = 100000;
    dynamic<<<1, 64, large>>>(values);
    RETURNS(cudaErrorInvalidValue, cudaGetLastError());
    CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, large));
    CHECK(cudaFuncGetAttributes(&of, dynamic));
    EXPECT(of.maxDynamicSharedSizeBytes == large);
    dynamic<<<1, 64, large>>>(values);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), values, sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(got[0] == 63);
    CHECK(cudaFuncSetCacheConfig(dynamic, cudaFuncCachePreferShared));
    std::puts("all right");
}
