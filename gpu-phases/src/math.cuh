
// The functions of numbers that `math.rs` defines, with the same results. `m_NAME` is the method `NAME`, `a_NAME` the associated
// function. Arguments may be references.
namespace phases {

template <bool B, class T> struct only_ {};
template <class T> struct only_<true, T> { using type = T; };
// `T` if it is an integer, a float, a signed or an unsigned integer; else the overload does not exist.
template <class R, int K> using int_ = typename only_<!raw<R>::floating, num<R, K>>::type;
template <class R, int K> using float_ = typename only_<raw<R>::floating, num<R, K>>::type;
template <class R, int K> using signed_ = typename only_<!raw<R>::floating && raw<R>::is_signed, num<R, K>>::type;
template <class R, int K> using unsigned_int_ = typename only_<!raw<R>::floating && !raw<R>::is_signed, num<R, K>>::type;
template <class R, int K> using as_unsigned_ = num<typename raw<R>::unsigned_, K>;

// A method of numbers without, with one, and with two arguments of the same type.
#define PHASES_METHOD0(name)                                                                                     \
    template <class C, class A> PHASES_FN auto m_##name(C c, line l, const A& a)->decltype(name##_num(c, l, v(a))) { \
        return name##_num(c, l, v(a));                                                                           \
    }                                                                                                            \
    template <class C, class T, class A>                                                                         \
    PHASES_FN auto a_##name(C c, line l, ty<T>, const A& a)->decltype(name##_num(c, l, v(a))) {                   \
        return name##_num(c, l, v(a));                                                                           \
    }
#define PHASES_METHOD1(name)                                                                                     \
    template <class C, class A, class B>                                                                         \
    PHASES_FN auto m_##name(C c, line l, const A& a, const B& b)->decltype(name##_num(c, l, v(a), v(b))) {        \
        return name##_num(c, l, v(a), v(b));                                                                     \
    }                                                                                                            \
    template <class C, class T, class A, class B>                                                                \
    PHASES_FN auto a_##name(C c, line l, ty<T>, const A& a, const B& b)->decltype(name##_num(c, l, v(a), v(b))) { \
        return name##_num(c, l, v(a), v(b));                                                                     \
    }
#define PHASES_METHOD2(name)                                                                                     \
    template <class C, class A, class B, class D>                                                                \
    PHASES_FN auto m_##name(C c, line l, const A& a, const B& b, const D& d)                                      \
        ->decltype(name##_num(c, l, v(a), v(b), v(d))) {                                                         \
        return name##_num(c, l, v(a), v(b), v(d));                                                               \
    }                                                                                                            \
    template <class C, class T, class A, class B, class D>                                                       \
    PHASES_FN auto a_##name(C c, line l, ty<T>, const A& a, const B& b, const D& d)                               \
        ->decltype(name##_num(c, l, v(a), v(b), v(d))) {                                                         \
        return name##_num(c, l, v(a), v(b), v(d));                                                               \
    }

// ---- Floats.

PHASES_FN bool nan_(float a) { return !(a == a); }
PHASES_FN bool nan_(double a) { return !(a == a); }
PHASES_FN unsigned bits_(float a) { return nan_(a) ? 0x7fc00000u : __float_as_uint(a); }
PHASES_FN unsigned long long bits_(double a) {
    return nan_(a) ? 0x7ff8000000000000ull : (unsigned long long)__double_as_longlong(a);
}
PHASES_FN bool negative_(float a) { return !nan_(a) && (__float_as_uint(a) >> 31) != 0; }
PHASES_FN bool negative_(double a) { return !nan_(a) && __double_as_longlong(a) < 0; }
// `min.f32` and the others ignore a NaN, and order -0.0 before 0.0. As assembly, as compilers fold `fminf` by other rules.
#define PHASES_MINMAX(name, type, constraint)                                                                    \
    PHASES_FN type name##_(type a, type b) {                                                                     \
        type r;                                                                                                  \
        asm(#name "." constraint " %0, %1, %2;" : PHASES_OUT_##type(r) : PHASES_IN_##type(a), PHASES_IN_##type(b)); \
        return r;                                                                                                \
    }
