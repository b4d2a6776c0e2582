// Every operation of exact.cuh on every input: result k of thread i goes to out[k * n + i], as
// bits.
#include <geom/math/exact.cuh>

namespace exact = geom::exact;

#define PUT(value) out[k++ * n + i] = (value)
#define COMMON(T, bits)                                                                             \
    PUT(bits(exact::add(x, y)));                                                                    \
    PUT(bits(exact::add_up(x, y)));                                                                 \
    PUT(bits(exact::add_down(x, y)));                                                               \
    PUT(bits(exact::sub(x, y)));                                                                    \
    PUT(bits(exact::sub_up(x, y)));                                                                 \
    PUT(bits(exact::sub_down(x, y)));                                                               \
    PUT(bits(exact::mul(x, y)));                                                                    \
    PUT(bits(exact::mul_up(x, y)));                                                                 \
    PUT(bits(exact::mul_down(x, y)));                                                               \
    PUT(bits(exact::div(x, y)));                                                                    \
    PUT(bits(exact::fma(x, y, z)));                                                                 \
    PUT(bits(exact::sqrt(x)));                                                                      \
    PUT(bits(exact::sqrt_up(x)));                                                                   \
    PUT(bits(exact::min(x, y)));                                                                    \
    PUT(bits(exact::max(x, y)));                                                                    \
    PUT(bits(exact::abs(x)));                                                                       \
    PUT(bits(exact::neg(x)));                                                                       \
    PUT(bits(exact::floor(x)));                                                                     \
    PUT(bits(exact::round(x)));                                                                     \
    PUT(exact::less(x, y));                                                                         \
    PUT(exact::less_equal(x, y));                                                                   \
    PUT(exact::equal(x, y));                                                                        \
    PUT(exact::is_finite(x));                                                                       \
    PUT((unsigned)exact::floor_to_int(x))

extern "C" __global__ void of_float(
    const unsigned* a, const unsigned* b, const unsigned* c, unsigned long long* out, unsigned n
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float x = __uint_as_float(a[i]), y = __uint_as_float(b[i]), z = __uint_as_float(c[i]);
    COMMON(float, __float_as_uint);
    PUT((unsigned long long)__double_as_longlong(exact::widen(x)));
}

extern "C" __global__ void of_double(
    const long long* a, const long long* b, const long long* c, unsigned long long* out, unsigned n
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    double x = __longlong_as_double(a[i]), y = __longlong_as_double(b[i]),
           z = __longlong_as_double(c[i]);
    COMMON(double, (unsigned long long)__double_as_longlong);
    PUT(__float_as_uint(exact::narrow(x)));
    PUT((unsigned long long)exact::floor_to_long(x));
}
