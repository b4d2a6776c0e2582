/* A program in C on the driver API: cc program.c -o program -l:libcuda.so.1, and give it kernels.ptx.
   It checks all that it computes, and says what is wrong. */
#include "driver.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 10000, BLOCK = 256, BLOCKS = (N + BLOCK - 1) / BLOCK };

static void check(CUresult code, const char *call, int line) {
    if (code != CUDA_SUCCESS) {
        const char *name = "?", *text = "?";
        cuGetErrorName(code, &name);
        cuGetErrorString(code, &text);
        fprintf(stderr, "line %d: %s: %s: %s\n", line, call, name, text);
        exit(1);
    }
}

static void require(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: not so: %s\n", line, what);
        exit(2);
    }
}

#define CHECK(call) check(call, #call, __LINE__)
#define REQUIRE(condition) require(condition, #condition, __LINE__)

static CUcontext context;
static CUmodule module;

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(3);
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = calloc((size_t)size + 1, 1);
    REQUIRE(fread(text, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    return text;
}

static void devices(void) {
    int version, count, warp, threads, processors, major;
    CUdevice device, current;
    CUuuid uuid;
    CUcontext now;
    char name[100], bus[32];
    size_t memory, free_bytes, all_bytes;

    CHECK(cuInit(0));
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuDeviceGetCount(&count));
    REQUIRE(version >= 12000 && count >= 1);
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceTotalMem_v2(&memory, device));
    CHECK(cuDeviceGetUuid_v2(&uuid, device));
    CHECK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
    CHECK(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    CHECK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device));
    CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    REQUIRE(strlen(name) > 0 && strlen(bus) > 0 && warp == 32 && threads == 1024);
    REQUIRE(processors > 0 && major >= 7);

    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuCtxGetCurrent(&now));
    CHECK(cuCtxGetDevice(&current));
    CHECK(cuMemGetInfo_v2(&free_bytes, &all_bytes));
    REQUIRE(now == context && current == device && free_bytes <= all_bytes && all_bytes <= memory);
    printf("%s, bus %s, driver %d\n", name, bus, version);
}

/* Loads the kernels; text that is none is an error whose log says so. */
static void modules(const char *ptx) {
    static char info[4096], errors[4096];
    int options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                     CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {info, (void *)sizeof info, errors, (void *)sizeof errors};
    CUmodule none;
    CUfunction function;

    REQUIRE(cuModuleLoadDataEx(&none, ".version 8.0\n.target sm_75\nnonsense\n", 4, options, values) != 0);
    REQUIRE(strlen(errors) > 0);
    values[1] = (void *)sizeof info;
    values[3] = (void *)sizeof errors;
    CHECK(cuModuleLoadDataEx(&module, ptx, 4, options, values));
    REQUIRE(cuModuleLoad(&none, "no-such-file") != 0);
    REQUIRE(cuModuleGetFunction(&function, module, "no_such_kernel") == CUDA_ERROR_NOT_FOUND);
}

static CUfunction kernel(const char *name) {
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, name));
    return function;
}

/* Copies there and back, a kernel with parameters by pointers and one with a block of bytes. */
static void launches(void) {
    static float x[N], y[N];
    CUdeviceptr dx, dy, dfactor;
    size_t bytes;
    float a = 3, factor = 0.5f;
    unsigned n = N, type = 0;

    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = (float)(2 * i);
    }
    CHECK(cuMemAlloc_v2(&dx, sizeof x));
    CHECK(cuMemAlloc_v2(&dy, sizeof y));
    CHECK(cuMemcpyHtoD_v2(dx, x, sizeof x));
    CHECK(cuMemcpyHtoD_v2(dy, y, sizeof y));
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dx));
    REQUIRE(type == CU_MEMORYTYPE_DEVICE);

    void *parameters[] = {&a, &dx, &dy, &n};
    CHECK(cuLaunchKernel(kernel("saxpy"), BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(y, dy, sizeof y));
    for (int i = 0; i < N; i++)
        REQUIRE(y[i] == (float)(5 * i));

    CHECK(cuModuleGetGlobal_v2(&dfactor, &bytes, module, "factor"));
    REQUIRE(bytes == sizeof factor);
    CHECK(cuMemcpyHtoD_v2(dfactor, &factor, sizeof factor));
    struct scale_parameters {
        CUdeviceptr x;
        unsigned n;
    } block = {dx, N};
    /* Up to the end of the last parameter: the driver refuses the padding of the whole. */
    size_t size = offsetof(struct scale_parameters, n) + sizeof block.n;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(kernel("scale"), BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, NULL, extra));
    size_t whole = sizeof block;
    extra[3] = &whole;
    REQUIRE(cuLaunchKernel(kernel("scale"), BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, NULL, extra) ==
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    extra[3] = &size;
    CHECK(cuMemcpyDtoD_v2(dy, dx, sizeof x));
    CHECK(cuMemcpyDtoH_v2(y, dy, sizeof y));
    for (int i = 0; i < N; i++)
        REQUIRE(y[i] == x[i] * 0.5f);

    REQUIRE(cuLaunchKernel(kernel("scale"), 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, extra) ==
            CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree_v2(dx));
    CHECK(cuMemFree_v2(dy));
}

