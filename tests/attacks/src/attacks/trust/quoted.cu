#include "math.h"
#include "quoted.h"
#if __CUDA_ARCH__ >= 100
#include "limits.h"
#endif
#if __has_include("not_there.h")
#include "not_there.h"
#endif

extern "C" __global__ void clamped(const float* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = between(x[i], 0.0f, 1.0f);
}
