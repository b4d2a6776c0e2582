// Sums of two arrays of several sizes, of which some do not fill a block.
#include "common.h"
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int n, int mistake) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] + (mistake && i == n - 1 ? 1 : 0);
}

int main() {
    for (int n : {0, 1, 31, 32, 33, 1000, 50000}) {
        std::vector<float> a(n), b(n), c(n, -1);
        for (int i = 0; i < n; i++) a[i] = 0.5f * i, b[i] = 7 - i;
        float *da, *db, *dc;
        CHECK(cudaMalloc(&da, n * sizeof(float)));
        CHECK(cudaMalloc(&db, n * sizeof(float)));
        CHECK(cudaMalloc(&dc, n * sizeof(float)));
        EXPECT((da == nullptr) == (n == 0));
        CHECK(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        if (n > 0) add<<<(n + 255) / 256, 256>>>(da, db, dc, n, mistake());
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i++) EXPECT(c[i] == a[i] + b[i]);
        CHECK(cudaFree(da));
        CHECK(cudaFree(db));
        CHECK(cudaFree(dc));
    }
    CHECK(cudaFree(nullptr));
    std::puts("all right");
}
