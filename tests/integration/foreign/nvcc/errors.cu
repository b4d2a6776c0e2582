// Codes of calls that are wrong, and the last error of a thread.
#include "common.h"
#include <cstring>
#include <thread>

__global__ void store(int *out, int mistake) { *out = 41 + mistake; }
static void no_kernel(int *) {}

int main() {
    int *out, got = 0, device = 0;
    CHECK(cudaMalloc(&out, sizeof(int)));
    void *arguments[] = {&out};
    // No kernel: 98. NVIDIA's runtime 13.0 takes every address that it does not know for a kernel's handle: 400.
    cudaError_t unknown = cudaLaunchKernel((void *)no_kernel, dim3(1), dim3(1), arguments, 0, 0);
    EXPECT(unknown == cudaErrorInvalidDeviceFunction || unknown == cudaErrorInvalidResourceHandle);
    EXPECT(cudaPeekAtLastError() == unknown);
    // Errors are a thread's own.
    std::thread([] { EXPECT(cudaGetLastError() == cudaSuccess); }).join();
    EXPECT(cudaGetLastError() == unknown);
    EXPECT(cudaGetLastError() == cudaSuccess);
    store<<<0, 1>>>(out, 0);
    REFUSED(cudaGetLastError());
    store<<<1, 0>>>(out, 0);
    REFUSED(cudaGetLastError());
    store<<<1, 2000>>>(out, 0);
    REFUSED(cudaGetLastError());
    store<<<dim3(1, 70000), 1>>>(out, 0);
    REFUSED(cudaGetLastError());
    store<<<1, dim3(1, 1, 65)>>>(out, 0);
    REFUSED(cudaGetLastError());
    RETURNS(cudaErrorInvalidValue, cudaMalloc(nullptr, 4));
    RETURNS(cudaErrorInvalidValue, cudaMallocHost((void **)nullptr, 4));
    RETURNS(cudaErrorInvalidValue, cudaSetValidDevices(&device, 1000));
    RETURNS(cudaSuccess, cudaSetValidDevices(nullptr, 0));
    RETURNS(cudaErrorMemoryAllocation, cudaMalloc(&arguments[0], (size_t)1 << 60));
    RETURNS(cudaErrorInvalidValue, cudaMemcpy(&got, out, 1 << 20, cudaMemcpyDeviceToHost));
    RETURNS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(&got, out, 4, (cudaMemcpyKind)9));
    RETURNS(cudaErrorInvalidDevice, cudaSetDevice(77));
    RETURNS(cudaErrorInvalidDevice, cudaSetDevice(-1));
    RETURNS(cudaErrorInvalidValue, cudaGetDeviceCount(nullptr));
    int value;
    RETURNS(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
    cudaDeviceProp properties;
    RETURNS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, 99));
    // An error of a call does not change the device's state.
    EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
    store<<<1, 1>>>(out, mistake());
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 41);
    EXPECT(!std::strcmp(cudaGetErrorName(cudaErrorInvalidSymbol), "cudaErrorInvalidSymbol"));
    EXPECT(!std::strcmp(cudaGetErrorString(cudaErrorInvalidSymbol), "invalid device symbol"));
    EXPECT(!std::strcmp(cudaGetErrorString(cudaSuccess), "no error"));
    EXPECT(!std::strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code"));
    CHECK(cudaFree(out));
    RETURNS(cudaErrorInvalidValue, cudaFree(out));
    std::puts("all right");
}
