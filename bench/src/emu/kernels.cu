// The kernels that the emu rows time; NVRTC 13.0 compiles them to kernels.ptx for compute_75.
extern "C" {

__global__ void chains(float *out, float a, float b, int rounds)
{
    float x0 = threadIdx.x, x1 = x0 + 1, x2 = x0 + 2, x3 = x0 + 3;
    for (int k = 0; k < rounds; ++k) {
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            x0 = __fmaf_rn(x0, a, b); x1 = __fmaf_rn(x1, a, b); x2 = __fmaf_rn(x2, a, b); x3 = __fmaf_rn(x3, a, b);
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x0 + x1 + x2 + x3;
}

__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

struct Node { float lo[3]; int left; float hi[3]; int count; };

// The closest of the points, by a tree of boxes: each lane takes its own way.
__global__ void nearest(const Node *nodes, const float *points, const float *queries, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float q[3] = {queries[3 * i], queries[3 * i + 1], queries[3 * i + 2]};
    float best = 1e30f;
    int stack[32], top = 0;
    stack[top++] = 0;
    while (top) {
        Node node = nodes[stack[--top]];
        float d = 0;
        for (int k = 0; k < 3; ++k) {
            float e = fmaxf(fmaxf(node.lo[k] - q[k], q[k] - node.hi[k]), 0.0f);
            d += e * e;
        }
        if (d >= best) continue;
        if (node.count) {
            for (int p = node.left; p < node.left + node.count; ++p) {
                float s = 0;
                for (int k = 0; k < 3; ++k) { float e = points[3 * p + k] - q[k]; s += e * e; }
                best = fminf(best, s);
            }
        } else {
            stack[top++] = node.left;
            stack[top++] = node.left + 1;
        }
    }
    out[i] = best;
}

}
