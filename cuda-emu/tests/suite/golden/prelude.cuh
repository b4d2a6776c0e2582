// What the golden kernels share: each thread takes three words, and writes up to sixteen.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define WORDS 16
#define KERNEL(name) extern "C" __global__ void name(const u64* in, u64* out, u32 n)

// The thread's words a, b and c, their low halves x, y and z, and where its results go.
#define THREAD                                                  \
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;              \
    if (i >= n) return;                                         \
    u64 a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];    \
    u32 x = (u32)a, y = (u32)b, z = (u32)c;                     \
    u64* o = out + WORDS * (u64)i;                              \
    (void)a; (void)b; (void)c; (void)x; (void)y; (void)z; (void)o;

#define OUT(value) *o++ = (u64)(value)

// One instruction, whose result is written: R 32 bits, L 64, H 16, F float, D double.
#define ASM_1(T, k, cast, ins, p) { T r_; asm(ins " %0, %1;" : "=" k(r_) : k(p)); OUT(cast(r_)); }
#define ASM_2(T, k, cast, ins, p, q) \
    { T r_; asm(ins " %0, %1, %2;" : "=" k(r_) : k(p), k(q)); OUT(cast(r_)); }
#define ASM_3(T, k, cast, ins, p, q, s) \
    { T r_; asm(ins " %0, %1, %2, %3;" : "=" k(r_) : k(p), k(q), k(s)); OUT(cast(r_)); }
#define ASM_4(T, k, cast, ins, p, q, s, t) \
    { T r_; asm(ins " %0, %1, %2, %3, %4;" : "=" k(r_) : k(p), k(q), k(s), k(t)); OUT(cast(r_)); }
#define R1(ins, p) ASM_1(u32, "r", u64, ins, p)
#define R2(ins, p, q) ASM_2(u32, "r", u64, ins, p, q)
#define R3(ins, p, q, s) ASM_3(u32, "r", u64, ins, p, q, s)
#define R4(ins, p, q, s, t) ASM_4(u32, "r", u64, ins, p, q, s, t)
#define L1(ins, p) ASM_1(u64, "l", u64, ins, p)
#define L2(ins, p, q) ASM_2(u64, "l", u64, ins, p, q)
#define L3(ins, p, q, s) ASM_3(u64, "l", u64, ins, p, q, s)
#define H1(ins, p) ASM_1(u16, "h", u64, ins, p)
#define H2(ins, p, q) ASM_2(u16, "h", u64, ins, p, q)
#define H3(ins, p, q, s) ASM_3(u16, "h", u64, ins, p, q, s)
#define F1(ins, p) ASM_1(float, "f", bits, ins, p)
#define F2(ins, p, q) ASM_2(float, "f", bits, ins, p, q)
#define F3(ins, p, q, s) ASM_3(float, "f", bits, ins, p, q, s)
#define D1(ins, p) ASM_1(double, "d", bits, ins, p)
#define D2(ins, p, q) ASM_2(double, "d", bits, ins, p, q)
#define D3(ins, p, q, s) ASM_3(double, "d", bits, ins, p, q, s)
// A conversion: the kinds of result and operand, then the instruction.
#define CVT(T, to, from, ins, p) { T r_; asm(ins " %0, %1;" : "=" to(r_) : from(p)); OUT(bits(r_)); }

static __device__ __forceinline__ u64 bits(float f) { return (u32)__float_as_int(f); }
static __device__ __forceinline__ u64 bits(double d) { return (u64)__double_as_longlong(d); }
static __device__ __forceinline__ u64 bits(u16 h) { return h; }
static __device__ __forceinline__ u64 bits(u32 r) { return r; }
static __device__ __forceinline__ u64 bits(u64 l) { return l; }
static __device__ __forceinline__ float f32(u32 r) { return __int_as_float((s32)r); }
static __device__ __forceinline__ double f64(u64 l) { return __longlong_as_double((s64)l); }
// Not NaN: which NaN comes out of two is nobody's promise.
static __device__ __forceinline__ u64 number(u64 l) {
    return (l << 1) > 0xffe0000000000000ull ? l & 0xbfffffffffffffffull : l;
}
static __device__ __forceinline__ u32 number(u32 r) {
    return (r << 1) > 0xff000000u ? r & 0xbfffffffu : r;
}
static __device__ __forceinline__ u16 number(u16 h) {
    return (h & 0x7fff) > 0x7c00 ? (u16)(h & 0xbfff) : h;
}
// A double whose NaN, if it is one, is the usual one: software sequences choose their own.
static __device__ __forceinline__ u64 usual(double d) {
    u64 l = bits(d);
    return (l << 1) > 0xffe0000000000000ull ? 0x7ff8000000000000ull : l;
}
