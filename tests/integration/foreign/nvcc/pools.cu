// Memory in the order of streams: the default pool, and one of the program's.
#include "common.h"
#include <vector>

__global__ void ramp(int *values, int n, int from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = from + i;
}

int main() {
    const int n = 300;
    std::vector<int> got(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int round = 0; round < 4; round++) {
        int *memory;
        CHECK(cudaMallocAsync(&memory, n * sizeof(int), stream));
        ramp<<<3, 100, 0, stream>>>(memory, n, round + mistake());
        CHECK(cudaMemcpyAsync(got.data(), memory, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(memory, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++) EXPECT(got[i] == round + i);
    }
    cudaMemPool_t pool, of_device;
    CHECK(cudaDeviceGetDefaultMemPool(&of_device, 0));
    unsigned long long threshold = 1 << 20, read = 0;
    CHECK(cudaMemPoolSetAttribute(of_device, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolGetAttribute(of_device, cudaMemPoolAttrReleaseThreshold, &read));
    EXPECT(read == threshold);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    int *memory;
    CHECK(cudaMallocFromPoolAsync(&memory, n * sizeof(int), pool, stream));
    ramp<<<3, 100, 0, stream>>>(memory, n, 9);
    CHECK(cudaMemcpyAsync(got.data(), memory, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(got[0] == 9 && got[n - 1] == n + 8);
    CHECK(cudaFreeAsync(memory, stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(stream));
    std::puts("all right");
}
