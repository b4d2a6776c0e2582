// What the C++ hosts share: a check of each call, and the output.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                          \
    do {                                                                                     \
        cudaError_t error = (call);                                                          \
        if (error != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

// Prints the number of values, and the first, the middle and the last one.
inline void print(const std::vector<float> &values)
{
    size_t n = values.size();
    std::printf("%zu values: %.4e %.4e %.4e\n", n, values[0], values[n / 2], values[n - 1]);
}
