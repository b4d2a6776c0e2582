// A child of a process that has used the device cannot use it; one of a process that has not, can.
#include "common.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void store(int *to, int value) { *to = value; }

static int use() {
    int *memory, got = -1;
    CHECK(cudaMalloc(&memory, sizeof(int)));
    store<<<1, 1>>>(memory, 9 + mistake());
    CHECK(cudaMemcpy(&got, memory, sizeof got, cudaMemcpyDeviceToHost));
    return got;
}

static int ended(pid_t child) {
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int main() {
    pid_t before = fork();
    if (before == 0) std::_Exit(use() == 9 ? 0 : 1);
    EXPECT(ended(before) == 0);
    EXPECT(use() == 9);
    pid_t after = fork();
    if (after == 0) {
        void *memory;
        std::_Exit(cudaMalloc(&memory, 4) == cudaErrorInitializationError ? 0 : 1);
    }
    EXPECT(ended(after) == 0);
    EXPECT(use() == 9);
    std::puts("all right");
}
