// nvcc: -lcuda
// What a launch by the runtime costs the host above a launch by the driver's function, in nanoseconds. Batches of both are
// interleaved; the queue of the device is never full. `runtime.sh` of the GPU bundle runs it with each library.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

__global__ void nothing(int *, int, float) {}

static void check(int code, const char *what) {
    if (code == 0) return;
    std::printf("%s: %d\n", what, code);
    std::exit(1);
}

template <typename Launch> static double nanoseconds(int launches, Launch launch) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; i++) launch(i);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return took.count() / launches;
}

static double median(std::vector<double> &values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

int main() {
    const int launches = 400, rounds = 401;
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cudaFunction_t function;
    check(cudaGetFuncBySymbol(&function, (const void *)nothing), "cudaGetFuncBySymbol");
    int *pointer = nullptr;
    cudaKernel_t kernel;
    check(cudaGetKernel(&kernel, (const void *)nothing), "cudaGetKernel");
    // The driver takes kernels, which belong to no context, in place of functions.
    auto driver = [&](int i, void *launched) {
        float x = 1;
        void *arguments[] = {&pointer, &i, &x};
        check(cuLaunchKernel((CUfunction)launched, 1, 1, 1, 32, 1, 1, 0, (CUstream)stream, arguments, nullptr), "cuLaunchKernel");
    };
    auto runtime = [&](int i) {
        nothing<<<1, 32, 0, stream>>>(pointer, i, 1);
        check(cudaGetLastError(), "launch");
    };
    auto by_function = [&](int i) { driver(i, function); };
    auto by_kernel = [&](int i) { driver(i, kernel); };
    std::vector<double> by_driver, by_runtime, above, of_kernel, same;
    for (int round = 0; round < rounds; round++) {
        double d = nanoseconds(launches, by_function), r = nanoseconds(launches, runtime);
        double k = nanoseconds(launches, by_kernel), again = nanoseconds(launches, by_function);
        if (round < rounds / 10) continue;
        by_driver.push_back(d), by_runtime.push_back(r), above.push_back(r - d), of_kernel.push_back(k - d), same.push_back(again - d);
    }
    std::printf("driver %.0f ns, runtime %.0f ns, above %.0f ns (driver with a kernel's handle %.0f ns, with the function again %.0f ns)\n",
                median(by_driver), median(by_runtime), median(above), median(of_kernel), median(same));
}
