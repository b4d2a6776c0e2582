// Solves A x = b for a sparse, symmetric, positive definite matrix in one launch: all blocks wait for each other.

#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

#define BLOCK 256

// Adds the scalar product of a and b to *result, which is 0.
__device__ void addDot(double *result, float *a, float *b, int n, const cg::grid_group &grid)
{
    __shared__ double part[BLOCK];
    double sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += (double)a[i] * b[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(result, part[0]);
    grid.sync();
}

// x is 0 and r is b in the beginning. dots has 2 * most + 1 zeros.
__global__ void conjugateGradient(int *rows, int *columns, float *values, float *x, float *r, float *p, float *Ap,
                                  double *dots, int n, int most, double tolerance)
{
    cg::grid_group grid = cg::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) p[i] = r[i];
    addDot(&dots[0], r, r, n, grid);

    for (int step = 0; step < most && dots[2 * step] > tolerance * tolerance; ++step) {
        for (int i = grid.thread_rank(); i < n; i += grid.size()) {
            float sum = 0;
            for (int k = rows[i]; k < rows[i + 1]; ++k) sum += values[k] * p[columns[k]];
            Ap[i] = sum;
        }
        grid.sync();
        addDot(&dots[2 * step + 1], p, Ap, n, grid);

        float alpha = dots[2 * step] / dots[2 * step + 1];
        for (int i = grid.thread_rank(); i < n; i += grid.size()) {
            x[i] += alpha * p[i];
            r[i] -= alpha * Ap[i];
        }
        grid.sync();
        addDot(&dots[2 * step + 2], r, r, n, grid);

        float beta = dots[2 * step + 2] / dots[2 * step];
        for (int i = grid.thread_rank(); i < n; i += grid.size()) p[i] = r[i] + beta * p[i];
        grid.sync();
    }
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    int n = 10000, most = 100;
    double tolerance = 1e-4;
    std::vector<int> rows(1), columns;
    std::vector<float> values, b(n), x(n);
    for (int i = 0; i < n; ++i) {
        for (int k = i - 1; k <= i + 1; ++k) {
            if (k < 0 || k >= n) continue;
            columns.push_back(k);
            values.push_back(k == i ? 4 : -1);
            b[i] += values.back() * (1 + k % 3);
        }
        rows.push_back(columns.size());
    }

    int *dRows, *dColumns;
    float *dValues, *dX, *r, *p, *Ap;
    double *dots;
    CHECK(cudaMalloc(&dRows, rows.size() * sizeof(int)));
    CHECK(cudaMalloc(&dColumns, columns.size() * sizeof(int)));
    CHECK(cudaMalloc(&dValues, values.size() * sizeof(float)));
    CHECK(cudaMalloc(&dX, n * sizeof(float)));
    CHECK(cudaMalloc(&r, n * sizeof(float)));
    CHECK(cudaMalloc(&p, n * sizeof(float)));
    CHECK(cudaMalloc(&Ap, n * sizeof(float)));
    CHECK(cudaMalloc(&dots, (2 * most + 1) * sizeof(double)));
    CHECK(cudaMemcpy(dRows, rows.data(), rows.size() * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dColumns, columns.data(), columns.size() * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dValues, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(r, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dX, 0, n * sizeof(float)));
    CHECK(cudaMemset(dots, 0, (2 * most + 1) * sizeof(double)));

    int blocks, processors;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, conjugateGradient, BLOCK, 0));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    void *arguments[] = {&dRows, &dColumns, &dValues, &dX, &r, &p, &Ap, &dots, &n, &most, &tolerance};
    CHECK(cudaLaunchCooperativeKernel(conjugateGradient, blocks * processors, BLOCK, arguments, 0, 0));

    CHECK(cudaMemcpy(x.data(), dX, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dRows));
    CHECK(cudaFree(dColumns));
    CHECK(cudaFree(dValues));
    CHECK(cudaFree(dX));
    CHECK(cudaFree(r));
    CHECK(cudaFree(p));
    CHECK(cudaFree(Ap));
    CHECK(cudaFree(dots));
    print(x);
}
#endif
