// nvcc: --default-stream per-thread
// The null stream is each thread's own: one that a thread captures is not the one that another thread uses.
#include "common.h"
#include <thread>

__global__ void store(int *to, int value) { *to = value; }

int main() {
    int *memory, got = 0;
    CHECK(cudaMalloc(&memory, 2 * sizeof(int)));
    // The legacy stream cannot be captured.
    RETURNS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed));
    CHECK(cudaStreamBeginCapture(0, cudaStreamCaptureModeRelaxed));
    store<<<1, 1>>>(memory, 1);
    std::thread([=] {
        int got = 0;
        cudaStreamCaptureStatus status;
        CHECK(cudaStreamIsCapturing(0, &status));
        EXPECT(status == cudaStreamCaptureStatusNone);
        store<<<1, 1>>>(memory + 1, 2 + mistake());
        CHECK(cudaMemcpy(&got, memory + 1, sizeof got, cudaMemcpyDeviceToHost));
        EXPECT(got == 2);
        CHECK(cudaMemset(memory + 1, 0, sizeof got));
        CHECK(cudaMemcpyAsync(&got, memory + 1, sizeof got, cudaMemcpyDeviceToHost, 0));
        CHECK(cudaStreamSynchronize(0));
        EXPECT(got == 0);
    }).join();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamEndCapture(0, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, 0));
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 1);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    std::puts("all right");
}