/* A reduction in shared memory, over managed memory, with the count of blocks in a global. */
static void sums(void) {
    CUdeviceptr x, out, counter;
    size_t bytes;
    unsigned n = N, blocks = 0;
    int resident, threads, grid, block;
    CUfunction function = kernel("block_sums");

    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4 * BLOCK));
    CHECK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function, BLOCK, 4 * BLOCK));
    CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0));
    REQUIRE(threads >= BLOCK && resident >= 1 && grid >= 1 && block >= 32);

    CHECK(cuMemAllocManaged(&x, 4 * N, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAllocManaged(&out, 4 * BLOCKS, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuModuleGetGlobal_v2(&counter, &bytes, module, "blocks_done"));
    CHECK(cuMemsetD32_v2(counter, 0, 1));
    for (unsigned i = 0; i < N; i++)
        ((unsigned *)x)[i] = i;
    void *parameters[] = {&x, &out, &n};
    CHECK(cuLaunchKernel(function, BLOCKS, 1, 1, BLOCK, 1, 1, 4 * BLOCK, NULL, parameters, NULL));
    CHECK(cuCtxSynchronize());
    unsigned sum = 0;
    for (int i = 0; i < BLOCKS; i++)
        sum += ((unsigned *)out)[i];
    CHECK(cuMemcpyDtoH_v2(&blocks, counter, sizeof blocks));
    REQUIRE(sum == N / 2 * (N - 1) && blocks == BLOCKS);
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFree_v2(out));
}

static void count(void *place) { ++*(int *)place; }

/* Two streams in order by an event, pinned and registered memory, stream-ordered memory. */
static void streams(void) {
    CUstream first, second;
    CUevent begin, end;
    CUdeviceptr x;
    unsigned *pinned, n = N;
    static float back[N];
    float factor = 2, ms = -1;
    int called = 0;
    CUdeviceptr dfactor;

    CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuEventCreate(&begin, 0));
    CHECK(cuEventCreate(&end, 0));
    CHECK(cuMemAllocHost_v2((void **)&pinned, 4 * N));
    CHECK(cuMemHostRegister_v2(back, sizeof back, 0));
    for (int i = 0; i < N; i++)
        ((float *)pinned)[i] = (float)i;
    CHECK(cuModuleGetGlobal_v2(&dfactor, NULL, module, "factor"));
    CHECK(cuMemcpyHtoD_v2(dfactor, &factor, sizeof factor));

    CHECK(cuEventRecord(begin, first));
    CHECK(cuMemAllocAsync(&x, 4 * N, first));
    CHECK(cuMemcpyHtoDAsync_v2(x, pinned, 4 * N, first));
    void *parameters[] = {&x, &n};
    CHECK(cuLaunchKernel(kernel("scale"), BLOCKS, 1, 1, BLOCK, 1, 1, 0, first, parameters, NULL));
    CHECK(cuEventRecord(end, first));
    CHECK(cuStreamWaitEvent(second, end, 0));
    CHECK(cuMemcpyDtoHAsync_v2(back, x, 4 * N, second));
    CHECK(cuLaunchHostFunc(second, count, &called));
    CHECK(cuMemFreeAsync(x, second));
    CHECK(cuStreamSynchronize(second));
    CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&ms, begin, end));
    REQUIRE(called == 1 && ms >= 0);
    REQUIRE(cuEventQuery(end) == CUDA_SUCCESS && cuStreamQuery(first) == CUDA_SUCCESS);
    for (int i = 0; i < N; i++)
        REQUIRE(back[i] == (float)(2 * i));

    CHECK(cuMemHostUnregister(back));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuEventDestroy_v2(begin));
    CHECK(cuEventDestroy_v2(end));
    CHECK(cuStreamDestroy_v2(first));
    CHECK(cuStreamDestroy_v2(second));
}

