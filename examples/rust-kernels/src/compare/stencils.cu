// Stencils, a thread for each element.

struct Weights {
    float of[27];
};

__global__ void conv3d(unsigned width, unsigned height, unsigned depth, Weights weights, const float *__restrict__ x,
                       float *__restrict__ out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned j = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= width || j >= height || k >= depth) {
        return;
    }
    unsigned at = (k * height + j) * width + i;
    float sum = 0.0f;
    if (i > 0 && j > 0 && k > 0 && i + 1 < width && j + 1 < height && k + 1 < depth) {
        const float *first = x + at - (height + 1) * width - 1;
#pragma unroll
        for (unsigned c = 0; c < 3; c++) {
#pragma unroll
            for (unsigned b = 0; b < 3; b++) {
#pragma unroll
                for (unsigned a = 0; a < 3; a++) {
                    sum = fmaf(weights.of[9 * c + 3 * b + a], first[(c * height + b) * width + a], sum);
                }
            }
        }
    }
    out[at] = sum;
}

__global__ void jacobi2d(unsigned width, unsigned height, const float *__restrict__ x, float *__restrict__ out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) {
        return;
    }
    unsigned at = j * width + i;
    float value = x[at];
    if (i > 0 && j > 0 && i + 1 < width && j + 1 < height) {
        value = 0.2f * (value + x[at - 1] + x[at + 1] + x[at + width] + x[at - width]);
    }
    out[at] = value;
}
