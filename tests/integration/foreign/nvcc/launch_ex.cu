// Launches with attributes, through kernel handles, and of a library that the program loads.
#include "common.h"

__global__ void store(int *to, int value, double scale) { *to = (int)(value * scale) + gridDim.x; }

static const char ptx[] =
    ".version 8.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 kept = 11;\n"
    ".visible .entry load(.param .u64 to) {\n"
    ".reg .b64 %a;\n.reg .b32 %v;\nld.param.u64 %a, [to];\ncvta.to.global.u64 %a, %a;\n"
    "ld.global.u32 %v, [kept];\nst.global.u32 [%a], %v;\nret;\n}\n";

int main() {
    int *memory, got = 0;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(3);
    config.blockDim = dim3(1);
    config.stream = stream;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributePriority;
    attribute.val.priority = 0;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, store, memory, 10 + mistake(), 2.0));
    CHECK(cudaMemcpyAsync(&got, memory, sizeof got, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(got == 23);
    cudaKernel_t kernel;
    CHECK(cudaGetKernel(&kernel, store));
    const char *name = nullptr;
    CHECK(cudaFuncGetName(&name, (const void *)store));
    EXPECT(name != nullptr && name[0] == '_');
    int value = 4;
    double scale = 0.5;
    void *arguments[] = {&memory, &value, &scale};
    CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1), arguments, 0, 0));
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 3);
    config.gridDim = dim3(0);
    REFUSED(cudaLaunchKernelEx(&config, store, memory, 1, 1.0));
    cudaLibrary_t library;
    CHECK(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaLibraryGetKernel(&kernel, library, "load"));
    CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1), arguments, 0, 0));
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 11);
    RETURNS(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&kernel, library, "none"));
    CHECK(cudaLibraryUnload(library));
    // A driver that loads lazily may find out at the first look-up.
    cudaError_t loaded = cudaLibraryLoadData(&library, "no image", nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (loaded == cudaSuccess) loaded = cudaLibraryGetKernel(&kernel, library, "none");
    RETURNS(cudaErrorInvalidKernelImage, loaded);
    std::puts("all right");
}
