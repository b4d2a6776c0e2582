// Kernels that come close to limits.

// Reverses a block's words through dynamic shared memory.
extern "C" __global__ void reverse(unsigned* data, unsigned n) {
    extern __shared__ unsigned words[];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        words[i] = data[i];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        data[i] = words[n - 1 - i];
}

extern "C" __global__ void __launch_bounds__(256) narrow(unsigned* out) {
    out[threadIdx.x] = 1;
}

extern "C" __global__ void statically(unsigned* out) {
    __shared__ unsigned words[2048];
    words[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

// Each thread counts in its cell of a grid of blocks and threads in three dimensions.
extern "C" __global__ void shape(unsigned* out, unsigned long long n) {
    unsigned long long block =
        blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * (unsigned long long)blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned long long i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    if (i < n)
        out[i] += 1;
}

// `rounds` times: every block writes, all blocks meet, every block reads its neighbour.
// `arrived` starts at 0. Launched cooperatively.
extern "C" __global__ void
meet(unsigned* data, unsigned* wrong, unsigned* arrived, unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
        if (threadIdx.x == 0) {
            volatile unsigned* mine = data + blockIdx.x;
            *mine = round * gridDim.x + blockIdx.x;
            __threadfence();
            atomicAdd(arrived, 1);
            while (*(volatile unsigned*)arrived < (2 * round + 1) * gridDim.x) {
            }
            unsigned next = (blockIdx.x + 1) % gridDim.x;
            if (*(volatile unsigned*)(data + next) != round * gridDim.x + next) {
                atomicAdd(wrong, 1);
            }
            __threadfence();
            atomicAdd(arrived, 1);
            while (*(volatile unsigned*)arrived < (2 * round + 2) * gridDim.x) {
            }
        }
        __syncthreads();
    }
}
