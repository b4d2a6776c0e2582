// The flow of control: calls, recursion, pointers to functions, switches, loops that diverge.
#include "prelude.cuh"

static __device__ __noinline__ u64 add(u64 a, u64 b) { return a + b; }
static __device__ __noinline__ u64 sub(u64 a, u64 b) { return a - b; }
static __device__ __noinline__ u64 mul(u64 a, u64 b) { return a * b; }
static __device__ __noinline__ u64 mixed(u64 a, u64 b) { return (a << 7 | a >> 57) ^ b; }
typedef u64 (*Function)(u64, u64);
__device__ Function functions[4] = {add, sub, mul, mixed};

KERNEL(calls) {
    THREAD
    OUT(add(a, mul(b, c))); OUT(mixed(sub(a, b), c)); OUT(x & 1 ? add(a, b) : sub(a, b));
}

KERNEL(indirect_calls) {
    THREAD
    u64 r = a;
#pragma unroll 1
    for (u32 k = 0; k < 6; k++) r = functions[y >> 2 * k & 3](r, k & 1 ? b : c);
    OUT(r);
    Function same = functions[blockIdx.x & 3];
    OUT(same(a, c));
}

static __device__ __noinline__ u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
static __device__ __noinline__ u32 odd(u32 n);
static __device__ __noinline__ u32 even(u32 n) { return n == 0 ? 1 : odd(n - 1); }
static __device__ __noinline__ u32 odd(u32 n) { return n == 0 ? 0 : even(n - 1); }
static __device__ __noinline__ u64 folded(const u64* v, u32 n) {
    return n == 1 ? v[0] : folded(v, n / 2) * 31 + folded(v + n / 2, n - n / 2);
}

KERNEL(recursion) {
    THREAD
    u64 v[7] = {a, b, c, a + b, b + c, a ^ c, x};
    OUT(fibonacci(x % 7)); OUT(even(y % 7)); OUT(folded(v, 1 + z % 7));
}

struct Shape {
    u64 side;
    __device__ Shape(u64 side) : side(side) {}
    __device__ virtual u64 area() const { return side; }
    __device__ virtual u64 scaled(u64 by) const { return area() * by; }
};
struct Square : Shape {
    __device__ Square(u64 side) : Shape(side) {}
    __device__ u64 area() const override { return side * side; }
};
struct Box : Square {
    u64 height;
    __device__ Box(u64 side, u64 height) : Square(side), height(height) {}
    __device__ u64 area() const override { return 2 * Square::area() + 4 * side * height; }
    __device__ u64 scaled(u64 by) const override { return area() * by * by; }
};

KERNEL(virtual_calls) {
    THREAD
    Shape shape(a);
    Square square(b);
    Box box(c, a);
    const Shape* all[3] = {&shape, &square, &box};
    OUT(all[x % 3]->area()); OUT(all[y % 3]->scaled(z)); OUT(all[z % 3]->area());
}

KERNEL(switches) {
    THREAD
    u64 r = a;
#pragma unroll 1
    for (u32 k = 0; k < 4; k++) {
        switch (y >> 4 * k & 15) {
            case 0: r += b; break;
            case 1: r -= c; break;
            case 2: r ^= b; break;
            case 3: r *= 3;
            case 4: r = ~r; break;
            case 5: r <<= 3; break;
            case 6: r >>= 5; break;
            case 7: r += r >> 32; break;
            case 8: r *= c; break;
            case 9: r = r / 7; break;
            case 11: r = 11; break;
            case 12: continue;
            case 13: r |= 0xff00; break;
            default: r += 1;
        }
        r += k;
    }
    OUT(r);
    switch (x % 5000) { case 17: OUT(1); break; case 1700: OUT(2); break; case 4999: OUT(3); break; default: OUT(x % 5000 < 2500); }
}

KERNEL(branch_table) {
    THREAD
    u32 r;
    asm volatile("{ .reg .u32 k; and.b32 k, %1, 3;\n\t"
        "ts: .branchtargets L0, L1, L2, L3;\n\tbrx.idx k, ts;\n\t"
        "L0: add.u32 %0, %2, 1;\n\tbra.uni DONE;\n\tL1: mul.lo.u32 %0, %2, 3;\n\tbra DONE;\n\t"
        "L2: xor.b32 %0, %2, %1;\n\tbra DONE;\n\tL3: not.b32 %0, %2;\n\tDONE: }" : "=r"(r) : "r"(x), "r"(y));
    OUT(r);
}

KERNEL(loops) {
    THREAD
    u64 v = (a & 0xffff) + 1;
    u32 steps = 0;
    while (v != 1 && steps < 200) { v = v & 1 ? 3 * v + 1 : v / 2; steps++; }
    OUT(steps);
    // Greatest common divisor.
    u64 p = b | 1, q = c | 1;
    while (q) { u64 t = p % q; p = q; q = t; }
    OUT(p);
    u32 found = 0, j, k;
#pragma unroll 1
    for (j = 0; j < 12; j++) {
#pragma unroll 1
        for (k = 0; k <= j; k++) {
            if ((x >> j & y >> k & 1) == 0) continue;
            found += j * k + 1;
            if (found > 60) goto out;
        }
        if (found % 7 == 6) break;
    }
out:
    OUT(found); OUT(j);
}

static __device__ u32 position(const u64* v, u32 n, u64 of) {
    u32 lo = 0, hi = n;
    while (lo < hi) {
        u32 mid = (lo + hi) / 2;
        if (v[mid] == of) return mid;
        if (v[mid] < of) lo = mid + 1; else hi = mid;
    }
    return lo + 1000;
}

KERNEL(early_returns) {
    THREAD
    u64 v[9];
#pragma unroll 1
    for (u32 k = 0; k < 9; k++) v[k] = (a >> 60) * k;
    OUT(position(v, 9, b >> 56)); OUT(position(v, 1 + z % 9, (a >> 60) * (y % 9)));
    if (x & 1) return;
    OUT(a + b);
    if (__popc(y) > 16) { OUT(17); if (z & 1) return; OUT(18); }
    OUT(19);
}

KERNEL(short_circuits) {
    THREAD
    u32 count = 0;
    if ((x & 1 && ++count && y & 1) || (z & 1 && (count += 10) && y & 2)) count += 100;
    OUT(count); OUT((s32)x < 0 ? (s32)y < 0 ? 1 : 2 : (s32)z < 0 ? 3 : 4);
    bool p = x > y, q = y > z, r = !(p ^ q) || (p & (z > x));
    OUT(p + 2 * q + 4 * r);
}
