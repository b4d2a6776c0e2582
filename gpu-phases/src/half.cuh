// `f16` and `bf16` of the crate `half`: operations compute in `f32` and round once.
template <int K> struct half_num {
    unsigned short b;
};
using f16 = half_num<0>;
using bf16 = half_num<1>;
PHASES_FN float wide(f16 a) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(a.b));
    return x;
}
PHASES_FN float wide(bf16 a) { return __uint_as_float(unsigned(a.b) << 16); }
template <int K> PHASES_FN half_num<K> narrow(float x) {
    if constexpr (K == 0) {
        unsigned short b;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(x));
        return half_num<K>{b};
    } else {
        // To the nearest, ties to even: not all devices have the instruction.
        unsigned u = __float_as_uint(x);
        return half_num<K>{(unsigned short)(x == x ? (u + 0x7fffu + (u >> 16 & 1u)) >> 16 : 0x7fc0u)};
    }
}
// What the first conversion cuts off is kept as an odd last bit, so the second rounds as if it were the only one.
template <int K> PHASES_FN half_num<K> narrow(double x) {
    float y = __double2float_rz(x);
    if (x == x && double(y) != x) y = __uint_as_float(__float_as_uint(y) | 1u);
    return narrow<K>(y);
}
template <int K> PHASES_FN const half_num<K>& v(const ref<half_num<K>>& x) { return *x.p; }
template <int K> PHASES_FN const half_num<K>& v(const mut<half_num<K>>& x) { return *x.p; }
template <int K> PHASES_FN double printed(half_num<K> a) { return printed(f32(wide(a))); }
#define PHASES_HALF(name)                                                                                        \
    template <class C, int K> PHASES_FN half_num<K> name##_nums(C, line, half_num<K> a, half_num<K> b) {          \
        return narrow<K>(name##_(wide(a), wide(b)));                                                             \
    }
PHASES_HALF(add) PHASES_HALF(sub) PHASES_HALF(mul) PHASES_HALF(div) PHASES_HALF(rem)
#undef PHASES_HALF
#define PHASES_HALF(name, op)                                                                                    \
    template <int K> PHASES_FN bool name##_nums(half_num<K> a, half_num<K> b) { return wide(a) op wide(b); }
PHASES_HALF(eq, ==) PHASES_HALF(ne, !=) PHASES_HALF(lt, <) PHASES_HALF(le, <=) PHASES_HALF(gt, >) PHASES_HALF(ge, >=)
#undef PHASES_HALF
template <class C, int K> PHASES_FN half_num<K> neg_num(C, line, half_num<K> a) {
    return half_num<K>{(unsigned short)(a.b ^ 0x8000)};
}
#define PHASES_HALF(name)                                                                                        \
    template <class C, int K, class... A> PHASES_FN half_num<K> name##_num(C c, line l, half_num<K> a, A... b) {  \
        return narrow<K>(name##_num(c, l, f32(wide(a)), widened(b)...).v);                                       \
    }
template <int K> PHASES_FN f32 widened(half_num<K> a) { return f32(wide(a)); }
PHASES_FN i32 widened(i32 a) { return a; }
PHASES_HALF(abs) PHASES_HALF(signum) PHASES_HALF(floor) PHASES_HALF(ceil) PHASES_HALF(trunc) PHASES_HALF(round)
PHASES_HALF(round_ties_even) PHASES_HALF(fract) PHASES_HALF(sqrt) PHASES_HALF(recip) PHASES_HALF(stop_gradient) PHASES_HALF(min) PHASES_HALF(max)
PHASES_HALF(clamp) PHASES_HALF(copysign) PHASES_HALF(mul_add) PHASES_HALF(powi) PHASES_HALF(rem_euclid)
PHASES_HALF(div_euclid)
#undef PHASES_HALF
template <class C, int K> PHASES_FN u16 to_bits_num(C, line, half_num<K> a) {
    return u16(nan_(wide(a)) ? (unsigned short)(K == 0 ? 0x7e00 : 0x7fc0) : a.b);
}
template <class C, int K> PHASES_FN bool is_sign_negative_num(C, line, half_num<K> a) { return negative_(wide(a)); }
template <class C, int K> PHASES_FN bool is_sign_positive_num(C, line, half_num<K> a) { return !negative_(wide(a)); }
template <class C, int K> PHASES_FN bool is_nan_num(C, line, half_num<K> a) { return nan_(wide(a)); }
template <class C, int K> PHASES_FN bool is_infinite_num(C c, line l, half_num<K> a) { return is_infinite_num(c, l, f32(wide(a))); }
template <class C, int K> PHASES_FN bool is_finite_num(C c, line l, half_num<K> a) { return is_finite_num(c, l, f32(wide(a))); }
template <class C, int K> PHASES_FN f64 to_f64_num(C, line, half_num<K> a) { return f64(wide(a)); }
template <class C, class A> PHASES_FN auto m_to_f32(C, line, const A& a) -> decltype(f32(wide(v(a)))) { return f32(wide(v(a))); }
template <class C, int K, class A> PHASES_FN f32 a_to_f32(C c, line l, ty<half_num<K>>, const A& a) { return m_to_f32(c, l, a); }
template <class C, int K> PHASES_FN half_num<K> a_from_f32(C, line, ty<half_num<K>>, f32 x) { return narrow<K>(x.v); }
template <class C, int K> PHASES_FN half_num<K> a_from_f64(C, line, ty<half_num<K>>, f64 x) { return narrow<K>(x.v); }
template <class C, int K> PHASES_FN half_num<K> a_from_bits(C, line, ty<half_num<K>>, u16 x) { return half_num<K>{x.v}; }
template <class C, int K> PHASES_FN half_num<K> a_default(C, line, ty<half_num<K>>) { return half_num<K>{0}; }
// `From` of integers of 8 bits, which is exact, and of these types for `f32` and `f64`.
template <class C, int K, class R> PHASES_FN half_num<K> a_from(C, line, ty<half_num<K>>, num<R, 0> x) {
    return narrow<K>(float(x.v));
}
template <class C, class R, int K> PHASES_FN num<R, 0> a_from(C, line, ty<num<R, 0>>, half_num<K> x) {
    return num<R, 0>(wide(x));
}