#define PHASES_OUT_float "=f"
#define PHASES_IN_float "f"
#define PHASES_OUT_double "=d"
#define PHASES_IN_double "d"
PHASES_MINMAX(min, float, "f32")
PHASES_MINMAX(max, float, "f32")
PHASES_MINMAX(min, double, "f64")
PHASES_MINMAX(max, double, "f64")
#undef PHASES_MINMAX
PHASES_FN float abs_(float a) { return fabsf(a); }
PHASES_FN double abs_(double a) { return fabs(a); }
PHASES_FN float copysign_(float a, float b) { return copysignf(a, b); }
PHASES_FN double copysign_(double a, double b) { return copysign(a, b); }
PHASES_FN float floor_(float a) { return floorf(a); }
PHASES_FN double floor_(double a) { return floor(a); }
PHASES_FN float ceil_(float a) { return ceilf(a); }
PHASES_FN double ceil_(double a) { return ceil(a); }
PHASES_FN float trunc_(float a) { return truncf(a); }
PHASES_FN double trunc_(double a) { return trunc(a); }
PHASES_FN float round_(float a) { return roundf(a); }
PHASES_FN double round_(double a) { return round(a); }
PHASES_FN float round_ties_even_(float a) { return rintf(a); }
PHASES_FN double round_ties_even_(double a) { return rint(a); }
PHASES_FN float sqrt_(float a) { return __fsqrt_rn(a); }
PHASES_FN double sqrt_(double a) { return __dsqrt_rn(a); }
PHASES_FN float fma_(float a, float b, float d) { return __fmaf_rn(a, b, d); }
PHASES_FN double fma_(double a, double b, double d) { return __fma_rn(a, b, d); }

template <class C, class R, int K> PHASES_FN float_<R, K> min_num(C, line, num<R, K> a, num<R, K> b) {
    return num<R, K>(min_(a.v, b.v));
}
template <class C, class R, int K> PHASES_FN float_<R, K> max_num(C, line, num<R, K> a, num<R, K> b) {
    return num<R, K>(max_(a.v, b.v));
}
template <class C, class R, int K>
PHASES_FN float_<R, K> clamp_num(C c, line l, num<R, K> a, num<R, K> low, num<R, K> high) {
    if (!(low.v <= high.v)) c.fail(l, Assert);
    R x = a.v < low.v ? low.v : a.v;
    return num<R, K>(x > high.v ? high.v : x);
}
template <class C, class R, int K> PHASES_FN float_<R, K> copysign_num(C, line, num<R, K> a, num<R, K> b) {
    return num<R, K>(negative_(b.v) ? -abs_(a.v) : abs_(a.v));
}
template <class C, class R, int K> PHASES_FN float_<R, K> mul_add_num(C, line, num<R, K> a, num<R, K> b, num<R, K> d) {
    return num<R, K>(fma_(a.v, b.v, d.v));
}
template <class C, class R, int K> PHASES_FN float_<R, K> abs_num(C, line, num<R, K> a) { return num<R, K>(abs_(a.v)); }
template <class C, class R, int K> PHASES_FN float_<R, K> signum_num(C, line, num<R, K> a) {
    return num<R, K>(nan_(a.v) ? a.v : copysign_(R(1), a.v));
}
#define PHASES_FLOAT(name)                                                                                       \
    template <class C, class R, int K> PHASES_FN float_<R, K> name##_num(C, line, num<R, K> a) {                  \
        return num<R, K>(name##_(a.v));                                                                          \
    }
