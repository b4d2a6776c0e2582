__device__ int scale = 3;
__device__ int apply(int value) { return value * scale; }
