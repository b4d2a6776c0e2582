// Clusters: a histogram whose bins lie in the shared memory of all blocks of a cluster, and a sum over the blocks of one.
#include "common.h"
#include <cooperative_groups.h>
#include <vector>

namespace cg = cooperative_groups;

// Each block of a cluster keeps `part` bins.
__global__ void histogram(const int *values, int n, int *counts, int part, int mistake) {
    extern __shared__ int bins[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < part; i += blockDim.x) bins[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int *there = cluster.map_shared_rank(bins, values[i] / part);
        atomicAdd(there + values[i] % part, 1 + mistake);
    }
    // A block's bins are there for as long as the block is.
    cluster.sync();
    int first = cluster.block_rank() * part;
    for (int i = threadIdx.x; i < part; i += blockDim.x) atomicAdd(counts + first + i, bins[i]);
}

// The first block of each cluster of 2 by 2 adds up what each has.
__global__ void __cluster_dims__(2, 2, 1) sums(int *out) {
    __shared__ int own;
    cg::cluster_group cluster = cg::this_cluster();
    dim3 at = cluster.block_index();
    if (threadIdx.x == 0) own = 1000 * blockIdx.y + 10 * blockIdx.x + (int)(at.x + 2 * at.y == cluster.block_rank());
    auto token = cluster.barrier_arrive();
    cluster.barrier_wait(std::move(token));
    if (cluster.block_rank() == 0 && threadIdx.x < cluster.num_blocks()) {
        int *there = cluster.map_shared_rank(&own, threadIdx.x);
        if (cluster.query_shared_rank(there) == threadIdx.x)
            atomicAdd(out + blockIdx.x / 2 + gridDim.x / 2 * (blockIdx.y / 2), *there);
    }
    cluster.sync();
}

int main() {
    int has = 0, n = 20000, bins = 256;
    CHECK(cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0));
    EXPECT(has == 1);
    std::vector<int> values(n), wanted(bins), got(bins);
    for (int i = 0; i < n; i++) {
        values[i] = (int)(((unsigned)i * 2654435761u) >> 24);
        wanted[values[i]]++;
    }
    int *data, *counts;
    CHECK(cudaMalloc(&data, n * sizeof(int)));
    CHECK(cudaMalloc(&counts, bins * sizeof(int)));
    CHECK(cudaMemcpy(data, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(96);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int size = 1; size <= 16; size *= 2) {
        config.gridDim = dim3(3 * size);
        config.dynamicSmemBytes = bins / size * sizeof(int);
        attribute.val.clusterDim.x = size;
        CHECK(cudaMemset(counts, 0, bins * sizeof(int)));
        if (size == 16) {
            RETURNS(cudaErrorInvalidClusterSize,
                    cudaLaunchKernelEx(&config, histogram, (const int *)data, n, counts, bins / size, 0));
            EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize);
            CHECK(cudaFuncSetAttribute(histogram, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
        }
        int clusters = 0, most = 0;
        CHECK(cudaOccupancyMaxActiveClusters(&clusters, histogram, &config));
        CHECK(cudaOccupancyMaxPotentialClusterSize(&most, histogram, &config));
        EXPECT(clusters >= 3 && most == (size == 16 ? 16 : 8));
        CHECK(cudaLaunchKernelEx(&config, histogram, (const int *)data, n, counts, bins / size, mistake()));
        CHECK(cudaMemcpy(got.data(), counts, bins * sizeof(int), cudaMemcpyDeviceToHost));
        for (int bin = 0; bin < bins; bin++) EXPECT(got[bin] == wanted[bin]);
    }
    config.gridDim = dim3(10);
    attribute.val.clusterDim.x = 4;
    RETURNS(cudaErrorInvalidClusterSize,
            cudaLaunchKernelEx(&config, histogram, (const int *)data, n, counts, bins / 4, 0));
    EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize);

    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, sums));
    EXPECT(attributes.requiredClusterWidth == 2 && attributes.requiredClusterHeight == 2);
    EXPECT(attributes.requiredClusterDepth == 1);
    CHECK(cudaMemset(counts, 0, bins * sizeof(int)));
    sums<<<dim3(6, 4), 64>>>(counts);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), counts, 6 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 3; x++) EXPECT(got[x + 3 * y] == 4 * (1000 * 2 * y + 10 * 2 * x + 1) + 2000 + 20);
    std::puts("all right");
}