PHASES_FLOAT(floor)
PHASES_FLOAT(ceil)
PHASES_FLOAT(trunc)
PHASES_FLOAT(round)
PHASES_FLOAT(round_ties_even)
PHASES_FLOAT(sqrt)
#undef PHASES_FLOAT
template <class C, class R, int K> PHASES_FN float_<R, K> fract_num(C, line, num<R, K> a) {
    return num<R, K>(sub_(a.v, trunc_(a.v)));
}
#ifdef PHASES_GRADIENT
// An instruction that no device has: this text is differentiated, and not compiled for one.
template <class C> PHASES_FN f32 stop_gradient_num(C, line, f32 a) {
    float y;
    asm("ad.stop.f32 %0, %1;" : "=f"(y) : "f"(a.v));
    return f32(y);
}
template <class C> PHASES_FN f64 stop_gradient_num(C, line, f64 a) {
    double y;
    asm("ad.stop.f64 %0, %1;" : "=d"(y) : "d"(a.v));
    return f64(y);
}
#else
template <class C, class R, int K> PHASES_FN float_<R, K> stop_gradient_num(C, line, num<R, K> a) { return a; }
#endif
template <class C, class R, int K> PHASES_FN float_<R, K> recip_num(C, line, num<R, K> a) {
    return num<R, K>(div_(R(1), a.v));
}
template <class C, class R, int K, class S> PHASES_FN float_<R, K> powi_num(C, line, num<R, K> a, num<S, 0> b) {
    static_assert(same<S, int>, "the exponent is an i32");
    R base = a.v, power = R(1);
    unsigned left = b.v < 0 ? 0u - unsigned(b.v) : unsigned(b.v);
    for (;;) {
        if (left & 1) power = mul_(power, base);
        left /= 2;
        if (left == 0) break;
        base = mul_(base, base);
    }
    return num<R, K>(b.v < 0 ? div_(R(1), power) : power);
}
template <class C, class R, int K> PHASES_FN float_<R, K> rem_euclid_num(C, line, num<R, K> a, num<R, K> b) {
    R rest = rem_(a.v, b.v);
    return num<R, K>(rest < R(0) ? add_(rest, abs_(b.v)) : rest);
}
template <class C, class R, int K> PHASES_FN float_<R, K> div_euclid_num(C, line, num<R, K> a, num<R, K> b) {
    R quotient = trunc_(div_(a.v, b.v));
    if (rem_(a.v, b.v) < R(0)) return num<R, K>(b.v > R(0) ? sub_(quotient, R(1)) : add_(quotient, R(1)));
    return num<R, K>(quotient);
}
template <class C> PHASES_FN u32 to_bits_num(C, line, f32 a) { return u32(bits_(a.v)); }
template <class C> PHASES_FN u64 to_bits_num(C, line, f64 a) { return u64(bits_(a.v)); }
#define PHASES_TEST(name, expression)                                                                            \
    template <class C, class R, int K, class = float_<R, K>> PHASES_FN bool name##_num(C, line, num<R, K> a) {    \
        return expression;                                                                                       \
    }
PHASES_TEST(is_sign_negative, negative_(a.v))
PHASES_TEST(is_sign_positive, !negative_(a.v))
PHASES_TEST(is_nan, nan_(a.v))
// An infinity less itself is a NaN, and so is a NaN.
PHASES_TEST(is_infinite, !nan_(a.v) && nan_(sub_(a.v, a.v)))
PHASES_TEST(is_finite, !nan_(sub_(a.v, a.v)))
#undef PHASES_TEST
template <class C> PHASES_FN f32 a_from_bits(C, line, ty<f32>, u32 x) { return f32(bits_f32(x.v)); }
template <class C> PHASES_FN f64 a_from_bits(C, line, ty<f64>, u64 x) { return f64(bits_f64(x.v)); }
// `From` of numbers, which is `as` where nothing is lost.
template <class C, class R, int K, class A> PHASES_FN num<R, K> a_from(C, line, ty<num<R, K>>, const A& x) {
    return as<num<R, K>>(v(x));
}
template <class C, class R, int K> PHASES_FN num<R, K> a_from_f64(C, line, ty<num<R, K>>, f64 x) { return num<R, K>(R(x.v)); }
template <class C, class R, int K> PHASES_FN num<R, K> a_default(C, line, ty<num<R, K>>) { return num<R, K>(R(0)); }
template <class C, class R, int K, class = float_<R, K>> PHASES_FN f64 to_f64_num(C, line, num<R, K> a) { return f64(a.v); }

