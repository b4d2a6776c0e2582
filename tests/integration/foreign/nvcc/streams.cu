// Copies and kernels in four streams, with events between them.
#include "common.h"

__global__ void scale(int *values, int n, int by, int mistake) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * by + mistake;
}

int main() {
    const int parts = 4, n = 3000;
    int *host, *device;
    CHECK(cudaMallocHost(&host, parts * n * sizeof(int)));
    CHECK(cudaMalloc(&device, parts * n * sizeof(int)));
    for (int i = 0; i < parts * n; i++) host[i] = i;
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t streams[parts];
    cudaEvent_t done[parts], start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaStreamCreate(&streams[0]));
    CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithPriority(&streams[2], cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamCreate(&streams[3]));
    CHECK(cudaEventRecord(start));
    for (int p = 0; p < parts; p++) {
        int *at = device + p * n;
        CHECK(cudaEventCreateWithFlags(&done[p], cudaEventDisableTiming));
        CHECK(cudaMemcpyAsync(at, host + p * n, n * sizeof(int), cudaMemcpyHostToDevice, streams[p]));
        scale<<<(n + 127) / 128, 128, 0, streams[p]>>>(at, n, p + 2, mistake());
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(done[p], streams[p]));
    }
    // The first stream waits for the others, and copies all back.
    for (int p = 1; p < parts; p++) CHECK(cudaStreamWaitEvent(streams[0], done[p], 0));
    CHECK(cudaMemcpyAsync(host, device, parts * n * sizeof(int), cudaMemcpyDeviceToHost, streams[0]));
    // Unfinished work is no error of the thread.
    cudaError_t query = cudaStreamQuery(streams[0]);
    EXPECT(query == cudaSuccess || query == cudaErrorNotReady);
    EXPECT(cudaPeekAtLastError() == cudaSuccess);
    CHECK(cudaStreamSynchronize(streams[0]));
    CHECK(cudaStreamQuery(streams[0]));
    for (int i = 0; i < parts * n; i++) EXPECT(host[i] == i * (i / n + 2));
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventQuery(end));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    EXPECT(milliseconds >= 0);
    RETURNS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, done[0], end));
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    unsigned flags = 99;
    CHECK(cudaStreamGetFlags(streams[1], &flags));
    EXPECT(flags == cudaStreamNonBlocking);
    for (int p = 0; p < parts; p++) {
        CHECK(cudaStreamDestroy(streams[p]));
        CHECK(cudaEventDestroy(done[p]));
    }
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    std::puts("all right");
}
