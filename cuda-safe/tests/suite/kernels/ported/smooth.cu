// A file as nvcc takes it: headers of the host and of CUDA's runtime, its own headers, and a host half.
#include <assert.h>
#include <stdio.h>
#include <cstdint>
#include "cuda_runtime.h"
#include <device_launch_parameters.h>

#include "lib/weights.h"
#include "shared.h"

#ifndef __CUDACC_RTC__
#include <vector>
#include "host_only.h"
#endif

// y[i] = the weighted sum of three neighbours; the ends count twice.
__global__ void smooth(const float* x, float* y, uint n) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    assert(y != NULL);
    float left = x[i > 0 ? i - 1 : 0], right = x[i + 1 < n ? i + 1 : i];
    y[i] = weighted(left, x[i], right);
}

template <class T>
__global__ void clamp_all(T* x, uint32_t n, T limit) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > limit) x[i] = limit;
}

#ifndef __CUDACC_RTC__
int main() {
    std::vector<float> x(100);
    smooth<<<1, 128>>>(x.data(), x.data(), 100);
    cudaDeviceSynchronize();
    return 0;
}
#endif