// ---- Integers.

template <class R> PHASES_FN bool below_zero(R a) {
    if constexpr (raw<R>::is_signed) return a < R(0);
    return false;
}
// The functions of CUDA are one instruction, also of a sum. NVVM rewrites a comparison with it.
template <class C, class R, int K> PHASES_FN int_<R, K> min_num(C, line, num<R, K> a, num<R, K> b) {
    return num<R, K>(R(::min(a.v, b.v)));
}
template <class C, class R, int K> PHASES_FN int_<R, K> max_num(C, line, num<R, K> a, num<R, K> b) {
    return num<R, K>(R(::max(a.v, b.v)));
}
template <class C, class R, int K>
PHASES_FN int_<R, K> clamp_num(C c, line l, num<R, K> a, num<R, K> low, num<R, K> high) {
    if (low.v > high.v) c.fail(l, Assert);
    return a.v < low.v ? low : a.v > high.v ? high : a;
}
template <class C, class R, int K> PHASES_FN signed_<R, K> abs_num(C c, line l, num<R, K> a) {
    if (a.v >= R(0)) return a;
    return neg_num(c, l, a);
}
template <class C, class R, int K> PHASES_FN signed_<R, K> signum_num(C, line, num<R, K> a) {
    return num<R, K>(R(a.v > R(0) ? 1 : a.v < R(0) ? -1 : 0));
}
template <class C, class R, int K> PHASES_FN int_<R, K> rem_euclid_num(C c, line l, num<R, K> a, num<R, K> b) {
    if (division_fails(c, l, a.v, b.v)) return a;
    using W = typename raw<R>::wide;
    R rest = R(a.v % b.v);
    if (below_zero(rest)) rest = R(below_zero(b.v) ? W(rest) - W(b.v) : W(rest) + W(b.v));
    return num<R, K>(rest);
}
template <class C, class R, int K> PHASES_FN int_<R, K> div_euclid_num(C c, line l, num<R, K> a, num<R, K> b) {
    if (division_fails(c, l, a.v, b.v)) return a;
    using W = typename raw<R>::wide;
    R quotient = R(a.v / b.v);
    if (below_zero(R(a.v % b.v))) quotient = R(b.v > R(0) ? W(quotient) - 1 : W(quotient) + 1);
    return num<R, K>(quotient);
}
template <class C, class R, int K> PHASES_FN unsigned_int_<R, K> div_ceil_num(C c, line l, num<R, K> a, num<R, K> b) {
    if (division_fails(c, l, a.v, b.v)) return a;
    return num<R, K>(R(a.v / b.v + (a.v % b.v != 0)));
}
template <class C, class R, int K> PHASES_FN int_<R, K> pow_num(C c, line l, num<R, K> a, u32 b) {
    num<R, K> base = a, power = num<R, K>(R(1));
    unsigned left = b.v;
    while (left > 1) {
        if (left & 1) power = mul_nums(c, l, power, base);
        left /= 2;
        base = mul_nums(c, l, base, base);
    }
    return left == 1 ? mul_nums(c, l, power, base) : power;
}

