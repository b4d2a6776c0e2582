// A long array in parts: each stream copies one to the device, works on it and copies it back, while others do the same.

#include <cuda_runtime.h>

__global__ void addWave(float *data, int n, int offset)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = (float)(offset + i);
        data[i] += sqrtf(sinf(x) * sinf(x) + cosf(x) * cosf(x));
    }
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const int n = 1 << 18, streams = 4, part = n / streams, block = 256;
    float *host, *device;
    cudaStream_t stream[streams];
    CHECK(cudaMallocHost(&host, n * sizeof(float)));
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    for (int i = 0; i < n; ++i) host[i] = i % 100;
    for (int s = 0; s < streams; ++s) CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));

    for (int s = 0; s < streams; ++s) {
        int first = s * part;
        size_t bytes = part * sizeof(float);
        CHECK(cudaMemcpyAsync(device + first, host + first, bytes, cudaMemcpyHostToDevice, stream[s]));
        addWave<<<(part + block - 1) / block, block, 0, stream[s]>>>(device + first, part, first);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(host + first, device + first, bytes, cudaMemcpyDeviceToHost, stream[s]));
    }

    for (int s = 0; s < streams; ++s) CHECK(cudaStreamSynchronize(stream[s]));
    print(std::vector<float>(host, host + n));
    for (int s = 0; s < streams; ++s) CHECK(cudaStreamDestroy(stream[s]));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
}
#endif
