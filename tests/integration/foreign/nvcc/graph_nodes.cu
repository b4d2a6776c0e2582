// A graph of nodes that the program adds: fills, copies, kernels, a function of the host.
#include "common.h"

__device__ int bias = 3;

__global__ void apply(int *values, int n, int factor) {
    int i = threadIdx.x;
    if (i < n) values[i] = values[i] * factor + bias;
}

struct Seen { const int *values; int sum; };

static void look(void *data) {
    Seen *seen = (Seen *)data;
    seen->sum = 0;
    for (int i = 0; i < 32; i++) seen->sum += seen->values[i];
}

int main() {
    int n = 32, factor = 5 + mistake(), *device, *host, new_bias = 1;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaHostAlloc(&host, n * sizeof(int), cudaHostAllocDefault));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t fill, set, kernel, back, call;
    cudaMemsetParams fills = {};
    fills.dst = device;
    fills.value = 2;
    fills.elementSize = sizeof(int);
    fills.width = n;
    fills.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &fills));
    CHECK(cudaGraphAddMemcpyNodeToSymbol(&set, graph, nullptr, 0, bias, &new_bias, sizeof(int), 0,
                                         cudaMemcpyHostToDevice));
    void *arguments[] = {&device, &n, &factor};
    cudaKernelNodeParams launch = {};
    launch.func = (void *)apply;
    launch.gridDim = dim3(1);
    launch.blockDim = dim3(n);
    launch.kernelParams = arguments;
    cudaGraphNode_t before[] = {fill, set};
    CHECK(cudaGraphAddKernelNode(&kernel, graph, before, 2, &launch));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, host, device, n * sizeof(int),
                                   cudaMemcpyDeviceToHost));
    Seen seen = {host, -1};
    cudaHostNodeParams calls = {look, &seen};
    CHECK(cudaGraphAddHostNode(&call, graph, &back, 1, &calls));
    cudaKernelNodeParams found = {};
    CHECK(cudaGraphKernelNodeGetParams(kernel, &found));
    EXPECT(found.func == (void *)apply && found.blockDim.x == 32);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(back, &type));
    EXPECT(type == cudaGraphNodeTypeMemcpy);
    cudaMemcpy3DParms copied;
    CHECK(cudaGraphMemcpyNodeGetParams(back, &copied));
    EXPECT(copied.extent.width == n * sizeof(int) && copied.dstPtr.ptr == host && copied.srcPtr.ptr == device);
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, 0));
    CHECK(cudaStreamSynchronize(0));
    EXPECT(seen.sum == 32 * 11);
    int other = 7;
    arguments[2] = &other;
    CHECK(cudaGraphExecKernelNodeSetParams(executable, kernel, &launch));
    CHECK(cudaGraphLaunch(executable, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(seen.sum == 32 * 15);
    // Nodes of any kind.
    cudaGraphNodeParams any = {cudaGraphNodeTypeMemset};
    any.memset.dst = device;
    any.memset.value = 9;
    any.memset.elementSize = 1;
    any.memset.width = n * sizeof(int);
    any.memset.height = 1;
    cudaGraph_t second;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&second, 0));
    CHECK(cudaGraphAddNode(&node, second, nullptr, nullptr, 0, &any));
    cudaGraphNodeParams with_kernel = {cudaGraphNodeTypeKernel};
    arguments[2] = &factor;
    with_kernel.kernel.func = (void *)apply;
    with_kernel.kernel.gridDim = dim3(1);
    with_kernel.kernel.blockDim = dim3(n);
    with_kernel.kernel.kernelParams = arguments;
    cudaGraphNode_t last;
    CHECK(cudaGraphAddNode(&last, second, &node, nullptr, 1, &with_kernel));
    cudaGraphExec_t of_second;
    CHECK(cudaGraphInstantiate(&of_second, second, 0));
    CHECK(cudaGraphLaunch(of_second, 0));
    CHECK(cudaMemcpy(host, device, n * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(host[31] == 0x09090909 * factor + 1);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphExecDestroy(of_second));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(second));
    std::puts("all right");
}