// A number's bits, in a type with as many or more.
template <class R> PHASES_FN typename raw<R>::unsigned_ plain_bits(R a) { return typename raw<R>::unsigned_(a); }
template <class C, class R, int K, class = int_<R, K>> PHASES_FN u32 count_ones_num(C, line, num<R, K> a) {
    return u32(unsigned(__popcll(plain_bits(a.v))));
}
template <class C, class R, int K, class = int_<R, K>> PHASES_FN u32 count_zeros_num(C, line, num<R, K> a) {
    return u32(unsigned(raw<R>::bits - __popcll(plain_bits(a.v))));
}
template <class C, class R, int K, class = int_<R, K>> PHASES_FN u32 leading_zeros_num(C, line, num<R, K> a) {
    return u32(unsigned(__clzll((long long)(unsigned long long)plain_bits(a.v)) - (64 - raw<R>::bits)));
}
template <class C, class R, int K, class = int_<R, K>> PHASES_FN u32 trailing_zeros_num(C, line, num<R, K> a) {
    unsigned long long bits = plain_bits(a.v);
    return u32(unsigned(bits == 0 ? raw<R>::bits : __ffsll((long long)bits) - 1));
}
template <class C, class R, int K> PHASES_FN int_<R, K> rotate_left_num(C, line, num<R, K> a, u32 b) {
    using U = typename raw<R>::unsigned_;
    constexpr unsigned mask = raw<R>::bits - 1;
    typename raw<R>::wide x = plain_bits(a.v);
    return num<R, K>(R(U((x << (b.v & mask)) | (x >> ((0u - b.v) & mask)))));
}
template <class C, class R, int K> PHASES_FN int_<R, K> rotate_right_num(C c, line l, num<R, K> a, u32 b) {
    return rotate_left_num(c, l, a, u32(0u - b.v));
}
template <class C, class R, int K> PHASES_FN int_<R, K> reverse_bits_num(C, line, num<R, K> a) {
    return num<R, K>(R(__brevll((unsigned long long)plain_bits(a.v)) >> (64 - raw<R>::bits)));
}
template <class C, class R, int K> PHASES_FN int_<R, K> swap_bytes_num(C, line, num<R, K> a) {
    unsigned long long x = plain_bits(a.v), y = 0;
#pragma unroll
    for (int i = 0; i < raw<R>::bits; i += 8) y = y << 8 | (x >> i & 255);
    return num<R, K>(R(y));
}
template <class C, class R, int K, class = unsigned_int_<R, K>> PHASES_FN bool is_power_of_two_num(C, line, num<R, K> a) {
    return a.v != 0 && (a.v & (a.v - 1)) == 0;
}
template <class C, class R, int K, class = signed_<R, K>> PHASES_FN bool is_negative_num(C, line, num<R, K> a) {
    return a.v < R(0);
}
template <class C, class R, int K, class = signed_<R, K>> PHASES_FN bool is_positive_num(C, line, num<R, K> a) {
    return a.v > R(0);
}
template <class C, class R, int K, class = signed_<R, K>>
PHASES_FN as_unsigned_<R, K> unsigned_abs_num(C, line, num<R, K> a) {
    using U = typename raw<R>::unsigned_;
    return as_unsigned_<R, K>(U(a.v < R(0) ? U(0) - U(a.v) : U(a.v)));
}
template <class C, class R, int K, class = int_<R, K>>
PHASES_FN as_unsigned_<R, K> abs_diff_num(C, line, num<R, K> a, num<R, K> b) {
    using U = typename raw<R>::unsigned_;
    return as_unsigned_<R, K>(U(a.v < b.v ? U(b.v) - U(a.v) : U(a.v) - U(b.v)));
}
template <class C, class R, int K, class = int_<R, K>> PHASES_FN i64 to_i64_num(C, line, num<R, K> a) {
    return i64((long long)a.v);
}
template <class C, class R, int K> PHASES_FN num<R, K> a_from_i64(C, line, ty<num<R, K>>, i64 x) { return num<R, K>(R(x.v)); }

