// Constants and variables of the device, by their symbols.
#include "common.h"

__constant__ float weights[5];
__device__ int counters[4] = {1, 2, 3, 4};
__device__ float *indirect;
namespace inside { static __device__ short hidden = -9; }
static int of_the_host = 0;

__global__ void use(float *out, int mistake) {
    out[threadIdx.x] = weights[threadIdx.x] * 2 + mistake;
    if (threadIdx.x < 4) counters[threadIdx.x] += 100;
    if (threadIdx.x == 0) *indirect = inside::hidden;
}

int main() {
    float given[5] = {1, 2, 3, 4, 5}, got[5], *out, *single;
    CHECK(cudaMalloc(&out, sizeof got));
    CHECK(cudaMalloc(&single, sizeof *single));
    CHECK(cudaMemcpyToSymbol(weights, given, 2 * sizeof(float)));
    CHECK(cudaMemcpyToSymbol(weights, given + 2, 3 * sizeof(float), 2 * sizeof(float)));
    CHECK(cudaMemcpyToSymbolAsync(indirect, &single, sizeof single, 0, cudaMemcpyHostToDevice, 0));
    use<<<1, 5>>>(out, mistake());
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 5; i++) EXPECT(got[i] == 2 * given[i]);
    int all[4], last;
    CHECK(cudaMemcpyFromSymbol(all, counters, sizeof all));
    CHECK(cudaMemcpyFromSymbol(&last, counters, sizeof last, 3 * sizeof(int)));
    for (int i = 0; i < 4; i++) EXPECT(all[i] == i + 101);
    EXPECT(last == 104);
    float minus = 0;
    CHECK(cudaMemcpy(&minus, single, sizeof minus, cudaMemcpyDeviceToHost));
    EXPECT(minus == -9);
    size_t size = 0;
    void *address = nullptr;
    CHECK(cudaGetSymbolSize(&size, counters));
    EXPECT(size == sizeof all);
    CHECK(cudaGetSymbolAddress(&address, counters));
    CHECK(cudaMemset(address, 0, sizeof all));
    CHECK(cudaMemcpyFromSymbol(&last, counters, sizeof last));
    EXPECT(last == 0);
    RETURNS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, of_the_host));
    RETURNS(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(of_the_host, &last, sizeof last));
    RETURNS(cudaErrorInvalidValue, cudaMemcpyToSymbol(counters, all, sizeof all, 4));
    RETURNS(cudaErrorInvalidMemcpyDirection,
            cudaMemcpyToSymbol(counters, all, sizeof all, 0, cudaMemcpyDeviceToHost));
    std::puts("all right");
}
