// A cooperative launch: blocks wait for each other at the grid's barrier; and groups of threads in a block.
#include "common.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <vector>

namespace cg = cooperative_groups;

__global__ void rounds(int *values, int *next, int n, int mistake) {
    cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < 3; round++) {
        for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size())
            next[i] = values[i] + values[(i + 1) % n] + mistake;
        grid.sync();
        int *old = values;
        values = next;
        next = old;
    }
}

__global__ void tiles(int *sums) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
    if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = sum;
}

int main() {
    int supported = 0, n = 1000;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    EXPECT(supported == 1);
    std::vector<int> values(n), got(n);
    for (int i = 0; i < n; i++) values[i] = i % 13;
    int *a, *b, wrong = mistake();
    CHECK(cudaMalloc(&a, n * sizeof(int)));
    CHECK(cudaMalloc(&b, n * sizeof(int)));
    CHECK(cudaMemcpy(a, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    void *arguments[] = {&a, &b, &n, &wrong};
    CHECK(cudaLaunchCooperativeKernel((void *)rounds, dim3(4), dim3(64), arguments, 0, 0));
    CHECK(cudaMemcpy(got.data(), b, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int round = 0; round < 3; round++) {
        std::vector<int> next(n);
        for (int i = 0; i < n; i++) next[i] = values[i] + values[(i + 1) % n];
        values = next;
    }
    for (int i = 0; i < n; i++) EXPECT(got[i] == values[i]);
    RETURNS(cudaErrorCooperativeLaunchTooLarge,
            cudaLaunchCooperativeKernel((void *)rounds, dim3(1 << 20), dim3(64), arguments, 0, 0));
    EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
    tiles<<<1, 64>>>(a);
    CHECK(cudaMemcpy(got.data(), a, 8 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int t = 0; t < 8; t++) EXPECT(got[t] == 8 * (8 * t) + 28);
    std::puts("all right");
}