#define PHASES_WRAP(name, op)                                                                                    \
    template <class C, class R, int K> PHASES_FN int_<R, K> wrapping_##name##_num(C, line, num<R, K> a, num<R, K> b) { \
        using W = typename raw<R>::wide;                                                                         \
        return num<R, K>(R(W(a.v) op W(b.v)));                                                                   \
    }                                                                                                            \
    template <class C, class R, int K, class = int_<R, K>>                                                       \
    PHASES_FN option<num<R, K>> checked_##name##_num(C, line, num<R, K> a, num<R, K> b) {                         \
        using W = typename raw<R>::wide;                                                                         \
        return option<num<R, K>>{!name##_overflows(a.v, b.v), num<R, K>(R(W(a.v) op W(b.v)))};                   \
    }
PHASES_WRAP(add, +)
PHASES_WRAP(sub, -)
PHASES_WRAP(mul, *)
#undef PHASES_WRAP
template <class C, class R, int K> PHASES_FN int_<R, K> wrapping_neg_num(C, line, num<R, K> a) {
    using W = typename raw<R>::wide;
    return num<R, K>(R(W(0) - W(a.v)));
}
template <class C, class R, int K> PHASES_FN int_<R, K> wrapping_shl_num(C, line, num<R, K> a, u32 b) {
    return num<R, K>(R(typename raw<R>::wide(a.v) << (b.v & (raw<R>::bits - 1))));
}
template <class C, class R, int K> PHASES_FN int_<R, K> wrapping_shr_num(C, line, num<R, K> a, u32 b) {
    return num<R, K>(R(a.v >> (b.v & (raw<R>::bits - 1))));
}
// The result that overflows is on the side of the first operand's sign; that of a product, of both signs.
template <class C, class R, int K> PHASES_FN int_<R, K> saturating_add_num(C, line, num<R, K> a, num<R, K> b) {
    using W = typename raw<R>::wide;
    if (!add_overflows(a.v, b.v)) return num<R, K>(R(W(a.v) + W(b.v)));
    return num<R, K>(below_zero(a.v) ? raw<R>::min : raw<R>::max);
}
template <class C, class R, int K> PHASES_FN int_<R, K> saturating_sub_num(C, line, num<R, K> a, num<R, K> b) {
    using W = typename raw<R>::wide;
    if (!sub_overflows(a.v, b.v)) return num<R, K>(R(W(a.v) - W(b.v)));
    return num<R, K>(!raw<R>::is_signed || below_zero(a.v) ? raw<R>::min : raw<R>::max);
}
template <class C, class R, int K> PHASES_FN int_<R, K> saturating_mul_num(C, line, num<R, K> a, num<R, K> b) {
    using W = typename raw<R>::wide;
    if (!mul_overflows(a.v, b.v)) return num<R, K>(R(W(a.v) * W(b.v)));
    return num<R, K>(below_zero(a.v) != below_zero(b.v) ? raw<R>::min : raw<R>::max);
}

