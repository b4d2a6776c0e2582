// nvcc: --extended-lambda
// Kernels that are templates, take structs and lambdas, and are launched in the arguments of a launch.
#include "common.h"
#include <vector>

template <typename T, int N>
struct Vector { T at[N]; };

template <typename T, int N>
__global__ void dot(const Vector<T, N> *a, Vector<T, N> b, T *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T sum = 0;
    for (int k = 0; k < N; k++) sum += a[i].at[k] * b.at[k];
    out[i] = sum;
}

template <typename F>
__global__ void each(int *values, int n, F act) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = act(i);
}

template <typename T, int N>
void check_dot() {
    const int n = 33;
    std::vector<Vector<T, N>> a(n);
    Vector<T, N> b;
    for (int k = 0; k < N; k++) b.at[k] = (T)(k + 1);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < N; k++) a[i].at[k] = (T)((i + k) % 7);
    Vector<T, N> *da;
    T *out;
    CHECK(cudaMalloc(&da, n * sizeof a[0]));
    CHECK(cudaMalloc(&out, n * sizeof(T)));
    CHECK(cudaMemcpy(da, a.data(), n * sizeof a[0], cudaMemcpyHostToDevice));
    if (mistake()) b.at[0] += 1;
    dot<T, N><<<2, 32>>>(da, b, out, n);
    if (mistake()) b.at[0] -= 1;
    std::vector<T> got(n);
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(T), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        T sum = 0;
        for (int k = 0; k < N; k++) sum += a[i].at[k] * b.at[k];
        EXPECT(got[i] == sum);
    }
    CHECK(cudaFree(da));
    CHECK(cudaFree(out));
}

static int *nested(int *values) {
    each<<<1, 32>>>(values, 8, [] __device__(int i) { return -i; });
    return values;
}

int main() {
    check_dot<float, 1>();
    check_dot<float, 4>();
    check_dot<double, 3>();
    check_dot<long long, 7>();
    int *values, got[40], from = 1000;
    CHECK(cudaMalloc(&values, sizeof got));
    each<<<1, 32>>>(nested(values) + 8, 32, [=] __device__(int i) { return from + i; });
    CHECK(cudaMemcpy(got, values, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++) EXPECT(got[i] == -i);
    for (int i = 0; i < 32; i++) EXPECT(got[8 + i] == 1000 + i);
    std::puts("all right");
}
