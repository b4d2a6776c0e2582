// Grains are n positions, then n velocities, as in dem.cu.

// Gives the upper grains of a block a speed along z.
extern "C" __global__ void push(float speed, const float4* start, float4* grains, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = start[n + i];
    if (start[i].y > 0.3f) v.z += speed;
    grains[i] = start[i];
    grains[n + i] = v;
}

// Adds the squares of the distances from where grains were seen.
extern "C" __global__ void miss(const float4* grains, const float4* seen, float* loss, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 a = grains[i], b = seen[i];
    float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    atomicAdd(loss, x * x + y * y + z * z);
}