PHASES_METHOD1(min) PHASES_METHOD1(max) PHASES_METHOD2(clamp) PHASES_METHOD1(copysign) PHASES_METHOD2(mul_add)
PHASES_METHOD0(abs) PHASES_METHOD0(signum) PHASES_METHOD0(floor) PHASES_METHOD0(ceil) PHASES_METHOD0(trunc)
PHASES_METHOD0(round) PHASES_METHOD0(round_ties_even) PHASES_METHOD0(sqrt) PHASES_METHOD0(fract) PHASES_METHOD0(recip)
PHASES_METHOD0(stop_gradient)
PHASES_METHOD1(powi) PHASES_METHOD1(rem_euclid) PHASES_METHOD1(div_euclid) PHASES_METHOD0(to_bits)
PHASES_METHOD0(is_sign_negative) PHASES_METHOD0(is_sign_positive) PHASES_METHOD0(is_nan) PHASES_METHOD0(is_infinite)
PHASES_METHOD0(is_finite) PHASES_METHOD0(to_f64) PHASES_METHOD1(div_ceil) PHASES_METHOD1(pow) PHASES_METHOD0(count_ones)
PHASES_METHOD0(count_zeros) PHASES_METHOD0(leading_zeros) PHASES_METHOD0(trailing_zeros) PHASES_METHOD1(rotate_left)
PHASES_METHOD1(rotate_right) PHASES_METHOD0(reverse_bits) PHASES_METHOD0(swap_bytes) PHASES_METHOD0(is_power_of_two)
PHASES_METHOD0(is_negative) PHASES_METHOD0(is_positive) PHASES_METHOD0(unsigned_abs) PHASES_METHOD1(abs_diff)
PHASES_METHOD0(to_i64) PHASES_METHOD1(wrapping_add) PHASES_METHOD1(wrapping_sub) PHASES_METHOD1(wrapping_mul)
PHASES_METHOD0(wrapping_neg) PHASES_METHOD1(wrapping_shl) PHASES_METHOD1(wrapping_shr) PHASES_METHOD1(checked_add)
PHASES_METHOD1(checked_sub) PHASES_METHOD1(checked_mul) PHASES_METHOD1(saturating_add) PHASES_METHOD1(saturating_sub)
PHASES_METHOD1(saturating_mul)
#undef PHASES_METHOD0
#undef PHASES_METHOD1
#undef PHASES_METHOD2

// ---- Enums with values.

// `V` is the hash of a variant's name. All other types are their only variant.
template <u64_raw V> struct variant_ {};
template <class T> constexpr bool with_values = false;
template <u64_raw V, class T> PHASES_FN void begin(T& x) {
    if constexpr (with_values<T>) x.tag = T::number(variant_<V>{});
}
template <u64_raw V, class T> PHASES_FN bool is_variant(const T& x) {
    if constexpr (with_values<T>) return x.tag == T::number(variant_<V>{});
    else return true;
}
template <u64_raw V, class T> PHASES_FN auto& variant(T& x) {
    if constexpr (with_values<plain<T>>) return x.part(variant_<V>{});
    else return x;
}
// A path as a pattern: a variant without values, or a constant.
template <u64_raw V, class T, class U> PHASES_FN bool matches(const T& x, const U& y) {
    if constexpr (with_values<T>) return is_variant<V>(x);
    else return o_eq(x, y);
}

// ---- Methods of `Option`.

struct nothing { // `None` of any type.
    template <class T> PHASES_FN operator option<T>() const { return option<T>{}; }
};
template <class C, class T, class F> PHASES_FN auto m_map(C c, line, const option<T>& x, const F& f) {
    using U = plain<decltype(d(f)(c, x.value))>;
    return x.some ? some<U>(d(f)(c, x.value)) : option<U>{};
}
template <class C, class T, class F> PHASES_FN auto m_and_then(C c, line, const option<T>& x, const F& f) {
    using U = plain<decltype(d(f)(c, x.value))>;
    return x.some ? U(d(f)(c, x.value)) : U{};
}
template <class C, class T, class U, class F> PHASES_FN U m_map_or(C c, line, const option<T>& x, U y, const F& f) {
    return x.some ? U(d(f)(c, x.value)) : y;
}
template <class C, class T, class F> PHASES_FN option<T> m_filter(C c, line, const option<T>& x, const F& f) {
    return x.some && d(f)(c, ref<T>(&x.value)) ? x : option<T>{};
}
template <class C, class T> PHASES_FN option<T> m_or(C, line, const option<T>& x, option<T> y) { return x.some ? x : y; }
template <class C, class T, class F> PHASES_FN option<T> m_or_else(C c, line, const option<T>& x, const F& f) {
    return x.some ? x : option<T>(d(f)(c));
}
template <class C, class T, class F> PHASES_FN T m_unwrap_or_else(C c, line, const option<T>& x, const F& f) {
    return x.some ? x.value : T(d(f)(c));
}
template <class C, class T, class F> PHASES_FN bool m_is_some_and(C c, line, const option<T>& x, const F& f) {
    return x.some && d(f)(c, x.value);
}

