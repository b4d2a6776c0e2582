// Kernels that reach variables of their module by name.

__device__ unsigned counter;
static __device__ unsigned hidden;
static __device__ unsigned* pointer = &hidden;
__constant__ unsigned table[4] = {1, 2, 3, 4};

static __device__ unsigned long long index() {
    return blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
}

static __device__ __noinline__ void put(unsigned* at, unsigned value) { *at = value; }

// Whether this is the only thread that writes a variable.
static __device__ bool writes() { return index() == 0; }

extern "C" __global__ void take(unsigned* out, unsigned long long n) {
    if (index() < n) out[index()] = counter;
}

extern "C" __global__ void set(unsigned value) {
    if (writes()) counter = value;
}

extern "C" __global__ void peek(unsigned* out, unsigned long long n) {
    if (index() < n) out[index()] = hidden;
}

// Through a pointer that lies in memory, and a function that is not inlined.
extern "C" __global__ void follow(unsigned value) {
    if (writes()) put(pointer, value);
}

extern "C" __global__ void look(unsigned* out, unsigned long long n) {
    if (index() < n) out[index()] = table[index() & 3];
}
