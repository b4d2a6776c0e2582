// A program of CUDA 12, in C: the functions whose ABI is another in CUDA 13.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                       \
    do {                                                                        \
        if (!(condition)) {                                                     \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                            \
        }                                                                       \
    } while (0)
#define CHECK(call) EXPECT((call) == cudaSuccess)

int main(void) {
    int version = 0, clock = 0, bus = 0, mistake = getenv("PLANTED") && getenv("PLANTED")[0] == '1';
    CHECK(cudaRuntimeGetVersion(&version));
    EXPECT(version / 1000 == 12);
    struct cudaDeviceProp of;
    memset(&of, 0xee, sizeof of);
    CHECK(cudaGetDeviceProperties(&of, 0));
    CHECK(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0));
    CHECK(cudaDeviceGetAttribute(&bus, cudaDevAttrGlobalMemoryBusWidth, 0));
    EXPECT(of.clockRate == clock && of.memoryBusWidth == bus && of.warpSize == 32 && of.major >= 7);
    unsigned char *memory, got[64];
    CHECK(cudaMallocManaged((void **)&memory, sizeof got, cudaMemAttachGlobal));
    // The struct is longer in CUDA 13: nothing behind it may be written.
    struct { struct cudaPointerAttributes of; unsigned char after[128]; } pointer;
    memset(&pointer, 0xee, sizeof pointer);
    CHECK(cudaPointerGetAttributes(&pointer.of, memory));
    EXPECT(pointer.of.type == cudaMemoryTypeManaged && pointer.of.devicePointer == memory);
    for (size_t i = 0; i < sizeof pointer.after; i++) EXPECT(pointer.after[i] == 0xee);
    CHECK(cudaMemAdvise(memory, sizeof got, cudaMemAdviseSetPreferredLocation, 0));
    CHECK(cudaMemPrefetchAsync(memory, sizeof got, 0, 0));
    CHECK(cudaMemPrefetchAsync(memory, sizeof got, cudaCpuDeviceId, 0));
    cudaGraph_t graph;
    cudaGraphNode_t nodes[2], edges[2][4];
    CHECK(cudaGraphCreate(&graph, 0));
    struct cudaGraphNodeParams fill;
    for (int i = 0; i < 2; i++) {
        memset(&fill, 0, sizeof fill);
        fill.type = cudaGraphNodeTypeMemset;
        fill.memset.dst = memory + 32 * i;
        fill.memset.value = i + 1 + mistake;
        fill.memset.elementSize = 1;
        fill.memset.width = 32;
        fill.memset.height = 1;
        CHECK(cudaGraphAddNode(&nodes[i], graph, NULL, 0, &fill));
    }
    CHECK(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], 1));
    size_t count = 4;
    CHECK(cudaGraphGetEdges(graph, edges[0], edges[1], &count));
    EXPECT(count == 1 && edges[0][0] == nodes[0] && edges[1][0] == nodes[1]);
    cudaStream_t stream;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    enum cudaStreamCaptureStatus status;
    unsigned long long id;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
    EXPECT(status == cudaStreamCaptureStatusNone);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(got, memory, sizeof got, cudaMemcpyDefault));
    for (int i = 0; i < 64; i++) EXPECT(got[i] == i / 32 + 1);
    puts("all right");
    return 0;
}