// ---- Elements that threads share. Every operation is relaxed.

template <class T> struct atomics { // `&Atomic<[T]>`
    T* p;
    len n;
};
template <class T> PHASES_FN usize length(const atomics<T>& x) { return usize(x.n); }

// The type in which CUDA has the operation: there is none on `long long`, but for the least and the greatest.
template <class R> using cell_ = pick<same<R, long long>, unsigned long long, R>;
template <class R> PHASES_FN R load_(R* p) { return *(volatile R*)p; }
template <class R> PHASES_FN void store_(R* p, R x) { *(volatile R*)p = x; }
#define PHASES_ATOMIC_BODY(result, ...)                                                                   \
    static_assert(!C::block, "atomic operations are for threads: `block.one(|| …)` makes one of them do it");    \
    if (i.v >= x.n) {                                                                                            \
        c.fail(l, Index, i.v, x.n);                                                                              \
        if constexpr (C::deferred) return result;                                                                \
    }                                                                                                            \
    if (!c.effects()) return result;                                                                             \
    R* p = &x.p[len(i.v)].v;                                                                                     \
    __VA_ARGS__
#define PHASES_ATOMIC(name, function, type)                                                                      \
    template <class C, class R, int K>                                                                           \
    PHASES_FN num<R, K> m_##name(C c, line l, const atomics<num<R, K>>& x, usize i, num<R, K> y) {                \
        PHASES_ATOMIC_BODY(y, return num<R, K>(R(function((type*)p, (type)y.v))));                               \
    }
PHASES_ATOMIC(fetch_add, atomicAdd, cell_<R>)
PHASES_ATOMIC(fetch_and, atomicAnd, cell_<R>)
PHASES_ATOMIC(fetch_or, atomicOr, cell_<R>)
PHASES_ATOMIC(fetch_xor, atomicXor, cell_<R>)
PHASES_ATOMIC(fetch_min, atomicMin, R)
PHASES_ATOMIC(fetch_max, atomicMax, R)
#undef PHASES_ATOMIC
template <class C, class R, int K>
PHASES_FN num<R, K> m_fetch_sub(C c, line l, const atomics<num<R, K>>& x, usize i, num<R, K> y) {
    using W = typename raw<R>::wide;
    return m_fetch_add(c, l, x, i, num<R, K>(R(W(0) - W(y.v))));
}
PHASES_FN double exchange_(double* p, double x) {
    return __longlong_as_double((long long)atomicExch((unsigned long long*)p, (unsigned long long)__double_as_longlong(x)));
}
template <class R> PHASES_FN R exchange_(R* p, R x) { return R(atomicExch((cell_<R>*)p, (cell_<R>)x)); }
template <class C, class R, int K>
PHASES_FN num<R, K> m_swap(C c, line l, const atomics<num<R, K>>& x, usize i, num<R, K> y) {
    PHASES_ATOMIC_BODY(y, return num<R, K>(exchange_(p, y.v)));
}
template <class C, class R, int K>
PHASES_FN num<R, K> m_compare_exchange(C c, line l, const atomics<num<R, K>>& x, usize i, num<R, K> y, num<R, K> z) {
    PHASES_ATOMIC_BODY(y, return num<R, K>(R(atomicCAS((cell_<R>*)p, (cell_<R>)y.v, (cell_<R>)z.v))));
}
template <class C, class R, int K> PHASES_FN num<R, K> m_load(C c, line l, const atomics<num<R, K>>& x, usize i) {
    PHASES_ATOMIC_BODY((num<R, K>(R(0))), return num<R, K>(load_(p)));
}
template <class C, class R, int K>
PHASES_FN unit m_store(C c, line l, const atomics<num<R, K>>& x, usize i, num<R, K> y) {
    PHASES_ATOMIC_BODY(unit{}, store_(p, y.v); return unit{});
}
#undef PHASES_ATOMIC_BODY
} // namespace phases
