// Managed memory and managed variables, which the host and the device use in turn.
#include "common.h"

__managed__ int counter = 5;
__managed__ double table[3] = {1, 2, 3};
struct Node { int value; Node *next; };

__global__ void walk(Node *first, int *sum, int mistake) {
    for (Node *node = first; node != nullptr; node = node->next) *sum += node->value;
    counter += 10 + mistake;
    table[1] *= 4;
}

int main() {
    // The first use is the host's.
    EXPECT(counter == 5 && table[2] == 3);
    counter = 7;
    Node *nodes;
    int *sum;
    CHECK(cudaMallocManaged(&nodes, 3 * sizeof(Node)));
    CHECK(cudaMallocManaged(&sum, sizeof(int), cudaMemAttachGlobal));
    int *none = sum;
    CHECK(cudaMallocManaged(&none, 0));
    EXPECT(none == nullptr);
    RETURNS(cudaErrorInvalidValue, cudaMallocManaged(&none, 4, 0));
    for (int i = 0; i < 3; i++) nodes[i] = {10 * i + 1, i < 2 ? &nodes[i + 1] : nullptr};
    *sum = 0;
    walk<<<1, 1>>>(nodes, sum, mistake());
    CHECK(cudaDeviceSynchronize());
    EXPECT(*sum == 33 && counter == 17 && table[1] == 8);
    cudaPointerAttributes of;
    CHECK(cudaPointerGetAttributes(&of, sum));
    EXPECT(of.type == cudaMemoryTypeManaged && of.devicePointer == sum && of.hostPointer == sum);
    int *address = nullptr;
    CHECK(cudaGetSymbolAddress((void **)&address, counter));
    EXPECT(address == &counter);
    int copied = 0;
    CHECK(cudaMemcpyFromSymbol(&copied, counter, sizeof copied));
    EXPECT(copied == 17);
    cudaMemLocation device = {}, host = {};
    device.type = cudaMemLocationTypeDevice;
    host.type = cudaMemLocationTypeHost;
    const size_t bytes = 3 * sizeof(Node);
    CHECK(cudaMemAdvise(nodes, bytes, cudaMemAdviseSetAccessedBy, device));
    CHECK(cudaMemPrefetchAsync(nodes, bytes, device, 0, 0));
    int by[2], last;
    CHECK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, nodes, bytes));
    EXPECT(by[0] == 0 && by[1] == cudaInvalidDeviceId);
    // Batches are for streams other than the legacy one.
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    void *both[] = {nodes, sum};
    size_t sizes[] = {bytes, sizeof(int)}, first = 0;
    CHECK(cudaMemDiscardBatchAsync(both, sizes, 2, 0, stream));
    CHECK(cudaMemDiscardAndPrefetchBatchAsync(both, sizes, 2, &host, &first, 1, 0, stream));
    CHECK(cudaMemRangeGetAttribute(&last, sizeof last, cudaMemRangeAttributeLastPrefetchLocation, nodes, bytes));
    EXPECT(last == cudaCpuDeviceId);
    CHECK(cudaMemPrefetchBatchAsync(both, sizes, 2, &device, &first, 1, 0, cudaStreamPerThread));
    CHECK(cudaMemRangeGetAttribute(&last, sizeof last, cudaMemRangeAttributeLastPrefetchLocation, sum, sizeof *sum));
    EXPECT(last == 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(nodes));
    CHECK(cudaFree(sum));
    std::puts("all right");
}
