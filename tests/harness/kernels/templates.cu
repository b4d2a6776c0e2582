// Names: templates, overloads, namespaces; and variables of a module.

template <class T>
__global__ void axpy(T a, const T* x, T* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

namespace math {
template <int N>
__global__ void times(int* x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= N;
}
} // namespace math

// One function of its name, and two of another.
__global__ void lonely(int* x) {
    x[threadIdx.x] = 7;
}
__global__ void twin(int* x) {
    x[threadIdx.x] = 8;
}
__global__ void twin(float* x) {
    x[threadIdx.x] = 9;
}

extern "C" {
__device__ unsigned counters[4] = {10, 20, 30, 40};
__constant__ float weights[8];
__device__ double scale = 0.5;
__device__ unsigned char odd[3];

__global__ void count(unsigned value) {
    atomicAdd(&counters[threadIdx.x % 4], value);
}

__global__ void weigh(float* out) {
    out[threadIdx.x] = (float)(weights[threadIdx.x % 8] * scale) + odd[0];
}
}
