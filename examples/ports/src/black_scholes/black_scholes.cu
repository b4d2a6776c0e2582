// Prices of European options by the formula of Black and Scholes.

#include <cuda_runtime.h>
#include <math.h>

__device__ inline float normal(float x) { return 0.5f * erfcf(-x * (float)M_SQRT1_2); }

__global__ void blackScholes(float *call, float *put, float *price, float *strike, float *years, float riskFree,
                             float volatility, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float root = sqrtf(years[i]);
        float d1 = (logf(price[i] / strike[i]) + (riskFree + 0.5f * volatility * volatility) * years[i]) /
                   (volatility * root);
        float d2 = d1 - volatility * root;
        float discounted = strike[i] * expf(-riskFree * years[i]);
        call[i] = price[i] * normal(d1) - discounted * normal(d2);
        put[i] = discounted * normal(-d2) - price[i] * normal(-d1);
    }
}

#ifndef __CUDACC_RTC__
#include "../check.h"

int main()
{
    const int n = 100000;
    const size_t bytes = n * sizeof(float);
    std::vector<float> price(n), strike(n), years(n), call(n), put(n);
    for (int i = 0; i < n; ++i) {
        price[i] = 5 + i % 26;
        strike[i] = 1 + i % 100;
        years[i] = 0.25f + i % 10;
    }

    float *dPrice, *dStrike, *dYears, *dCall, *dPut;
    CHECK(cudaMalloc(&dPrice, bytes));
    CHECK(cudaMalloc(&dStrike, bytes));
    CHECK(cudaMalloc(&dYears, bytes));
    CHECK(cudaMalloc(&dCall, bytes));
    CHECK(cudaMalloc(&dPut, bytes));
    CHECK(cudaMemcpy(dPrice, price.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dStrike, strike.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dYears, years.data(), bytes, cudaMemcpyHostToDevice));

    blackScholes<<<(n + 127) / 128, 128>>>(dCall, dPut, dPrice, dStrike, dYears, 0.02f, 0.3f, n);
    CHECK(cudaGetLastError());

    CHECK(cudaMemcpy(call.data(), dCall, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(put.data(), dPut, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dPrice));
    CHECK(cudaFree(dStrike));
    CHECK(cudaFree(dYears));
    CHECK(cudaFree(dCall));
    CHECK(cudaFree(dPut));
    call.insert(call.end(), put.begin(), put.end());
    print(call);
}
#endif
