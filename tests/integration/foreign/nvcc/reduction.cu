// Sums by shared memory of a size that the launch chooses, by shuffles, and by atomics; kernels are templates.
#include "common.h"
#include <vector>

template <unsigned Threads, typename T>
__global__ void by_shared(const T *in, T *out, int n, int mistake) {
    extern __shared__ unsigned char raw[];
    T *part = reinterpret_cast<T *>(raw);
    T sum = 0;
    for (int i = blockIdx.x * Threads + threadIdx.x; i < n; i += Threads * gridDim.x) sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = Threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0] + mistake;
}

template <typename T>
__global__ void by_shuffles(const T *in, T *out, int n) {
    T sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

template <unsigned Threads, typename T>
T total(const std::vector<T> &in) {
    const int blocks = 7;
    int n = (int)in.size();
    T *from, *to, *sum;
    CHECK(cudaMalloc(&from, n * sizeof(T)));
    CHECK(cudaMalloc(&to, blocks * sizeof(T)));
    CHECK(cudaMalloc(&sum, sizeof(T)));
    CHECK(cudaMemcpy(from, in.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    by_shared<Threads><<<blocks, Threads, Threads * sizeof(T)>>>(from, to, n, mistake());
    std::vector<T> parts(blocks);
    CHECK(cudaMemcpy(parts.data(), to, blocks * sizeof(T), cudaMemcpyDeviceToHost));
    T result = 0, other = 0;
    for (T part : parts) result += part;
    CHECK(cudaMemset(sum, 0, sizeof(T)));
    by_shuffles<<<3, 64>>>(from, sum, n);
    CHECK(cudaMemcpy(&other, sum, sizeof(T), cudaMemcpyDefault));
    EXPECT(other == result);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    CHECK(cudaFree(sum));
    return result;
}

int main() {
    std::vector<int> ints(5000);
    std::vector<double> doubles(3333);
    long long expected = 0;
    double of_doubles = 0;
    for (size_t i = 0; i < ints.size(); i++) expected += ints[i] = (int)(i % 91) - 40;
    for (size_t i = 0; i < doubles.size(); i++) of_doubles += doubles[i] = 0.25 * (double)(i % 17);
    EXPECT((total<128>(ints)) == expected);
    EXPECT((total<64>(ints)) == expected);
    EXPECT((total<256>(doubles)) == of_doubles);
    std::puts("all right");
}
