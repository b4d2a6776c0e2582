// Numbers of all types: how they are read, computed with and written.
#pragma once

namespace blas {

typedef long long i64;
typedef unsigned long long u64;

// The numbers of cudaDataType.
enum Type {
    R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, C_32F = 4, C_64F = 5, C_16F = 6, C_8I = 7, R_8U = 8, R_32I = 10,
    R_16BF = 14, C_16BF = 15, E4M3 = 28, E5M2 = 29
};

template <typename R>
struct Complex {
    R x, y;
};
typedef Complex<float> c32;
typedef Complex<double> c64;

// What belongs to a type in which a kernel computes.
template <typename T> struct Of;
template <> struct Of<float> { typedef float Real; static const Type TYPE = R_32F; static const bool COMPLEX = false; };
template <> struct Of<double> { typedef double Real; static const Type TYPE = R_64F; static const bool COMPLEX = false; };
template <> struct Of<int> { typedef int Real; static const Type TYPE = R_32I; static const bool COMPLEX = false; };
template <> struct Of<c32> { typedef float Real; static const Type TYPE = C_32F; static const bool COMPLEX = true; };
template <> struct Of<c64> { typedef double Real; static const Type TYPE = C_64F; static const bool COMPLEX = true; };

__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ int fused(int a, int b, int c) { return (int)((unsigned)a * (unsigned)b + (unsigned)c); }
__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ int mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ int add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ double quotient(double a, double b) { return __ddiv_rn(a, b); }
__device__ __forceinline__ float root(float a) { return __fsqrt_rn(a); }
__device__ __forceinline__ double root(double a) { return __dsqrt_rn(a); }
__device__ __forceinline__ float magnitude(float a) { return fabsf(a); }
__device__ __forceinline__ double magnitude(double a) { return fabs(a); }

template <typename R>
__device__ __forceinline__ Complex<R> fused(Complex<R> a, Complex<R> b, Complex<R> c) {
    return {fused(-a.y, b.y, fused(a.x, b.x, c.x)), fused(a.y, b.x, fused(a.x, b.y, c.y))};
}
template <typename R>
__device__ __forceinline__ Complex<R> mul(Complex<R> a, Complex<R> b) {
    return {fused(-a.y, b.y, mul(a.x, b.x)), fused(a.y, b.x, mul(a.x, b.y))};
}
template <typename R>
__device__ __forceinline__ Complex<R> add(Complex<R> a, Complex<R> b) {
    return {add(a.x, b.x), add(a.y, b.y)};
}
// By the smaller part of b over the greater one, so that no square overflows.
template <typename R>
__device__ Complex<R> quotient(Complex<R> a, Complex<R> b) {
    if (magnitude(b.x) >= magnitude(b.y)) {
        R r = quotient(b.y, b.x), d = fused(b.y, r, b.x);
        return {quotient(fused(a.y, r, a.x), d), quotient(fused(-a.x, r, a.y), d)};
    }
    R r = quotient(b.x, b.y), d = fused(b.x, r, b.y);
    return {quotient(fused(a.x, r, a.y), d), quotient(fused(a.y, r, -a.x), d)};
}
template <typename R>
__device__ __forceinline__ Complex<R> negative(Complex<R> a) { return {-a.x, -a.y}; }
template <typename T>
__device__ __forceinline__ T negative(T a) { return -a; }
template <typename R>
__device__ __forceinline__ Complex<R> conjugate(Complex<R> a) { return {a.x, -a.y}; }
template <typename T>
__device__ __forceinline__ T conjugate(T a) { return a; }
template <typename R>
__device__ __forceinline__ R real(Complex<R> a) { return a.x; }
template <typename T>
__device__ __forceinline__ T real(T a) { return a; }
template <typename R>
__device__ __forceinline__ R imaginary(Complex<R> a) { return a.y; }
template <typename T>
__device__ __forceinline__ T imaginary(T) { return T(0); }
template <typename T>
__device__ __forceinline__ bool is_zero(T a) { return real(a) == 0 && imaginary(a) == 0; }
// A number of its parts.
__device__ __forceinline__ void make(float& to, double x, double) { to = (float)x; }
__device__ __forceinline__ void make(double& to, double x, double) { to = x; }
__device__ __forceinline__ void make(int& to, double x, double) { to = (int)x; }
template <typename R>
__device__ __forceinline__ void make(Complex<R>& to, double x, double y) { to = {(R)x, (R)y}; }
template <typename T>
__device__ __forceinline__ T number(double x, double y = 0) {
    T to;
    make(to, x, y);
    return to;
}

__device__ __forceinline__ float of_half(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ unsigned short half_of(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
__device__ __forceinline__ float of_bf16(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
// The instruction for this needs sm_80.
__device__ __forceinline__ unsigned short bf16_of(float value) {
    unsigned bits = __float_as_uint(value);
    if (value != value)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
__device__ inline float of_e4m3(unsigned char bits) {
    unsigned exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value = exponent ? __uint_as_float((exponent + 120) << 23 | mantissa << 20) : mul((float)mantissa, 0x1p-9f);
    if ((bits & 127) == 127)
        value = __uint_as_float(0x7fffffff);
    return bits & 128 ? -value : value;
}
// Rounds to 8 bits, ties to even, with values above the greatest one becoming it.
template <int MANTISSA, int LEAST>
__device__ unsigned char eight_bits(float value, float greatest, unsigned char nan) {
    unsigned bits = __float_as_uint(value);
    unsigned char sign = (unsigned char)(bits >> 24 & 128);
    float size = magnitude(value);
    if (value != value)
        return sign | nan;
    if (size > greatest)
        size = greatest;
    int exponent = (int)(__float_as_uint(size) >> 23) - 127;
    if (exponent < LEAST)
        exponent = LEAST;
    // Multiples of the last place: an integer, which the sum of exponent and mantissa continues over powers of two.
    int places = __float2int_rn(mul(size, __uint_as_float((unsigned)(127 + MANTISSA - exponent) << 23)));
    unsigned char result = (unsigned char)(((exponent - LEAST) << MANTISSA) + places);
    return sign | result;
}
__device__ inline unsigned char e4m3_of(float value) { return eight_bits<3, -6>(value, 448.0f, 0x7f); }
__device__ inline unsigned char e5m2_of(float value) { return eight_bits<2, -14>(value, 57344.0f, 0x7f); }
__device__ inline int clamped(float value, int least, int greatest) {
    int whole = __float2int_rn(value);
    return whole < least ? least : whole > greatest ? greatest : whole;
}

__device__ __noinline__ float load_as(float*, const void* p, i64 i, int type) {
    switch (type) {
    case R_16F: return of_half(((const unsigned short*)p)[i]);
    case R_16BF: return of_bf16(((const unsigned short*)p)[i]);
    case R_8I: return ((const signed char*)p)[i];
    case R_8U: return ((const unsigned char*)p)[i];
    case R_32I: return __int2float_rn(((const int*)p)[i]);
    case E4M3: return of_e4m3(((const unsigned char*)p)[i]);
    case E5M2: return of_half((unsigned short)(((const unsigned char*)p)[i] << 8));
    case R_64F: return __double2float_rn(((const double*)p)[i]);
    default: return ((const float*)p)[i];
    }
}
__device__ inline double load_as(double*, const void* p, i64 i, int type) {
    return type == R_32F ? ((const float*)p)[i] : ((const double*)p)[i];
}
__device__ inline int load_as(int*, const void* p, i64 i, int type) {
    return type == R_8I ? ((const signed char*)p)[i] : ((const int*)p)[i];
}
__device__ inline c32 load_as(c32*, const void* p, i64 i, int type) {
    switch (type) {
    case R_32F: return {((const float*)p)[i], 0};
    case C_8I: return {(float)((const signed char*)p)[2 * i], (float)((const signed char*)p)[2 * i + 1]};
    default: return {((const float*)p)[2 * i], ((const float*)p)[2 * i + 1]};
    }
}
__device__ inline c64 load_as(c64*, const void* p, i64 i, int type) {
    if (type == R_64F)
        return {((const double*)p)[i], 0};
    return {((const double*)p)[2 * i], ((const double*)p)[2 * i + 1]};
}
template <typename T>
__device__ __forceinline__ T load(const void* p, i64 i, int type) { return load_as((T*)0, p, i, type); }

__device__ __noinline__ void store(void* p, i64 i, int type, float value) {
    switch (type) {
    case R_16F: ((unsigned short*)p)[i] = half_of(value); break;
    case R_16BF: ((unsigned short*)p)[i] = bf16_of(value); break;
    case R_8I: ((signed char*)p)[i] = (signed char)clamped(value, -128, 127); break;
    case E4M3: ((unsigned char*)p)[i] = e4m3_of(value); break;
    case E5M2: ((unsigned char*)p)[i] = e5m2_of(value); break;
    default: ((float*)p)[i] = value;
    }
}
__device__ inline void store(void* p, i64 i, int, double value) { ((double*)p)[i] = value; }
__device__ inline void store(void* p, i64 i, int type, int value) {
    if (type == R_8I)
        ((signed char*)p)[i] = (signed char)(value < -128 ? -128 : value > 127 ? 127 : value);
    else
        ((int*)p)[i] = value;
}
__device__ inline void store(void* p, i64 i, int type, c32 value) {
    if (type == R_32F) {
        ((float*)p)[i] = value.x;
        return;
    }
    ((float*)p)[2 * i] = value.x;
    ((float*)p)[2 * i + 1] = value.y;
}
__device__ inline void store(void* p, i64 i, int type, c64 value) {
    if (type == R_64F) {
        ((double*)p)[i] = value.x;
        return;
    }
    ((double*)p)[2 * i] = value.x;
    ((double*)p)[2 * i + 1] = value.y;
}

// Which elements of a matrix are stored.
enum Shape { FULL, SYMMETRIC, HERMITIAN, TRIANGULAR, UNIT_TRIANGULAR };

// A matrix, or one for each of a batch. It is the same structure as in src/kernels.rs.
struct Operand {
    u64 at;        // the first element, or with `arrays` a list of such addresses
    i64 row, col;  // the distances of neighbours in elements
    i64 batch;     // the distance of matrices in elements; of a list, the offset of each
    int type, conj, arrays;
    short shape, upper;

    __device__ __forceinline__ void* base(i64 number) const {
        return arrays ? (void*)((const u64*)at)[number] : (void*)at;
    }
    __device__ __forceinline__ i64 index(i64 number, i64 i, i64 j) const {
        return (arrays ? batch : number * batch) + i * row + j * col;
    }
    template <typename T>
    __device__ __forceinline__ T get(i64 number, i64 i, i64 j) const {
        T value = load<T>(base(number), index(number, i, j), type);
        return conj ? conjugate(value) : value;
    }
    // As `get`, of a matrix of any shape.
    template <typename T>
    __device__ T shaped(i64 number, i64 i, i64 j) const {
        if (shape == FULL)
            return get<T>(number, i, j);
        bool stored = i == j || (upper ? i < j : i > j);
        if (shape >= TRIANGULAR) {
            if (!stored)
                return T{};
            return shape == UNIT_TRIANGULAR && i == j ? number_one<T>() : get<T>(number, i, j);
        }
        T value = stored ? get<T>(number, i, j) : get<T>(number, j, i);
        if (shape == HERMITIAN) {
            if (!stored)
                value = conjugate(value);
            if (i == j)
                value = blas::number<T>(real(value));
        }
        return value;
    }
    template <typename T>
    __device__ __forceinline__ static T number_one() { return blas::number<T>(1); }
    template <typename T>
    __device__ __forceinline__ void put(i64 number, i64 i, i64 j, T value) const {
        store(base(number), index(number, i, j), type, value);
    }
};

// A factor: a value, or if `at` is not 0 what lies there.
struct Scalar {
    u64 at;
    double x, y;
    i64 row, batch;  // the distances of the factors of neighbouring rows and matrices in elements
    int type, conj;

    template <typename T>
    __device__ __forceinline__ T get(i64 number = 0, i64 i = 0) const {
        T value = at ? load<T>((const void*)at, number * batch + i * row, type) : blas::number<T>(x, y);
        return conj ? conjugate(value) : value;
    }
};

}  // namespace blas
