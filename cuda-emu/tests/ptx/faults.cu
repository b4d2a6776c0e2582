// What must not go unnoticed.
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
#define assert(e) ((e) ? (void)0 : __assertfail(#e, "faults.cu", __LINE__, __func__, 1))
extern "C" {
__constant__ int constants[4] = {1, 2, 3, 4};
__global__ void read_constant(int i, int *out) { *out = constants[i]; }
__device__ int sixteen[16];
__global__ void out_of_bounds(int *p, long long i) { p[i] = 1; }
__global__ void misaligned(char *p) { *(int *)(p + 2) = 1; }
__global__ void variable(int i, int *out) { *out = sixteen[i]; }
__global__ void shared_overflow(int i) { __shared__ volatile int s[64]; s[threadIdx.x] = 0; __syncthreads(); s[i] = 1; }
__global__ void local_overflow(int i, int *out) { int a[8]; for (int k = 0; k < 8; ++k) a[k] = k; a[i] = 5; *out = a[*out]; }
__global__ void trapped() { if (threadIdx.x == 5) __trap(); }
__global__ void asserted(int n) { assert(threadIdx.x < n && "too many"); }
__global__ void null_call(void (**f)()) { (*f)(); }
__global__ void read_past(const float4 *p, float *out) { float4 v = p[threadIdx.x]; out[threadIdx.x] = v.x + v.w; }
}
