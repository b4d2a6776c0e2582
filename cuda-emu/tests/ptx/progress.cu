// Threads that wait for each other.
extern "C" {

__device__ int lock_word;

__global__ void spin_lock(int *counter, int rounds)
{
    for (int k = 0; k < rounds; ++k) {
        while (atomicCAS(&lock_word, 0, 1) != 0) {}
        __threadfence();
        int v = *(volatile int *)counter;
        *(volatile int *)counter = v + 1;
        __threadfence();
        atomicExch(&lock_word, 0);
    }
}

struct Part { volatile int flag; volatile int aggregate; volatile int prefix; int pad; };

// A scan in one pass: each block looks back at the ones before it.
__global__ void scan(const int *in, int *out, Part *parts, int *ticket, int n)
{
    __shared__ int s[256];
    __shared__ int tile, before;
    int i = threadIdx.x;
    if (i == 0) tile = atomicAdd(ticket, 1);
    __syncthreads();
    int t = tile, at = t * 256 + i;
    s[i] = at < n ? in[at] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        int v = i >= d ? s[i - d] : 0;
        __syncthreads();
        s[i] += v;
        __syncthreads();
    }
    if (i == 0) {
        parts[t].aggregate = s[255];
        __threadfence();
        parts[t].flag = 1;
        int sum = 0;
        for (int p = t - 1; p >= 0; --p) {
            int f;
            while ((f = parts[p].flag) == 0) {}
            __threadfence();
            if (f == 2) { sum += parts[p].prefix; break; }
            sum += parts[p].aggregate;
        }
        parts[t].prefix = sum + s[255];
        __threadfence();
        parts[t].flag = 2;
        before = sum;
    }
    __syncthreads();
    if (at < n) out[at] = s[i] + before;
}

// Every block waits for all others, several times.
__global__ void grid_barrier(int *count, int *data, int rounds)
{
    int blocks = gridDim.x;
    for (int k = 1; k <= rounds; ++k) {
        if (threadIdx.x == 0) data[blockIdx.x] = data[blockIdx.x] + k;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(count, 1);
            while (*(volatile int *)count < 2 * (k - 1) * blocks + blocks) {}
        }
        __syncthreads();
        int seen = *(volatile int *)&data[(blockIdx.x + 1) % blocks];
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(count, 1);
            while (*(volatile int *)count < 2 * k * blocks) {}
        }
        __syncthreads();
        if (seen != k * (k + 1) / 2) data[blocks] = 1000 * blockIdx.x + k;
    }
}

// The later block produces, the earlier one consumes.
__global__ void producer(volatile int *flag, volatile int *box, int *out, int n)
{
    for (int k = 1; k <= n; ++k) {
        if (blockIdx.x == gridDim.x - 1) {
            if (threadIdx.x == 0) { *box = k * k; __threadfence(); *flag = k; }
            if (threadIdx.x == 0) while (*flag != -k) {}
        } else if (blockIdx.x == 0 && threadIdx.x == 0) {
            while (*flag != k) {}
            __threadfence();
            *out += *box;
            __threadfence();
            *flag = -k;
        }
        __syncthreads();
    }
}

__global__ void endless(volatile int *p) { while (*p == 0) {} }

__global__ void never_meets(int *out) { if (threadIdx.x < 40) asm volatile("barrier.sync 3, 128;"); out[threadIdx.x] = 1; }

__global__ void sleepers(int *flag)
{
    if (threadIdx.x % 32 == 0) { while (atomicAdd(flag, 0) != 31) __nanosleep(100); }
    else atomicAdd(flag, 1);
}

}
