// Kernels in clusters, and kernels that start early. For compute capability 9.0 and later.

static __device__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// What the next block of the cluster has put in its shared memory.
static __device__ unsigned from_neighbour(unsigned value) {
    __shared__ unsigned mine;
    unsigned rank, blocks, there, found;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    if (threadIdx.x == 0)
        mine = value;
    meet();
    unsigned here = (unsigned)__cvta_generic_to_shared(&mine);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"(here), "r"((rank + 1) % blocks));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(found) : "r"(there) : "memory");
    // A block's shared memory is there for as long as the block is.
    meet();
    return found;
}

extern "C" __global__ void neighbour(unsigned* out) {
    unsigned found = from_neighbour(1000 + blockIdx.x);
    if (threadIdx.x == 0)
        out[blockIdx.x] = found;
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) in_fours(unsigned* out) {
    unsigned found = from_neighbour(1000 + blockIdx.x);
    if (threadIdx.x == 0)
        out[blockIdx.x] = found;
}

// Lets the next kernel start at once, and writes late.
extern "C" __global__ void
late(unsigned* data, unsigned long long n, unsigned value, unsigned long long nanoseconds) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = value;
}

// Starts early, and waits before it touches memory.
extern "C" __global__ void
follow(const unsigned* input, unsigned* out, unsigned long long n) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = input[i] + 1;
}
