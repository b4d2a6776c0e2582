// Memory spaces, initialisers, calls of every kind, printf, assert and the heap.

__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter = 7;
__device__ float rows[2][3] = {{1, 2}, {3}};
__device__ int *pointer = &counter;
__device__ void *pointers[3] = {0, &rows[1][1], &counter};
__device__ unsigned char bytes[] = {1, 2, 3, 255};
__device__ const char *names[] = {"abc", "de\n"};
__managed__ int managed = 3;
__constant__ struct {
    int a;
    double b;
    char c[3];
    const float *p;
} record = {1, 2.5, {1, 2, 3}, table};

extern __shared__ float4 dynamic[];

struct Block {
    int a[3];
    float b;
    double d;
};
struct Empty {};

struct Base {
    __device__ virtual int value(int x) = 0;
    __device__ virtual ~Base() {}
};
struct Added : Base {
    int k;
    __device__ int value(int x) override { return x + k; }
};
struct Doubled : Base {
    __device__ int value(int x) override { return x * 2; }
};

__device__ float plus_one(float x) { return x + 1; }
__device__ float twice(float x) { return x * 2; }
__device__ float (*functions[])(float) = {plus_one, twice};

__device__ __noinline__ Block changed(int a, Block s, Empty)
{
    s.a[a & 1] = 3;
    s.d += a;
    return s;
}
__device__ __noinline__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

extern "C" __global__ void __launch_bounds__(256, 2)
    memory(float4 *v4, int *out, Block s, const float *__restrict__ in, short3 v3, char c, Base **objects, int n)
{
    __shared__ int fixed[3];
    float *shared = (float *)dynamic;
    int i = threadIdx.x, local[40];
    float4 v = v4[i];
    v.x += table[i & 3] + record.b + record.c[1] + *record.p + rows[i & 1][i % 3] + managed + bytes[i & 3];
    fixed[i % 3] = i + counter + *pointer;
    shared[i] = v.y;
    __syncthreads();
    v.z = shared[i ^ 1] + fixed[1] + (pointers[i % 3] == out);
    v4[i] = v;
    out[0] = in[i] + __ldg(in + 3) + __ldcg(in) + __ldca(in) + __ldcs(in) + __ldlu(in) + __ldcv(in);
    __stwb(out, 1), __stcg(out, 2), __stcs(out, 3), __stwt(out, 4);
    Block t = changed(i, s, Empty());
    out[1] = t.a[0] + t.d + factorial(n) + functions[n & 1](2.f) + v3.x;
    Base *object = i & 1 ? (Base *)new Added : (Base *)new Doubled;
    out[2] = object->value(3) + objects[1]->value(2);
    delete object;
    for (int k = 0; k < 40; k++) local[k] = out[k];
    for (int k = 0; k < n; k++) out[k] = local[k * 7 % 40];
    char *heap = (char *)malloc(n);
    heap[0] = c;
    free(heap);
    printf("lane %d %f %s\n", i, 2.5, names[n & 1]);
    assert(n > 0);
    out[3] = __isGlobal(out) + __isShared(shared) + __isLocal(local);
    memcpy(dynamic, out, 33);
    memset(out, 0, n);
    if (n == 77) __trap();
    while (n--)
        if (out[n] == 5) break;
}

template <class T> __global__ void one(T *p) { *p = T(1); }
template __global__ void one<double>(double *);
template __global__ void one<unsigned char>(unsigned char *);

__global__ void endless(volatile int *p)
{
    for (;;)
        if (*p) *p = 0;
}
