// A stencil in three dimensions: each step replaces a value by a weighted sum of its neighbours along the axes.

#include <cuda_runtime.h>

#define RADIUS 4

__constant__ float stencil[RADIUS + 1];

__global__ void step(float *out, float *in, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;

    bool inside = x >= RADIUS && x < nx - RADIUS && y >= RADIUS && y < ny - RADIUS;
    int plane = nx * ny;
    for (int z = 0; z < nz; ++z) {
        int i = z * plane + y * nx + x;
        if (!inside || z < RADIUS || z >= nz - RADIUS) {
            out[i] = in[i];
            continue;
        }
        float sum = stencil[0] * in[i];
        for (int r = 1; r <= RADIUS; ++r) {
            sum += stencil[r] * (in[i - r] + in[i + r] + in[i - r * nx] + in[i + r * nx] + in[i - r * plane] +
                                 in[i + r * plane]);
        }
        out[i] = sum;
    }
}

#ifndef __CUDACC_RTC__
#include <utility>
#include "../check.h"

int main()
{
    const int nx = 50, ny = 40, nz = 30, steps = 5, n = nx * ny * nz;
    const float weights[RADIUS + 1] = {0.4f, 0.04f, 0.03f, 0.02f, 0.01f};
    std::vector<float> values(n);
    for (int i = 0; i < n; ++i) values[i] = i % 11;

    float *now, *next;
    CHECK(cudaMalloc(&now, n * sizeof(float)));
    CHECK(cudaMalloc(&next, n * sizeof(float)));
    CHECK(cudaMemcpy(now, values.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(stencil, weights, sizeof(weights)));

    for (int i = 0; i < steps; ++i) {
        step<<<dim3((nx + 31) / 32, (ny + 7) / 8), dim3(32, 8)>>>(next, now, nx, ny, nz);
        CHECK(cudaGetLastError());
        std::swap(now, next);
    }

    CHECK(cudaMemcpy(values.data(), now, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(now));
    CHECK(cudaFree(next));
    print(values);
}
#endif
