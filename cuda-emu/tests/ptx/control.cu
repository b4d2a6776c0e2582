// Control flow: what the lanes of a warp do when they part.
extern "C" {

__global__ void branches(const int *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = in[i], y = 0;
    if (x & 1) {
        for (int k = 0; k < (x & 15); ++k) {
            if (k == 7) continue;
            if ((k ^ x) == 12) break;
            y += k * x;
        }
    } else if (x & 2) {
        int k = x & 31;
        while (k > 0) { y ^= k; k -= (x & 4) ? 2 : 1; }
    } else {
        do { y = y * 3 + x; x >>= 1; } while (x);
    }
    switch (in[i] % 9) {
    case 0: y += 1; break;
    case 1: y *= 2;
    case 2: y -= 3; break;
    case 3: y = ~y; break;
    case 5: y ^= 0x55; break;
    case 6: y += in[(i + 1) % n]; break;
    case 7: return;
    case 8: y <<= 1; break;
    default: y = -y;
    }
    out[i] = y;
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

__global__ void recursion(int *out) { out[threadIdx.x] = fib(threadIdx.x % 13); }

__device__ __noinline__ int down(int n, int *deep) { int a[4]; a[n & 3] = n; *deep += a[n & 3]; return n ? down(n - 1, deep) + a[n & 3] : 0; }
__global__ void endless_recursion(int *out, int n) { int d = 0; out[threadIdx.x] = down(n, &d) + d; }

typedef int (*op)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int sub(int a, int b) { return a - b; }
__device__ __noinline__ int mul(int a, int b) { return a * b; }
__device__ op table[3] = {add, sub, mul};

__global__ void pointers(int *out) { int i = threadIdx.x; out[i] = table[i % 3](i, 7) + table[(i / 3) % 3](i, 2); }

struct Shape { __device__ virtual int area() const = 0; };
struct Square : Shape { int s; __device__ Square(int s) : s(s) {} __device__ int area() const { return s * s; } };
struct Rect : Shape { int a, b; __device__ Rect(int a, int b) : a(a), b(b) {} __device__ int area() const { return a * b; } };

__global__ void virtuals(int *out)
{
    int i = threadIdx.x;
    Square s(i); Rect r(i, 3);
    Shape *p = (i % 2) ? (Shape *)&s : (Shape *)&r;
    out[i] = p->area();
}

struct Big { int v[9]; };
__device__ __noinline__ Big twist(Big b, int k) { Big r; for (int i = 0; i < 9; ++i) r.v[i] = b.v[(i + k) % 9] * k; return r; }
__global__ void structs(int *out)
{
    Big b; for (int i = 0; i < 9; ++i) b.v[i] = threadIdx.x + i;
    b = twist(b, threadIdx.x % 5);
    int s = 0; for (int i = 0; i < 9; ++i) s = s * 7 + b.v[i];
    out[threadIdx.x] = s;
}

__global__ void warp(const int *in, int *out)
{
    int i = threadIdx.x, x = in[i];
    int s = x;
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    int up = __shfl_up_sync(~0u, x, 3), down = __shfl_down_sync(~0u, x, 5, 16);
    unsigned b = __ballot_sync(~0u, x & 1);
    unsigned m = __match_any_sync(~0u, x & 3);
    int r = __reduce_add_sync(m, x);
    int part = 0;
    if (x & 1) part = __shfl_sync(b, x, __ffs(b) - 1); else part = __popc(__activemask());
    __syncwarp();
    int all; unsigned q = __match_all_sync(~0u, i >> 5, &all);
    out[i * 8 + 0] = s; out[i * 8 + 1] = up; out[i * 8 + 2] = down; out[i * 8 + 3] = b;
    out[i * 8 + 4] = m; out[i * 8 + 5] = r; out[i * 8 + 6] = part; out[i * 8 + 7] = q + all;
}

__global__ void barriers(const int *in, int *out)
{
    __shared__ int s[256];
    extern __shared__ int dyn[];
    int i = threadIdx.x, n = blockDim.x;
    s[i] = in[blockIdx.x * n + i];
    dyn[i] = -s[i];
    __syncthreads();
    for (int d = 1; d < n; d *= 2) {
        int v = i >= d ? s[i - d] : 0;
        __syncthreads();
        s[i] += v;
        __syncthreads();
    }
    int c = __syncthreads_count(s[i] & 1), a = __syncthreads_and(s[i] > -1000000), o = __syncthreads_or(s[i] == 12345);
    out[blockIdx.x * n + i] = s[i] * 16 + c + a * 4 + o * 2 + dyn[(i + 1) % n];
    if (i >= n - 40) return;
    __syncthreads();
    if (i == 0) out[blockIdx.x * n] ^= 1;
}

__global__ void named(int *out)
{
    __shared__ int box[64];
    int w = threadIdx.x / 32, l = threadIdx.x % 32;
    if (w == 0) {
        for (int k = 0; k < 4; ++k) {
            box[l] = k * 100 + l;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    } else {
        int s = 0;
        for (int k = 0; k < 4; ++k) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            s += box[31 - l];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
        out[l] = s;
    }
}

__global__ void heap(int *out)
{
    int n = threadIdx.x % 7 + 1;
    int *p = (int *)malloc(n * sizeof(int));
    if (!p) { out[threadIdx.x] = -1; return; }
    for (int i = 0; i < n; ++i) p[i] = i * threadIdx.x;
    int s = 0;
    for (int i = 0; i < n; ++i) s += p[i];
    free(p);
    out[threadIdx.x] = s;
}
__global__ void heap_full(int *out) { void *p = malloc(1 << 20); out[threadIdx.x] = p != 0; }

int printf(const char *, ...);
__global__ void hello(int a)
{
    printf("block %d thread %d: %5.2f %s %c %lld %#x 100%%\n", blockIdx.x, threadIdx.x, a * 0.5, "text", 'x', 1234567890123ll, a);
}

}
