// Functions of the host in streams. They must not call the runtime.
#include "common.h"
#include <atomic>

__global__ void store(int *out, int value) { *out = value; }

static std::atomic<int> seen{0}, inside{-1}, callback_status{-1};

static void look(void *data) {
    seen = *(int *)data;
    void *memory;
    inside = cudaMalloc(&memory, 16);
}

static void CUDART_CB called(cudaStream_t, cudaError_t status, void *data) {
    callback_status = status + *(int *)data;
}

int main() {
    int *mapped, *device, plus = 100;
    CHECK(cudaHostAlloc(&mapped, sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device, mapped, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    store<<<1, 1, 0, stream>>>(device, 77 + mistake());
    CHECK(cudaLaunchHostFunc(stream, look, mapped));
    CHECK(cudaStreamAddCallback(stream, called, &plus, 0));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(seen == 77);
    EXPECT(inside == cudaErrorNotPermitted);
    EXPECT(callback_status == 100);
    // Memory of the program's, registered.
    static int own[1024];
    CHECK(cudaHostRegister(own, sizeof own, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, own, 0));
    store<<<1, 1, 0, stream>>>(device + 5, 6);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(own[5] == 6);
    cudaPointerAttributes of;
    CHECK(cudaPointerGetAttributes(&of, own));
    EXPECT(of.type == cudaMemoryTypeHost && of.hostPointer == own);
    CHECK(cudaHostUnregister(own));
    CHECK(cudaPointerGetAttributes(&of, &plus));
    EXPECT(of.type == cudaMemoryTypeUnregistered && of.devicePointer == nullptr);
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, mapped));
    EXPECT(flags & cudaHostAllocMapped);
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaStreamDestroy(stream));
    std::puts("all right");
}
