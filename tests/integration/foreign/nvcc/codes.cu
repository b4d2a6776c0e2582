// What calls with wrong or unusual arguments return: `codes.txt` has what NVIDIA's runtime printed on an H200.
#include "common.h"
#include <csetjmp>
#include <csignal>

__global__ void store(int *out, int value) { *out = value; }
__device__ int variable = 3;
__constant__ float constant[4];
__managed__ int managed = 5;
static void no_kernel(int *) {}
static int no_variable;

static sigjmp_buf before;
static void crashed(int) { siglongjmp(before, 1); }

#define SAY(call)                                                                      \
    do {                                                                               \
        if (sigsetjmp(before, 1) == 0) {                                               \
            int code_ = (call);                                                        \
            int last_ = cudaGetLastError();                                            \
            std::printf(last_ == code_ ? "%s: %d\n" : "%s: %d, last %d\n", #call, code_, last_); \
        } else {                                                                       \
            std::printf("%s: crashed\n", #call);                                       \
        }                                                                              \
    } while (0)

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::signal(SIGSEGV, crashed);
    int *out, *host, got = 0;
    CHECK(cudaMalloc(&out, 64));
    CHECK(cudaMallocHost(&host, 64));
    int value = 1;
    void *arguments[] = {&out, &value};
    void *memory = nullptr;
    size_t bytes = 0;

    std::puts("launches");
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(1), arguments, 0, 0));
    const int nothing = mistake();
    SAY(cudaLaunchKernel((void *)store, dim3(nothing), dim3(1), arguments, 0, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(0), arguments, 0, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(1025), arguments, 0, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(1, 1, 65), arguments, 0, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1, 65536), dim3(1), arguments, 0, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1, 1, 65536), dim3(1), arguments, 0, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(1), arguments, 48 << 10, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(1), arguments, (48 << 10) + 1, 0));
    SAY(cudaLaunchKernel((void *)store, dim3(1), dim3(1), arguments, size_t(1) << 32, 0));
    SAY(cudaLaunchKernel(nullptr, dim3(1), dim3(1), arguments, 0, 0));
    SAY(cudaLaunchCooperativeKernel((void *)store, dim3(1), dim3(1), arguments, 0, 0));
    SAY(cudaLaunchCooperativeKernel((void *)store, dim3(1 << 20), dim3(1024), arguments, 0, 0));
    SAY(cudaLaunchCooperativeKernel((void *)store, dim3(0), dim3(1), arguments, 0, 0));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1), config.blockDim = dim3(1);
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    SAY(cudaLaunchKernelExC(nullptr, (void *)store, arguments));
    config.gridDim = dim3(0);
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    config.gridDim = dim3(1), config.blockDim = dim3(2000);
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    config.blockDim = dim3(1), config.dynamicSmemBytes = 1 << 20;
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    config.dynamicSmemBytes = 0;
    SAY(cudaLaunchKernelExC(&config, nullptr, arguments));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 16, attribute.val.clusterDim.y = 1, attribute.val.clusterDim.z = 1;
    config.attrs = &attribute, config.numAttrs = 1, config.gridDim = dim3(16);
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    attribute.val.clusterDim.x = 2, config.gridDim = dim3(3);
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    attribute.val.clusterDim.x = 0;
    SAY(cudaLaunchKernelExC(&config, (void *)store, arguments));
    store<<<1, 1, 0, 0>>>(out, 1);
    SAY(cudaDeviceSynchronize());

    store<<<0, 1>>>(out, 1);
    SAY(cudaPeekAtLastError());
    store<<<1, 0>>>(out, 1);
    SAY(cudaPeekAtLastError());
    store<<<1, 1025>>>(out, 1);
    SAY(cudaPeekAtLastError());
    store<<<dim3(1, 65536), 1>>>(out, 1);
    SAY(cudaPeekAtLastError());
    store<<<1, 1, 1 << 20>>>(out, 1);
    SAY(cudaPeekAtLastError());
    config = {}, config.gridDim = dim3(0), config.blockDim = dim3(1);
    SAY(cudaLaunchKernelEx(&config, store, out, 1));

    std::puts("functions");
    cudaFuncAttributes of;
    cudaKernel_t kernel;
    cudaFunction_t function;
    int blocks;
    SAY(cudaFuncGetAttributes(&of, nullptr));
    SAY(cudaFuncGetAttributes(nullptr, (void *)store));
    SAY(cudaFuncSetAttribute((void *)store, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
    SAY(cudaFuncSetAttribute((void *)store, cudaFuncAttributeMaxDynamicSharedMemorySize, -1));
    SAY(cudaFuncSetAttribute((void *)store, (cudaFuncAttribute)77, 0));
    SAY(cudaFuncSetCacheConfig((void *)store, (cudaFuncCache)9));
    SAY(cudaGetKernel(&kernel, nullptr));
    SAY(cudaGetFuncBySymbol(&function, nullptr));
    SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 0, 0));
    SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, -1, 0));
    SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 1025, 0));
    SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 32, 1 << 20));
    SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor((int *)nullptr, store, 32, 0));

    std::puts("variables");
    void *address = nullptr;
    SAY(cudaGetSymbolAddress(&address, variable));
    SAY(cudaGetSymbolAddress(&address, managed));
    SAY(cudaGetSymbolAddress(&address, (const void *)&no_variable));
    SAY(cudaGetSymbolAddress((void **)nullptr, variable));
    SAY(cudaGetSymbolSize(&bytes, constant));
    SAY(cudaGetSymbolSize(&bytes, (const void *)nullptr));
    SAY(cudaMemcpyToSymbol(variable, &value, 4));
    SAY(cudaMemcpyToSymbol(variable, &value, 8));
    SAY(cudaMemcpyToSymbol(variable, &value, 4, 4));
    SAY(cudaMemcpyToSymbol(variable, &value, 0));
    SAY(cudaMemcpyToSymbol(variable, &value, 4, 0, cudaMemcpyDeviceToHost));
    SAY(cudaMemcpyFromSymbol(&value, variable, 4, 0, cudaMemcpyHostToDevice));
    SAY(cudaMemcpyFromSymbol(&value, variable, 5));

    std::puts("memory");
    SAY(cudaMalloc(&memory, 0));
    std::printf("null: %d\n", memory == nullptr);
    SAY(cudaMalloc(&memory, size_t(1) << 60));
    SAY(cudaMalloc(&memory, ~size_t(0)));
    SAY(cudaMallocHost(&memory, 0));
    std::printf("null: %d\n", memory == nullptr);
    SAY(cudaHostAlloc(&memory, 16, 0xff00));
    SAY(cudaMallocManaged(&memory, 0));
    std::printf("null: %d\n", memory == nullptr);
    SAY(cudaMallocManaged(&memory, 16, 0));
    SAY(cudaMallocManaged(&memory, 16, 7));
    SAY(cudaMallocManaged(&memory, 16, cudaMemAttachHost));
    SAY(cudaMallocAsync(&memory, 0, 0));
    SAY(cudaMallocPitch(&memory, &bytes, 0, 5));
    std::printf("null: %d, pitch %zu\n", memory == nullptr, bytes);
    SAY(cudaMallocPitch(&memory, &bytes, 5, 0));
    SAY(cudaFree((void *)16));
    SAY(cudaFree((char *)out + 4));
    SAY(cudaFree(host));
    SAY(cudaFreeHost(out));
    SAY(cudaFreeHost(&value));
    SAY(cudaFreeHost(nullptr));
    SAY(cudaFreeAsync(nullptr, 0));
    SAY(cudaFreeAsync((void *)16, 0));
    SAY(cudaHostRegister(nullptr, 64, 0));
    SAY(cudaHostRegister(&value, 0, 0));
    SAY(cudaHostUnregister(&value));
    SAY(cudaHostGetDevicePointer(&memory, &value, 0));
    SAY(cudaHostGetDevicePointer(&memory, host, 1));
    SAY(cudaMemcpy(out, host, 0, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(out, nullptr, 4, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(out, host, 4, (cudaMemcpyKind)7));
    SAY(cudaMemcpy(out, host, 4, cudaMemcpyDeviceToHost));
    SAY(cudaMemcpy(host, out, 4, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy(out, &value, 4, cudaMemcpyHostToHost));
    SAY(cudaMemcpy(out, host, 65 << 20, cudaMemcpyHostToDevice));
    SAY(cudaMemset(out, 0, 0));
    SAY(cudaMemset(nullptr, 0, 4));
    SAY(cudaMemset(nullptr, 0, 0));
    SAY(cudaMemset2D(out, 4, 0, 8, 2));
    SAY(cudaMemcpy2D(out, 4, host, 4, 8, 2, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy2D(out, 4, host, 4, 4, 0, cudaMemcpyHostToDevice));
    SAY(cudaMemcpy3D(nullptr));
    SAY(cudaMemPrefetchAsync(out, 4, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, 0));
    SAY(cudaMemGetInfo(nullptr, nullptr));
    cudaPointerAttributes pointer;
    SAY(cudaPointerGetAttributes(&pointer, &value));
    std::printf("type %d\n", pointer.type);
    SAY(cudaPointerGetAttributes(&pointer, nullptr));
    std::printf("type %d\n", pointer.type);
    SAY(cudaPointerGetAttributes(&pointer, (void *)16));
    SAY(cudaPointerGetAttributes(nullptr, out));

    std::puts("streams and events");
    cudaStream_t stream, other;
    cudaEvent_t event, untimed, later;
    float milliseconds;
    int priority;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreate(&later));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    SAY(cudaStreamCreate(nullptr));
    SAY(cudaStreamCreateWithFlags(&other, 8));
    SAY(cudaStreamCreateWithPriority(&other, 0, 100));
    SAY(cudaStreamGetPriority(other, &priority));
    std::printf("priority %d\n", priority);
    SAY(cudaStreamDestroy(nullptr));
    SAY(cudaStreamDestroy(cudaStreamLegacy));
    SAY(cudaStreamDestroy(cudaStreamPerThread));
    SAY(cudaStreamWaitEvent(stream, nullptr, 0));
    SAY(cudaStreamWaitEvent(stream, event, 9));
    SAY(cudaEventCreate(nullptr));
    SAY(cudaEventCreateWithFlags(&later, 64));
    SAY(cudaEventRecord(nullptr, stream));
    SAY(cudaEventQuery(event));
    SAY(cudaEventSynchronize(event));
    SAY(cudaEventElapsedTime(&milliseconds, event, later));
    SAY(cudaEventRecord(event, stream));
    SAY(cudaEventRecord(untimed, stream));
    SAY(cudaEventElapsedTime(&milliseconds, event, later));
    SAY(cudaEventElapsedTime(&milliseconds, event, untimed));
    SAY(cudaEventElapsedTime(nullptr, event, event));
    SAY(cudaEventDestroy(nullptr));
    SAY(cudaLaunchHostFunc(stream, nullptr, nullptr));
    SAY(cudaStreamAddCallback(stream, nullptr, nullptr, 0));
    SAY(cudaStreamAttachMemAsync(stream, out, 0, cudaMemAttachSingle));

    std::puts("devices");
    int device;
    SAY(cudaSetDevice(-1));
    SAY(cudaSetDevice(1000));
    SAY(cudaGetDevice(nullptr));
    SAY(cudaGetDeviceCount(nullptr));
    SAY(cudaGetDeviceProperties((cudaDeviceProp *)nullptr, 0));
    SAY(cudaDeviceGetAttribute(&device, (cudaDeviceAttr)100000, 0));
    SAY(cudaDeviceGetAttribute(&device, cudaDevAttrWarpSize, 1000));
    SAY(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0));
    SAY(cudaDeviceSetLimit((cudaLimit)99, 1));
    SAY(cudaDeviceGetLimit(&bytes, (cudaLimit)99));
    SAY(cudaDeviceCanAccessPeer(&device, 0, 0));
    SAY(cudaDeviceEnablePeerAccess(0, 0));
    SAY(cudaDeviceDisablePeerAccess(0));
    SAY(cudaDeviceGetByPCIBusId(&device, "nonsense"));
    SAY(cudaSetDeviceFlags(0xff00));
    SAY(cudaDeviceSetCacheConfig((cudaFuncCache)9));
    SAY(cudaDriverGetVersion(nullptr));
    SAY(cudaRuntimeGetVersion(nullptr));

    std::puts("graphs");
    cudaGraph_t graph, captured;
    cudaGraphExec_t executable;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&graph, 0));
    SAY(cudaGraphCreate(&captured, 1));
    SAY(cudaGraphAddEmptyNode(&node, nullptr, nullptr, 0));
    SAY(cudaGraphAddEmptyNode(&node, graph, nullptr, 1));
    SAY(cudaGraphAddKernelNode(&node, graph, nullptr, 0, nullptr));
    SAY(cudaGraphInstantiate(&executable, nullptr, 0));
    SAY(cudaGraphLaunch(nullptr, stream));
    SAY(cudaGraphDestroy(nullptr));
    SAY(cudaGraphExecDestroy(nullptr));
    SAY(cudaStreamEndCapture(stream, &captured));
    SAY(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
    SAY(cudaStreamBeginCapture(stream, (cudaStreamCaptureMode)9));
    SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    SAY(cudaStreamSynchronize(stream));
    SAY(cudaStreamEndCapture(stream, &captured));
    SAY(cudaStreamSynchronize(stream));

    std::puts("libraries and pools");
    cudaLibrary_t library = nullptr;
    SAY(cudaLibraryLoadFromFile(&library, "/nowhere", nullptr, nullptr, 0, nullptr, nullptr, 0));
    SAY(cudaLibraryUnload(nullptr));
    cudaMemPool_t pool;
    SAY(cudaDeviceGetDefaultMemPool(&pool, 1000));
    SAY(cudaMemPoolCreate(&pool, nullptr));
    SAY(cudaMemPoolDestroy(nullptr));
    SAY(cudaMallocFromPoolAsync(&memory, 16, nullptr, 0));

    std::puts("at the end");
    SAY(cudaMemcpyFromSymbol(&got, managed, 4));
    managed = 9;
    SAY(cudaDeviceReset());
    std::printf("managed %d\n", managed);
    SAY(cudaMemcpyFromSymbol(&got, variable, 4));
    std::printf("variable %d\n", got);
    SAY(cudaLaunchKernel((void *)no_kernel, dim3(1), dim3(1), arguments, 0, 0));
    std::puts("all right");
}
