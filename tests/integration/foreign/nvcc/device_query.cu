// What a device says of itself: properties, attributes, limits, versions, functions of the driver.
#include "common.h"
#include <cstring>

__global__ void sizes(int *out, int mistake) { *out = warpSize + mistake; }

int main() {
    int count = 0, device = -1, value = 0, driver = 0, runtime = 0;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    CHECK(cudaGetDevice(&device));
    EXPECT(device == 0);
    cudaDeviceProp of;
    std::memset(&of, 0xee, sizeof of);
    CHECK(cudaGetDeviceProperties(&of, 0));
    EXPECT(std::strlen(of.name) > 0 && of.warpSize == 32 && of.major >= 7);
    const struct { cudaDeviceAttr attribute; long long property; } pairs[] = {
        {cudaDevAttrMaxThreadsPerBlock, of.maxThreadsPerBlock},
        {cudaDevAttrMaxGridDimX, of.maxGridSize[0]},
        {cudaDevAttrMaxBlockDimZ, of.maxThreadsDim[2]},
        {cudaDevAttrMultiProcessorCount, of.multiProcessorCount},
        {cudaDevAttrComputeCapabilityMinor, of.minor},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (long long)of.sharedMemPerBlockOptin},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (long long)of.sharedMemPerMultiprocessor},
        {cudaDevAttrL2CacheSize, of.l2CacheSize},
        {cudaDevAttrManagedMemory, of.managedMemory},
        {cudaDevAttrMaxBlocksPerMultiprocessor, of.maxBlocksPerMultiProcessor},
        {cudaDevAttrTotalConstantMemory, (long long)of.totalConstMem},
        {cudaDevAttrPciBusId, of.pciBusID},
        {cudaDevAttrClusterLaunch, of.clusterLaunch},
    };
    for (auto &pair : pairs) {
        CHECK(cudaDeviceGetAttribute(&value, pair.attribute, 0));
        EXPECT(value == pair.property);
    }
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    EXPECT(driver >= 12000 && runtime / 1000 == CUDART_VERSION / 1000);
    size_t free = 0, total = 0, limit = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    EXPECT(free > 0 && free <= total && total == of.totalGlobalMem);
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
    EXPECT(limit >= 1 << 20);
    char bus[32] = "";
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK(cudaDeviceGetByPCIBusId(&value, bus));
    EXPECT(value == 0);
    void *function = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", &function, 12000, cudaEnableDefault, &status));
    EXPECT(status == cudaDriverEntryPointSuccess && function != nullptr);
    EXPECT(((int (*)(int *))function)(&value) == 0 && value == driver);
    CHECK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 12000, cudaEnableDefault, &status));
    EXPECT(status == cudaDriverEntryPointSymbolNotFound && function == nullptr);
    unsigned flags = 0;
    CHECK(cudaGetDeviceFlags(&flags));
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    int *out, got = 0;
    CHECK(cudaMalloc(&out, sizeof(int)));
    sizes<<<1, 1>>>(out, mistake());
    CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == of.warpSize);
    std::puts("all right");
}
