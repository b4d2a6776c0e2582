// Integer and floating-point arithmetic of CUDA C++: every group of intrinsics.

extern "C" __global__ void integers(int *out, const unsigned *in, long long *l, unsigned long long *u,
                                    short *s, signed char *c, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = in[i], y = in[i + 1], z = in[i + 2];
    int r = 0;
    r += __mulhi((int)x, (int)y) + __umulhi(x, y) + __mul24(x, y) + __umul24(x, y);
    r += __sad(x, y, z) + __usad(x, y, z) + __popc(x) + __popcll(u[i]) + __clz(x) + __clzll(u[i]);
    r += __ffs(x) + __ffsll(u[i]) + __brev(x) + __byte_perm(x, y, z) + __fns(x, y, z);
    r += __funnelshift_l(x, y, z) + __funnelshift_lc(x, y, z);
    r += __funnelshift_r(x, y, z) + __funnelshift_rc(x, y, z);
    r += __hadd(x, y) + __rhadd(x, y) + __uhadd(x, y) + __urhadd(x, y);
    r += (int)x / (int)y + (int)x % (int)y + x / y + x % y + min(x, y) + max((int)x, (int)y) + abs((int)x);
    r += __vabsdiffu4(x, y) + __vadd2(x, y) + __vcmpeq4(x, y) + __vaddss2(x, y) + __vsadu4(x, y);
    r += __vmaxs2(x, y) + __vavgu4(x, y) + __vsetltu2(x, y) + __vnegss4(x) + __vsubus4(x, y);
    r += s[i] * s[i + 1] / s[i + 2] + (x > y ? z : (x & y | ~z)) + (x >> (y & 31)) + (x << y);
#if __CUDA_ARCH__ >= 610
    r += __dp4a(x, y, z) + __dp4a((int)x, (int)y, (int)z);
    r += __dp2a_lo((int)x, (int)y, (int)z) + __dp2a_hi(x, y, z);
#endif
    u[i] = __umul64hi(u[i], u[i + 1]) + __brevll(u[i]) + u[i + 3] / u[i + 2] + u[i] % 7 + (u[i] >> 3);
    l[i] = __mul64hi(l[i], l[i + 1]) + l[i + 2] / l[i + 3] + (l[i] >> x) + llabs(l[i]) + min(l[i], l[i + 1]);
    s[i] = (short)(s[i] >> 2 ^ c[i]);
    c[i] = c[i] * c[i + 1];
    switch (n) {
    case 0: r += 1; break;
    case 1: r *= 3; break;
    case 2: r ^= 5; break;
    case 3: r -= x; break;
    case 4: r += y * 7; break;
    case 5: r = z; break;
    case 6: r = ~r; break;
    case 7: r <<= 3; break;
    case 9: r /= 3; break;
    default: break;
    }
    out[i] = r;
}

#define ROUNDED(op, ...) (__##op##_rn(__VA_ARGS__) + __##op##_rz(__VA_ARGS__) + \
                          __##op##_ru(__VA_ARGS__) + __##op##_rd(__VA_ARGS__))

extern "C" __global__ void floats(float *out, const float *in, double *d, int *q, long long *l)
{
    int i = threadIdx.x;
    float x = in[i], y = in[i + 1], z = in[i + 2], s, c;
    float r = ROUNDED(fadd, x, y) + ROUNDED(fsub, x, y) + ROUNDED(fmul, x, y) + ROUNDED(fmaf, x, y, z);
    r += ROUNDED(frcp, x) + ROUNDED(fsqrt, x) + ROUNDED(fdiv, x, y) + __frsqrt_rn(x) + __fdividef(x, y);
    r += __expf(x) + __log2f(x) + __logf(x) + __sinf(x) + __cosf(x) + __powf(x, y) + __saturatef(x);
    r += sinf(x) + tanf(x) + acosf(x) + atan2f(x, y) + tanhf(x) + expf(x) + logf(x) + powf(x, y);
    r += cbrtf(x) + sqrtf(x) + rsqrtf(x) + erff(x) + lgammaf(x) + fmodf(x, y) + remainderf(x, y);
    r += floorf(x) + truncf(x) + roundf(x) + rintf(x) + copysignf(x, y) + fminf(x, y) + fmaxf(x, y);
    r += ldexpf(x, q[0]) + logbf(x) + nextafterf(x, y) + x / y + (isnan(x) ? 1.f : 2.f) + isinf(y);
    sincosf(x, &s, &c);
    q[i] = ROUNDED(float2int, x) + (int)x + __float_as_int(x) + __double2loint(d[i]);
    l[i] = ROUNDED(float2ll, x) + (long long)x + ROUNDED(double2ll, d[i]);
    r += ROUNDED(int2float, q[i]) + ROUNDED(uint2float, q[i]) + ROUNDED(ll2float, l[i]) + s * c;
    double e = d[i], f = d[i + 1], g = d[i + 2];
    double t = ROUNDED(dadd, e, f) + ROUNDED(dsub, e, f) + ROUNDED(dmul, e, f) + ROUNDED(fma, e, f, g);
    t += ROUNDED(drcp, e) + ROUNDED(dsqrt, e) + ROUNDED(ddiv, e, f) + __hiloint2double(q[0], q[1]);
    t += sin(e) + exp(e) + log(f) + pow(e, f) + rsqrt(e) + floor(e) + rint(e) + fmin(e, f) + e / f;
    r += ROUNDED(double2float, t) + (float)f;
    d[i] = t + (double)r;
    out[i] = r;
}
