// Device functions that other files call: nvcc -rdc=true.

#include "functions.h"

__constant__ float coefficients[3] = {1, -2, 0.5f};

__device__ float polynomial(float x) { return coefficients[0] + x * (coefficients[1] + x * coefficients[2]); }

__device__ float rounded(float x) { return rintf(x); }