/* A graph that a stream records, and one of nodes that are added by hand. */
static void graphs(void) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode fill, launch;
    CUdeviceptr x, y;
    static float out[N];
    float a = 2;
    unsigned n = N;
    size_t nodes = 0;
    union {
        float number;
        unsigned bits;
    } one = {1.0f};
    CUfunction saxpy = kernel("saxpy");

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&x, 4 * N));
    CHECK(cuMemAlloc_v2(&y, 4 * N));
    void *parameters[] = {&a, &x, &y, &n};
    CHECK(cuMemsetD32_v2(y, 0, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD32Async(x, one.bits, N, stream));
    CHECK(cuLaunchKernel(saxpy, BLOCKS, 1, 1, BLOCK, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    REQUIRE(nodes == 2);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(out, y, 4 * N));
    for (int i = 0; i < N; i++)
        REQUIRE(out[i] == 6.0f);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));

    CUDA_MEMSET_NODE_PARAMS zero = {.dst = y, .elementSize = 4, .width = N, .height = 1};
    CUDA_KERNEL_NODE_PARAMS call = {.func = saxpy, .gridDimX = BLOCKS, .gridDimY = 1, .gridDimZ = 1,
                                    .blockDimX = BLOCK, .blockDimY = 1, .blockDimZ = 1,
                                    .kernelParams = parameters};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &zero, context));
    CHECK(cuGraphAddKernelNode_v2(&launch, graph, &fill, 1, &call));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(out, y, 4 * N));
    for (int i = 0; i < N; i++)
        REQUIRE(out[i] == 2.0f);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree_v2(x));
    CHECK(cuMemFree_v2(y));
    CHECK(cuStreamDestroy_v2(stream));
}

/* What is refused, and with which code; and that large memory begins at a page, as programs with heaps of their own
   count on. */
static void rules(void) {
    const unsigned long long exclusive =
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    CUstream stream;
    CUevent event;
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUdeviceptr memory;

    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuEventRecord(event, stream));
    REQUIRE(cuEventQuery(event) == CUDA_ERROR_CAPTURED_EVENT);
    REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(stream));

    CHECK(cuGraphCreate(&graph, 0));
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, exclusive) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphDestroy(graph));

    CHECK(cuMemAlloc_v2(&memory, 8 << 20));
    REQUIRE(memory % 4096 == 0);
    CHECK(cuMemFree_v2(memory));
}

/* A box out of the middle of rows that have room at their ends. */
static void pitched(void) {
    enum { WIDTH = 100, ROWS = 20 };
    CUdeviceptr memory;
    size_t pitch;
    static unsigned char in[ROWS][WIDTH], out[ROWS][WIDTH];

    for (int i = 0; i < ROWS * WIDTH; i++)
        in[i / WIDTH][i % WIDTH] = (unsigned char)(i * 7);
    CHECK(cuMemAllocPitch_v2(&memory, &pitch, WIDTH, ROWS, 4));
    REQUIRE(pitch >= WIDTH);
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = WIDTH,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = memory, .dstPitch = pitch,
                        .WidthInBytes = WIDTH, .Height = ROWS};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory, .srcPitch = pitch,
                          .srcXInBytes = 10, .srcY = 5, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out,
                          .dstPitch = WIDTH, .WidthInBytes = 30, .Height = 8};
    CHECK(cuMemcpy2D_v2(&up));
    CHECK(cuMemcpy2D_v2(&down));
    for (int row = 0; row < 8; row++)
        REQUIRE(memcmp(out[row], &in[row + 5][10], 30) == 0);
    CHECK(cuMemFree_v2(memory));
}

/* A library's kernel in a launch, and functions that are asked for by name. */
static void by_name(const char *ptx) {
    CUlibrary library;
    CUkernel scale;
    CUdeviceptr x;
    unsigned n = 4, words[4];
    CUresult (*fill)(CUdeviceptr, unsigned, size_t) = NULL;
    void *none = NULL;
    int status = -1;

    CHECK(cuGetProcAddress_v2("cuMemsetD32", (void **)&fill, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    REQUIRE(fill != NULL && status == 0);
    REQUIRE(cuGetProcAddress_v2("cuNoSuchCall", &none, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status) != 0 ||
            none == NULL);
    CHECK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&scale, library, "scale"));
    CHECK(cuMemAlloc_v2(&x, sizeof words));
    CHECK(fill(x, 0x3f800000, 4));
    /* This module's `factor` was never written. */
    void *parameters[] = {&x, &n};
    CHECK(cuLaunchKernel((CUfunction)scale, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuMemcpyDtoH_v2(words, x, sizeof words));
    REQUIRE(words[0] == 0 && words[3] == 0);
    CHECK(cuMemFree_v2(x));
    CHECK(cuLibraryUnload(library));
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s kernels.ptx\n", argv[0]);
        return 3;
    }
    char *ptx = read_text(argv[1]);
    devices();
    modules(ptx);
    launches();
    sums();
    streams();
    graphs();
    rules();
    pitched();
    by_name(ptx);
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    free(ptx);
    puts("all right");
    return 0;
}
