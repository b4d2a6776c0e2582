// Text that kernels print, and an assertion that fails.
#include "common.h"
#include <cassert>
#include <cstring>
#include <unistd.h>

__global__ void speak(int mistake) { printf("thread %d of %s: %.2f\n", threadIdx.x + mistake, "speak", 1.5); }
__global__ void claim(int x) { assert(x == 3); }

int main() {
    std::fflush(stdout);
    int kept = dup(1), ends[2];
    EXPECT(pipe(ends) == 0);
    EXPECT(dup2(ends[1], 1) == 1);
    speak<<<1, 2>>>(mistake());
    cudaError_t done = cudaDeviceSynchronize();
    std::fflush(stdout);
    EXPECT(dup2(kept, 1) == 1);
    close(ends[1]);
    char text[200] = "";
    ssize_t count = read(ends[0], text, sizeof text - 1);
    CHECK(done);
    EXPECT(count > 0);
    EXPECT(!std::strcmp(text, "thread 0 of speak: 1.50\nthread 1 of speak: 1.50\n"));
    claim<<<1, 1>>>(3);
    CHECK(cudaDeviceSynchronize());
    claim<<<1, 1>>>(4);
    RETURNS(cudaErrorAssert, cudaDeviceSynchronize());
    RETURNS(cudaErrorAssert, cudaDeviceSynchronize());
    std::puts("all right");
}
