// Points in parts, one for each device: 256 cells of space, which the devices take in turn. So each device has an equal
// share of cheap and of costly regions, and as many points near each other as there are.

// The 8 x 8 x 4 cells between `lower` and `lower` + 1 / `scale`; what lies outside belongs to the nearest one.
__device__ unsigned cell(float at, float lower, float scale, unsigned cells) {
    // NaN becomes 0.
    return min(static_cast<unsigned>(fmaxf((at - lower) * scale * cells, 0.0f)), cells - 1);
}

// The place of each point's cell among those of part 0, then of part 1, …
extern "C" __global__ void
part_keys(const float3* points, float3 lower, float3 scale, unsigned parts, unsigned* keys, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float3 p = points[i];
    unsigned all = cell(p.x, lower.x, scale.x, 8);
    all += 8 * cell(p.y, lower.y, scale.y, 8) + 64 * cell(p.z, lower.z, scale.z, 4);
    unsigned part = all % parts;
    keys[i] = part * (256 / parts) + min(part, 256 % parts) + all / parts;
}

extern "C" __global__ void
gather(const float3* points, const unsigned* order, float3* sorted, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sorted[i] = points[min(order[i], n - 1)];
}

extern "C" __global__ void
scatter(const float* sorted, const unsigned* order, float* distances, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        distances[min(order[i], n - 1)] = sorted[i];
}
