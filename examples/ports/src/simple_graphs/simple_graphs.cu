// Two kernels, recorded once as a graph and launched many times.

#include <cuda_runtime.h>

__global__ void smooth(float *out, float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float left = in[i > 0 ? i - 1 : i];
    float right = in[i + 1 < n ? i + 1 : i];
    out[i] = 0.25f * left + 0.5f * in[i] + 0.25f * right;
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const int n = 1000, launches = 20, block = 256, grid = (n + block - 1) / block;
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) x[i] = i == n / 2 ? 1000 : 0;

    float *now, *next;
    cudaStream_t stream;
    CHECK(cudaMalloc(&now, n * sizeof(float)));
    CHECK(cudaMalloc(&next, n * sizeof(float)));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemcpyAsync(now, x.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    smooth<<<grid, block, 0, stream>>>(next, now, n);
    CHECK(cudaGetLastError());
    smooth<<<grid, block, 0, stream>>>(now, next, n);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < launches; ++i) CHECK(cudaGraphLaunch(exec, stream));

    CHECK(cudaMemcpyAsync(x.data(), now, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(now));
    CHECK(cudaFree(next));
    print(x);
}
#endif
