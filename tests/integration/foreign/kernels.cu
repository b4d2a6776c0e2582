// What all foreign programs launch. PLANTED makes one kernel wrong, which each program must notice.

#ifndef PLANTED
#define PLANTED 0
#endif

extern "C" {
__constant__ float factor;
__device__ unsigned blocks_done;
}

__device__ unsigned index() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned n) {
    unsigned i = index();
    if (i < n)
        y[i] = PLANTED == 1 && i == n - 1 ? a * x[i] : a * x[i] + y[i];
}

extern "C" __global__ void scale(float* x, unsigned n) {
    unsigned i = index();
    if (i < n)
        x[i] *= PLANTED == 2 ? 1.0f : factor;
}

// One sum for each block, in dynamic shared memory of a word for each thread.
extern "C" __global__ void block_sums(const unsigned* x, unsigned* sums, unsigned n) {
    extern __shared__ unsigned words[];
    unsigned i = index(), thread = threadIdx.x;
    words[thread] = i < n ? x[i] : 0;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > (PLANTED == 3); half /= 2) {
        if (thread < half)
            words[thread] += words[thread + half];
        __syncthreads();
    }
    if (thread == 0) {
        sums[blockIdx.x] = words[0];
        atomicAdd(&blocks_done, 1u);
    }
}
