// The first calls of eight threads, at once: each uses the same kernels, variables and device.
#include "common.h"
#include <atomic>
#include <thread>
#include <vector>

__device__ int total;
__managed__ int shared_count;

template <int Which>
__global__ void add(int *own, int mistake) {
    atomicAdd(&total, 1 + mistake);
    atomicAdd(&shared_count, 1);
    *own = Which;
}

static std::atomic<bool> go{false};

template <int Which>
static void work() {
    while (!go) {}
    int *own, got = -1;
    CHECK(cudaMalloc(&own, sizeof(int)));
    for (int i = 0; i < 10; i++) {
        add<Which><<<2, 16>>>(own, mistake());
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(&got, own, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == Which);
    CHECK(cudaFree(own));
}

int main() {
    std::vector<std::thread> threads;
    threads.emplace_back(work<0>);
    threads.emplace_back(work<1>);
    threads.emplace_back(work<2>);
    threads.emplace_back(work<3>);
    threads.emplace_back(work<4>);
    threads.emplace_back(work<4>);
    threads.emplace_back(work<0>);
    threads.emplace_back(work<1>);
    go = true;
    for (auto &thread : threads) thread.join();
    int got = 0;
    CHECK(cudaMemcpyFromSymbol(&got, total, sizeof got));
    EXPECT(got == 8 * 10 * 32);
    EXPECT(shared_count == got);
    std::puts("all right");
}
