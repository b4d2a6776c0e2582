// nvcc: -rdc=true
// Device code in two objects: a function and a variable of the other are linked when the program is loaded.
#include "../common.h"

extern __device__ int scale;
__device__ int apply(int value);

__global__ void run(int *to, int value) { *to = apply(value) + scale; }

int main() {
    int *memory, got = 0, two = 2;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    run<<<1, 1>>>(memory, 5 + mistake());
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 5 * 3 + 3);
    CHECK(cudaMemcpyToSymbol(scale, &two, sizeof two));
    run<<<1, 1>>>(memory, 5);
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 5 * 2 + 2);
    std::puts("all right");
}
