// nvcc: -shared -Xcompiler -fPIC
// A shared object with a kernel and a variable whose names another has, too. WHICH tells them apart.
#include "../common.h"

__device__ int state = 10 * WHICH;

static __global__ void kernel(int *to, int mistake) { *to = state + WHICH + mistake; }
__global__ void visible(int *to) { *to = -WHICH; }

extern "C" int compute(int mistake) {
    int *memory, got = -1, other = 0;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    kernel<<<1, 1>>>(memory, mistake);
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    visible<<<1, 1>>>(memory);
    CHECK(cudaMemcpy(&other, memory, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(other == -WHICH);
    CHECK(cudaFree(memory));
    return got;
}
