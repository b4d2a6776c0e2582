// The benchmarks' own kernels; saxpy is the example's.

extern "C" __global__ void empty() {}

extern "C" __global__ void add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

// Keeps the stream busy for a while, so that what is enqueued behind it starts without the host.
extern "C" __global__ void delay(unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds);
}
