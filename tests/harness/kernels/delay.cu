// Kernels that first let some time pass. Launched with one block, whose threads all wait.

__device__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

__device__ void pass(unsigned long long nanoseconds) {
#ifndef NO_DELAY
    unsigned long long begin = now();
    while (now() - begin < nanoseconds)
        __nanosleep(1000);
#endif
}

extern "C" __global__ void delay(unsigned long long nanoseconds) {
    pass(nanoseconds);
}

extern "C" __global__ void
delayed_fill(unsigned* out, unsigned long long n, unsigned value, unsigned long long nanoseconds) {
    pass(nanoseconds);
    for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = value;
}

extern "C" __global__ void delayed_copy(
    const unsigned* in, unsigned* out, unsigned long long n, unsigned long long nanoseconds
) {
    pass(nanoseconds);
    for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = in[i];
}
