// Memory: spaces, vectors, addresses of any space, local arrays.
#include "prelude.cuh"

struct __align__(16) Four { u32 v[4]; };
struct Mixed { u8 a; u16 b; u32 c; u64 d; float e; double f; };

__constant__ u32 primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
__constant__ double halves[4] = {0.5, -0.25, 1e300, 1e-310};
__device__ u64 table[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
__device__ const char text[] = "the quick brown fox jumps over the lazy dog";
__device__ u32* const inside = (u32*)(table + 2);

KERNEL(constants) {
    THREAD
    OUT(primes[x & 15]); OUT(bits(halves[y & 3])); OUT(table[z & 7]); OUT(text[x % sizeof text]); OUT(inside[y & 1]);
    const u32* p = primes + (z & 7);
    OUT(p[3]); OUT(*(const u16*)(primes + (x & 15)));
}

KERNEL(vectors) {
    THREAD
    const u64* pair = in + 2 * (i / 2);
    ulonglong2 two = *(const ulonglong2*)pair;
    uint4 four = *(const uint4*)pair;
    uchar4 small = *(const uchar4*)pair;
    ushort4 mid = *(const ushort4*)pair;
    float4 floats = *(const float4*)pair;
    double2 doubles = *(const double2*)pair;
    *(ulonglong2*)o = make_ulonglong2(two.y, two.x);
    *(uint4*)(o + 2) = make_uint4(four.w, four.z, four.x, four.y);
    *(uchar4*)(o + 4) = make_uchar4(small.w, small.y, small.x, small.z);
    *(ushort2*)((char*)(o + 4) + 4) = make_ushort2(mid.z, mid.w);
    *(float4*)(o + 6) = make_float4(floats.z, floats.x, floats.w, floats.y);
    *(double2*)(o + 8) = make_double2(doubles.y, doubles.x);
    Four g = *(const Four*)pair;
    g.v[y & 3] += z;
    *(Four*)(o + 10) = g;
}

KERNEL(small_accesses) {
    THREAD
    const u8* bytes = (const u8*)(in + 3 * i);
    OUT(bytes[y % 24]); OUT(((const s8*)bytes)[z % 24]); OUT(((const u16*)bytes)[x % 12]);
    OUT(((const s16*)bytes)[y % 12]); OUT(((const s32*)bytes)[z % 6]);
    u8* to = (u8*)o;
#pragma unroll 1
    for (u32 k = 0; k < 24; k++) to[k] = bytes[(k * 7 + x) % 24];
    *(u16*)(to + 26) = (u16)y; to[30] = (u8)z;
}

// One pointer into three spaces.
KERNEL(generic_addresses) {
    __shared__ u64 near[256];
    THREAD
    u64 mine[4] = {a, b, c, a ^ b};
    near[threadIdx.x] = b;
    u64* p = x % 3 == 0 ? near + threadIdx.x : x % 3 == 1 ? mine + (y & 3) : o + 8;
    if (x % 3 == 2) *p = 5;
    *p += c;
    u32 kinds = __isGlobal(p) | __isShared(p) << 1 | __isLocal(p) << 2 | __isConstant(p) << 3;
    OUT(*p); OUT(kinds); OUT(mine[0] + mine[1] + mine[2] + mine[3]); OUT(near[threadIdx.x]);
    u32 at = (u32)__cvta_generic_to_shared(near + threadIdx.x);
    u64 v;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(v) : "r"(at) : "memory");
    OUT(v); OUT(__isConstant(primes) == __isGlobal(table));
}

KERNEL(local_arrays) {
    THREAD
    u32 v[32];
#pragma unroll 1
    for (u32 k = 0; k < 32; k++) v[k] = x * k ^ y;
    // Sorts by insertion.
    for (u32 k = 1; k < 32; k++) {
        u32 t = v[k], j = k;
        for (; j > 0 && v[j - 1] > t; j--) v[j] = v[j - 1];
        v[j] = t;
    }
    OUT(v[0]); OUT(v[31]); OUT(v[z & 31]); OUT(v[z >> 8 & 31] - v[z >> 13 & 31]);
    u8 bytes[16];
    for (u32 k = 0; k < 16; k++) bytes[(k * 5 + z) & 15] = (u8)(a >> (k & 7) * 8);
    OUT(*(u64*)(bytes + 8) & 0xff); OUT(bytes[y & 15]);
}

static __device__ __noinline__ Mixed scrambled(Mixed m, u32 by) {
    m.a ^= (u8)by; m.b += m.a; m.c *= by; m.d -= m.c; m.e = (float)m.b; m.f = (double)m.e + 0.5;
    return m;
}

KERNEL(structures) {
    THREAD
    Mixed m = {(u8)x, (u16)y, z, a, 1.0f, 2.0};
    for (u32 k = 0; k < 3; k++) m = scrambled(m, x + k);
    OUT(m.a); OUT(m.b); OUT(m.c); OUT(m.d); OUT(bits(m.e)); OUT(bits(m.f)); OUT(sizeof(Mixed));
}

KERNEL(ordered_accesses) {
    THREAD
    u64* mine = o;
    volatile u64* v = mine + 12;
    *v = a; *v = *v + b; OUT(*v);
    u32 r;
    u64 l;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(mine + 13), "r"(y) : "memory");
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(mine + 13) : "memory"); OUT(r);
    asm volatile("st.relaxed.sys.u64 [%0], %1;" :: "l"(mine + 14), "l"(c) : "memory");
    asm volatile("ld.relaxed.cta.u64 %0, [%1];" : "=l"(l) : "l"(mine + 14) : "memory"); OUT(l);
    asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(l) : "l"(in + 3 * i + 1)); OUT(l);
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(r) : "l"(in + 3 * i)); OUT(r);
    asm volatile("ld.global.lu.u32 %0, [%1+4];" : "=r"(r) : "l"(in + 3 * i)); OUT(r);
    asm volatile("st.global.cs.u64 [%0], %1;" :: "l"(mine + 15), "l"(b ^ c) : "memory");
    asm volatile("prefetch.global.L2 [%0];" :: "l"(in + 3 * i));
    asm volatile("prefetchu.L1 [%0];" :: "l"(in + 3 * i));
    __threadfence(); __threadfence_block(); __threadfence_system();
    OUT(__ldg(in + 3 * i)); OUT(__ldcs(in + 3 * i + 2));
}
