// A graph captured from two streams, launched many times, and updated by a second capture.
#include "common.h"
#include <vector>

__global__ void add_to(int *values, int n, int what) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += what;
}

static cudaGraph_t capture(cudaStream_t one, cudaStream_t two, int *a, int *b, int n, int what) {
    cudaEvent_t fork, join;
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(one, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    CHECK(cudaEventRecord(fork, one));
    CHECK(cudaStreamWaitEvent(two, fork, 0));
    // The first launch of the kernel is in the capture.
    add_to<<<(n + 63) / 64, 64, 0, one>>>(a, n, what);
    add_to<<<(n + 63) / 64, 64, 0, two>>>(b, n, 2 * what);
    CHECK(cudaEventRecord(join, two));
    CHECK(cudaStreamWaitEvent(one, join, 0));
    CHECK(cudaMemcpyAsync(a + n, b, n * sizeof(int), cudaMemcpyDeviceToDevice, one));
    CHECK(cudaStreamEndCapture(one, &graph));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    return graph;
}

int main() {
    const int n = 500;
    int *a, *b;
    CHECK(cudaMalloc(&a, 2 * n * sizeof(int)));
    CHECK(cudaMalloc(&b, n * sizeof(int)));
    CHECK(cudaMemset(a, 0, 2 * n * sizeof(int)));
    CHECK(cudaMemset(b, 0, n * sizeof(int)));
    // The streams below do not wait for the null stream.
    CHECK(cudaDeviceSynchronize());
    cudaStream_t one, two;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    cudaGraph_t graph = capture(one, two, a, b, n, 1 + mistake());
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes == 3);
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 5; i++) CHECK(cudaGraphLaunch(executable, one));
    cudaGraph_t other = capture(one, two, a, b, n, 10);
    cudaGraphExecUpdateResultInfo result;
    CHECK(cudaGraphExecUpdate(executable, other, &result));
    EXPECT(result.result == cudaGraphExecUpdateSuccess);
    CHECK(cudaGraphLaunch(executable, one));
    CHECK(cudaStreamSynchronize(one));
    std::vector<int> got(2 * n);
    CHECK(cudaMemcpy(got.data(), a, 2 * n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(got[i] == 15 && got[n + i] == 30);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(other));
    std::puts("all right");
}
