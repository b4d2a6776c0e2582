// Contacts between grains by comparing all pairs, to check the row of examples/dem. `grains` are positions; the
// distance and the gap are those of its `step`, to the bit.
#include <geom/math/vec.cuh>

extern "C" __global__ void contacts(const float4* grains, unsigned n, unsigned* counts) {
    constexpr float radius = 0.1f, cohesion = 0.0075f;
    __shared__ float4 others[128];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = i < n ? grains[i] : float4();
    geom::vec3<float> x(own.x, own.y, own.z);
    unsigned count = 0;
    for (unsigned begin = 0; begin < n; begin += 128) {
        __syncthreads();
        if (begin + threadIdx.x < n)
            others[threadIdx.x] = grains[begin + threadIdx.x];
        __syncthreads();
        for (unsigned k = 0; k < 128 && begin + k < n; ++k) {
            geom::vec3<float> apart = x - geom::vec3<float>(others[k].x, others[k].y, others[k].z);
            float square = fmaf(apart.z, apart.z, fmaf(apart.x, apart.x, __fmul_rn(apart.y, apart.y)));
            float gap = sqrtf(square) - 2 * radius;
            count += gap <= cohesion && begin + k != i;
        }
    }
    if (i < n)
        counts[i] = count;
}
