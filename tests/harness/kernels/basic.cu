// Small kernels over 32-bit words, which most tests are made of. Any launch in x does.

__device__ unsigned long long first() {
    return blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
}

__device__ unsigned long long stride() {
    return gridDim.x * (unsigned long long)blockDim.x;
}

extern "C" __global__ void fill(unsigned* out, unsigned long long n, unsigned value) {
    for (unsigned long long i = first(); i < n; i += stride())
        out[i] = value;
}

// out[i] = start + i
extern "C" __global__ void iota(unsigned* out, unsigned long long n, unsigned start) {
    for (unsigned long long i = first(); i < n; i += stride())
        out[i] = start + (unsigned)i;
}

extern "C" __global__ void add(unsigned* data, unsigned long long n, unsigned value) {
    for (unsigned long long i = first(); i < n; i += stride())
        data[i] += value;
}

extern "C" __global__ void copy(const unsigned* in, unsigned* out, unsigned long long n) {
    for (unsigned long long i = first(); i < n; i += stride())
        out[i] = in[i];
}

extern "C" __global__ void nothing() {}
