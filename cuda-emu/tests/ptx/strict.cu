// Kernels with one fault each. A comment "FAULT name" marks the line that the report must name.
// The PTX: NVRTC 13.0.88, -arch=compute_80 -lineinfo; the path of .file cut to the name.
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
#define check(e) ((e) ? (void)0 : __assertfail(#e, "strict.cu", __LINE__, __func__, 1))
extern "C" {

__global__ void write_past(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        p[i] = i; // FAULT write_past
}

__global__ void read_past(const int *p, int n, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {
        int v = p[i]; // FAULT read_past
        out[0] = v;
    }
}

__global__ void before_start(int *p)
{
    int i = threadIdx.x;
    p[i - 1] = 1; // FAULT before_start
}

__global__ void in_the_gap(char *p, long long offset)
{
    if (threadIdx.x == 2)
        p[offset] = 1; // FAULT in_the_gap
}

__global__ void after_free(const int *p, int *out)
{
    int v = p[threadIdx.x]; // FAULT after_free
    out[threadIdx.x] = v;
}

__global__ void misaligned_2(char *p)
{
    *(short *)(p + threadIdx.x) = 1; // FAULT misaligned_2
}

__global__ void misaligned_4(char *p)
{
    *(int *)(p + 2 * threadIdx.x) = 1; // FAULT misaligned_4
}

__global__ void misaligned_8(char *p)
{
    *(double *)(p + 4 * threadIdx.x) = 1; // FAULT misaligned_8
}

__global__ void misaligned_16(char *p)
{
    *(float4 *)(p + 8 * threadIdx.x) = make_float4(1, 2, 3, 4); // FAULT misaligned_16
}

__global__ void vector_past(const int4 *p, int *out)
{
    int4 v = p[threadIdx.x]; // FAULT vector_past
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

__global__ void shared_static(int n)
{
    __shared__ volatile int s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 33)
        s[n] = 1; // FAULT shared_static
}

extern __shared__ int dynamic[];
__global__ void shared_dynamic()
{
    volatile int *s = dynamic;
    s[threadIdx.x + 1] = 0; // FAULT shared_dynamic
}

__global__ void local_array(int n, int *out)
{
    volatile int a[8];
    for (int k = 0; k < 8; ++k)
        a[k] = k;
    if (threadIdx.x == 9)
        a[n] = 5; // FAULT local_array
    out[threadIdx.x] = a[threadIdx.x & 7];
}

__constant__ int table[4] = {1, 2, 3, 4};
__global__ void write_constant(int *p)
{
    p[threadIdx.x & 3] = table[3 - (threadIdx.x & 3)]; // FAULT write_constant
}

__global__ void null_pointer(int *p)
{
    if (threadIdx.x == 1)
        *p = 1; // FAULT null_pointer
}

__global__ void wild_pointer(const long long *p, int *out)
{
    const int *q = (const int *)p[threadIdx.x];
    int v = *q; // FAULT wild_pointer
    out[threadIdx.x] = v;
}

__device__ int variable[16];
__global__ void module_variable(int n)
{
    variable[n + threadIdx.x] = 1; // FAULT module_variable
}

__device__ __noinline__ int deeper(int n, volatile int *p)
{
    volatile int a[16];
    a[n & 15] = *p;
    return n ? deeper(n - 1, p) + a[n & 15] : a[0]; // FAULT stack
}
__global__ void stack(int n, int *p)
{
    p[1] = deeper(n, p);
}

__global__ void heap(int *out)
{
    int *p = 0;
    for (int k = 0; k < 20; ++k) {
        p = (int *)malloc(1 << 20);
        *(volatile int *)p = k; // FAULT heap
    }
    *out = *p;
}

__global__ void heap_past(int n)
{
    int *p = (int *)malloc(40);
    *(volatile int *)&p[n] = 1; // FAULT heap_past
    free(p);
}

__global__ void heap_freed(int *out)
{
    int *p = (int *)malloc(40);
    *(volatile int *)p = 1;
    free(p);
    *out = *(volatile int *)p; // FAULT heap_freed
}

__global__ void double_free(long long *out)
{
    void *p = malloc(64);
    *out = (long long)p;
    free(p);
    free(p); // FAULT double_free
}

__global__ void free_nothing(char *p)
{
    free(p + 4); // FAULT free_nothing
}

__global__ void trapped()
{
    if (blockIdx.x == 1 && threadIdx.x == 5)
        __trap(); // FAULT trapped
}

__global__ void asserted(int n)
{
    check(threadIdx.x < n && "too many"); // FAULT asserted
}

__global__ void barrier(int *out)
{
    if (threadIdx.x < 40)
        asm volatile("barrier.sync 3, 128;"); // FAULT barrier
    out[threadIdx.x] = 1;
}

__global__ void call(void (*const *f)(int), int n)
{
    f[threadIdx.x](n); // FAULT call
}

__global__ void atomic_past(int *p)
{
    atomicAdd(&p[threadIdx.x], 1); // FAULT atomic_past
}

__global__ void atomic_misaligned(char *p)
{
    atomicAdd((unsigned long long *)(p + 4 * threadIdx.x), 1ull); // FAULT atomic_misaligned
}

__global__ void copy_async(const char *p)
{
    __shared__ int4 s[32];
    unsigned at = __cvta_generic_to_shared(&s[threadIdx.x]);
    const char *from = p + 16 * threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory"); // FAULT copy_async
    asm volatile("cp.async.wait_all;" ::: "memory");
}

__global__ void endless(volatile int *p)
{
    while (*p == 0) {} // FAULT endless
}

}
