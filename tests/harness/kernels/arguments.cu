// What arrives of each kind of argument.

struct Mixed {
    char tag;
    float4 low;
    short count;
    double weight;
    float4 high;
    unsigned char flags[3];
};

typedef unsigned long long u64;

// Each value's bits, extended with zeros, in a word of its own.
extern "C" __global__ void scalars(
    unsigned char a,
    signed char b,
    unsigned short c,
    short d,
    unsigned e,
    int f,
    u64 g,
    long long h,
    bool i,
    float j,
    double k,
    u64* out
) {
    out[0] = a;
    out[1] = (unsigned char)b;
    out[2] = c;
    out[3] = (unsigned short)d;
    out[4] = e;
    out[5] = (unsigned)f;
    out[6] = g;
    out[7] = (u64)h;
    out[8] = i ? 1 : 0;
    out[9] = __float_as_uint(j);
    out[10] = (u64)__double_as_longlong(k);
}

struct Half {
    unsigned short bits;
};

extern "C" __global__ void halves(Half a, Half b, u64* out) {
    out[0] = a.bits;
    out[1] = b.bits;
}

extern "C" __global__ void structure(char before, Mixed m, char after, double* out) {
    double values[] = {
        (double)before,
        (double)m.tag,
        m.low.x,
        m.low.y,
        m.low.z,
        m.low.w,
        (double)m.count,
        m.weight,
        m.high.x,
        m.high.y,
        m.high.z,
        m.high.w,
        (double)m.flags[0],
        (double)m.flags[1],
        (double)m.flags[2],
        (double)after
    };
    for (int i = 0; i < 16; ++i)
        out[i] = values[i];
}

struct Triple {
    float v[3];
};

extern "C" __global__ void vectors(float3 a, Triple b, float4 c, double2 d, uchar4 e, double* out) {
    double values[] = {
        a.x,
        a.y,
        a.z,
        b.v[0],
        b.v[1],
        b.v[2],
        c.x,
        c.y,
        c.z,
        c.w,
        d.x,
        d.y,
        (double)e.x,
        (double)e.y,
        (double)e.z,
        (double)e.w
    };
    for (int i = 0; i < 16; ++i)
        out[i] = values[i];
}

extern "C" __global__ void many(
    unsigned a0,
    u64 a1,
    unsigned a2,
    u64 a3,
    unsigned a4,
    u64 a5,
    unsigned a6,
    u64 a7,
    unsigned a8,
    u64 a9,
    unsigned a10,
    u64 a11,
    unsigned a12,
    u64 a13,
    unsigned a14,
    u64 a15,
    unsigned a16,
    u64 a17,
    unsigned a18,
    u64 a19,
    unsigned a20,
    u64 a21,
    unsigned a22,
    u64* out
) {
    u64 values[] = {a0,  a1,  a2,  a3,  a4,  a5,  a6,  a7,  a8,  a9,  a10, a11,
                    a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22};
    for (int i = 0; i < 23; ++i)
        out[i] = values[i];
}

extern "C" __global__ void none() {}

// A C++ name: it tells the types of the parameters.
__global__ void typed(float a, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
