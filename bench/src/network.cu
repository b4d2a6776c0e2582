// A network with 8 inputs, 16 hidden neurons and 4 outputs, a thread for each sample. All threads read the same
// weights: 16 rows of 8 and 16 biases, then 4 rows of 16 and 4 biases.
constexpr int inputs = 8, hidden = 16, outputs = 4;

__device__ float squash(float x) { return x / (1.0f + fabsf(x)); }

extern "C" __global__ void network(const float* __restrict__ weights, const float4* __restrict__ samples,
                                   float4* __restrict__ out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 low = samples[2 * i], high = samples[2 * i + 1];
    float x[inputs] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const float* row = weights;
    float y[hidden];
#pragma unroll
    for (int j = 0; j < hidden; ++j, row += inputs) {
        y[j] = weights[hidden * inputs + j];
#pragma unroll
        for (int k = 0; k < inputs; ++k)
            y[j] += row[k] * x[k];
        y[j] = squash(y[j]);
    }
    row += hidden;
    float z[outputs];
#pragma unroll
    for (int j = 0; j < outputs; ++j) {
        z[j] = row[outputs * hidden + j];
#pragma unroll
        for (int k = 0; k < hidden; ++k)
            z[j] += row[j * hidden + k] * y[k];
    }
    out[i] = make_float4(z[0], z[1], z[2], z[3]);
}
