// After a fault of a kernel each call fails with its code, until the process ends.
#include "common.h"

__global__ void write(int *to, int value) { *to = value; }

int main() {
    int *memory, got = 0;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    write<<<1, 1>>>(memory, 5 + mistake());
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 5);
    write<<<1, 1>>>((int *)16, 1);
    cudaError_t code = cudaDeviceSynchronize();
    EXPECT(code == cudaErrorIllegalAddress);
    EXPECT(cudaGetLastError() == code);
    RETURNS(code, cudaDeviceSynchronize());
    RETURNS(code, cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    RETURNS(code, cudaMalloc(&memory, 4));
    write<<<1, 1>>>(memory, 1);
    EXPECT(cudaGetLastError() == code);
    std::puts("all right");
}
