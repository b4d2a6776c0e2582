// CUB: a sum of the device, one of a block, and a scan of a warp.
#include "common.h"
#include <cub/block/block_reduce.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <vector>

__global__ void in_block(const int *in, int *sum, int *scanned) {
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::WarpScan<int>;
    __shared__ typename Reduce::TempStorage reduce;
    __shared__ typename Scan::TempStorage scan[4];
    int total = Reduce(reduce).Sum(in[threadIdx.x]);
    if (threadIdx.x == 0) *sum = total;
    Scan(scan[threadIdx.x / 32]).InclusiveSum(in[threadIdx.x], scanned[threadIdx.x]);
}

int main() {
    const int n = 5000;
    std::vector<int> values(n);
    int expected = mistake(), block = 0, got[2] = {};
    for (int i = 0; i < n; i++) expected += values[i] = i % 37 - 9;
    for (int i = 0; i < 128; i++) block += values[i];
    int *in, *out, *scanned;
    CHECK(cudaMalloc(&in, n * sizeof(int)));
    CHECK(cudaMalloc(&out, 2 * sizeof(int)));
    CHECK(cudaMalloc(&scanned, 128 * sizeof(int)));
    CHECK(cudaMemcpy(in, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    void *scratch = nullptr;
    size_t bytes = 0;
    CHECK(cub::DeviceReduce::Sum(scratch, bytes, in, out, n));
    CHECK(cudaMalloc(&scratch, bytes));
    CHECK(cub::DeviceReduce::Sum(scratch, bytes, in, out, n));
    in_block<<<1, 128>>>(in, out + 1, scanned);
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == expected && got[1] == block);
    int prefix[128], running = 0;
    CHECK(cudaMemcpy(prefix, scanned, sizeof prefix, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 128; i++) {
        running = (i % 32 ? running : 0) + values[i];
        EXPECT(prefix[i] == running);
    }
    std::puts("all right");
}
