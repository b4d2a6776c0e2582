// Operators, comparisons, casts, ranges, options and literals.
namespace phases {

// ---- Operators of numbers. References are allowed, as in Rust.

template <class T> PHASES_FN const T& v(const T& x) { return x; }
template <class R, int K> PHASES_FN const num<R, K>& v(const ref<num<R, K>>& x) { return *x.p; }
template <class R, int K> PHASES_FN const num<R, K>& v(const mut<num<R, K>>& x) { return *x.p; }
PHASES_FN const bool& v(const ref<bool>& x) { return *x.p; }
PHASES_FN const bool& v(const mut<bool>& x) { return *x.p; }

// What `printf` takes of a number or a `bool`. A NaN has no sign.
template <class R, int K> PHASES_FN auto printed(num<R, K> a) {
    if constexpr (raw<R>::floating) return a.v == a.v ? double(a.v) : __longlong_as_double(0x7ff8000000000000ll);
    else return pick<raw<R>::is_signed, long long, unsigned long long>(a.v);
}
PHASES_FN const char* printed(bool a) { return a ? "true" : "false"; }

PHASES_FN float add_(float a, float b) { return __fadd_rn(a, b); }
PHASES_FN double add_(double a, double b) { return __dadd_rn(a, b); }
PHASES_FN float sub_(float a, float b) { return __fsub_rn(a, b); }
PHASES_FN double sub_(double a, double b) { return __dsub_rn(a, b); }
PHASES_FN float mul_(float a, float b) { return __fmul_rn(a, b); }
PHASES_FN double mul_(double a, double b) { return __dmul_rn(a, b); }
PHASES_FN float div_(float a, float b) { return a / b; }
PHASES_FN double div_(double a, double b) { return a / b; }
PHASES_FN float rem_(float a, float b) { return fmodf(a, b); }
PHASES_FN double rem_(double a, double b) { return fmod(a, b); }

// The checks below keep these forms: NVRTC 12.0 and 13.0 miscompile a loop whose check is `a + b < a`.
template <class R> PHASES_FN bool add_overflows(R a, R b) {
    using U = typename raw<R>::unsigned_;
    if constexpr (sizeof(R) < 8) {
        long long s = (long long)a + (long long)b;
        return s < (long long)raw<R>::min || s > (long long)raw<R>::max;
    } else if constexpr (raw<R>::is_signed) {
        U s = U(a) + U(b);
        return (long long)((U(a) ^ s) & (U(b) ^ s)) < 0;
    } else {
        return b > R(~a);
    }
}
template <class R> PHASES_FN bool sub_overflows(R a, R b) {
    using U = typename raw<R>::unsigned_;
    if constexpr (!raw<R>::is_signed) {
        return a < b;
    } else if constexpr (sizeof(R) < 8) {
        long long s = (long long)a - (long long)b;
        return s < (long long)raw<R>::min || s > (long long)raw<R>::max;
    } else {
        U s = U(a) - U(b);
        return (long long)((U(a) ^ U(b)) & (U(a) ^ s)) < 0;
    }
}
template <class R> PHASES_FN bool mul_overflows(R a, R b) {
    if constexpr (sizeof(R) < 8 && raw<R>::is_signed) {
        long long s = (long long)a * (long long)b;
        return s < (long long)raw<R>::min || s > (long long)raw<R>::max;
    } else if constexpr (sizeof(R) < 8) {
        return (unsigned long long)a * (unsigned long long)b > (unsigned long long)raw<R>::max;
    } else if constexpr (raw<R>::is_signed) {
        return __mul64hi(a, b) != ((long long)((unsigned long long)a * (unsigned long long)b) >> 63);
    } else {
        return __umul64hi(a, b) != 0;
    }
}

template <class C, class R, int K> PHASES_FN num<R, K> add_nums(C c, line l, num<R, K> a, num<R, K> b) {
    if constexpr (raw<R>::floating) {
        return num<R, K>(add_(a.v, b.v));
    } else {
        using W = typename raw<R>::wide;
        if constexpr (C::strict && K == 1) {
            if (((a.v | b.v) >> 63) != 0) c.fail(l, Overflow);
        }
        if (C::overflow && add_overflows(a.v, b.v)) c.fail(l, Overflow);
        return num<R, K>(R(W(a.v) + W(b.v)));
    }
}
template <class C, class R, int K> PHASES_FN num<R, K> sub_nums(C c, line l, num<R, K> a, num<R, K> b) {
    if constexpr (raw<R>::floating) {
        return num<R, K>(sub_(a.v, b.v));
    } else {
        using W = typename raw<R>::wide;
        if (C::overflow && sub_overflows(a.v, b.v)) c.fail(l, Overflow);
        return num<R, K>(R(W(a.v) - W(b.v)));
    }
}
template <class C, class R, int K> PHASES_FN num<R, K> mul_nums(C c, line l, num<R, K> a, num<R, K> b) {
    if constexpr (raw<R>::floating) {
        return num<R, K>(mul_(a.v, b.v));
    } else {
        using W = typename raw<R>::wide;
        if constexpr (C::strict && K == 1) {
            if (((a.v | b.v) >> 32) != 0) c.fail(l, Overflow);
        }
        if (C::overflow && mul_overflows(a.v, b.v)) c.fail(l, Overflow);
        return num<R, K>(R(W(a.v) * W(b.v)));
    }
}
// Whether an integer division fails. Reports it.
template <class C, class R> PHASES_FN bool division_fails(C c, line l, R a, R b) {
    bool bad = b == R(0);
    if constexpr (raw<R>::is_signed) bad = bad || (b == R(-1) && a == raw<R>::min);
    if (bad) c.fail(l, Division);
    return bad;
}
template <class C, class R, int K> PHASES_FN num<R, K> div_nums(C c, line l, num<R, K> a, num<R, K> b) {
    if constexpr (raw<R>::floating) {
        return num<R, K>(div_(a.v, b.v));
    } else {
        if (division_fails(c, l, a.v, b.v)) return a;
        return num<R, K>(R(a.v / b.v));
    }
}
template <class C, class R, int K> PHASES_FN num<R, K> rem_nums(C c, line l, num<R, K> a, num<R, K> b) {
    if constexpr (raw<R>::floating) {
        return num<R, K>(rem_(a.v, b.v));
    } else {
        if (division_fails(c, l, a.v, b.v)) return a;
        return num<R, K>(R(a.v % b.v));
    }
}
template <class C, class R, int K, class S, int J>
PHASES_FN num<R, K> shl_nums(C c, line l, num<R, K> a, num<S, J> b) {
    using W = typename raw<R>::wide;
    if (C::overflow && (u64_raw)b.v >= raw<R>::bits) c.fail(l, Shift);
    return num<R, K>(R(W(a.v) << (W(b.v) & (raw<R>::bits - 1))));
}
template <class C, class R, int K, class S, int J>
PHASES_FN num<R, K> shr_nums(C c, line l, num<R, K> a, num<S, J> b) {
    using W = typename raw<R>::wide;
    if (C::overflow && (u64_raw)b.v >= raw<R>::bits) c.fail(l, Shift);
    return num<R, K>(R(a.v >> (W(b.v) & (raw<R>::bits - 1))));
}
#define PHASES_BITS(name, op)                                                                                   \
    template <class C, class R, int K> PHASES_FN num<R, K> name##_nums(C, line, num<R, K> a, num<R, K> b) {       \
        return num<R, K>(R(a.v op b.v));                                                                         \
    }                                                                                                            \
    template <class C> PHASES_FN bool name##_nums(C, line, bool a, bool b) { return bool(int(a) op int(b)); }
PHASES_BITS(bitand, &)
PHASES_BITS(bitor, |)
PHASES_BITS(bitxor, ^)
#undef PHASES_BITS
// `a + b` and `a += b`. User types overload `o_add` and `o_add_assign`.
#define PHASES_OPERATOR(name)                                                                                    \
    template <class C, class A, class B>                                                                         \
    PHASES_FN auto o_##name(C c, line l, const A& a, const B& b)->decltype(name##_nums(c, l, v(a), v(b))) {       \
        return name##_nums(c, l, v(a), v(b));                                                                    \
    }                                                                                                            \
    template <class C, class A, class B>                                                                         \
    PHASES_FN auto o_##name##_assign(C c, line l, A& a, const B& b)->decltype(a = name##_nums(c, l, a, v(b)), unit{}) { \
        a = name##_nums(c, l, a, v(b));                                                                          \
        return unit{};                                                                                           \
    }
PHASES_OPERATOR(add)
PHASES_OPERATOR(sub)
PHASES_OPERATOR(mul)
PHASES_OPERATOR(div)
PHASES_OPERATOR(rem)
PHASES_OPERATOR(shl)
PHASES_OPERATOR(shr)
PHASES_OPERATOR(bitand)
PHASES_OPERATOR(bitor)
PHASES_OPERATOR(bitxor)
#undef PHASES_OPERATOR

template <class C, class R, int K> PHASES_FN num<R, K> neg_num(C c, line l, num<R, K> a) {
    if constexpr (raw<R>::floating) {
        return num<R, K>(-a.v);
    } else {
        static_assert(raw<R>::is_signed, "an unsigned number has no negative");
        if (C::overflow && a.v == raw<R>::min) c.fail(l, Overflow);
        return num<R, K>(R(typename raw<R>::wide(0) - typename raw<R>::wide(a.v)));
    }
}
template <class C, class A> PHASES_FN auto o_neg(C c, line l, const A& a) -> decltype(neg_num(c, l, v(a))) {
    return neg_num(c, l, v(a));
}
template <class R, int K> PHASES_FN num<R, K> not_num(num<R, K> a) { return num<R, K>(R(~a.v)); }
PHASES_FN bool not_num(bool a) { return !a; }
template <class C, class A> PHASES_FN auto o_not(C, line, const A& a) -> decltype(not_num(v(a))) { return not_num(v(a)); }

// ---- Contraction by syntax: `a * b + c` of floats of one type is one operation.

PHASES_FN float fuse_(float a, float b, float c) { return __fmaf_rn(a, b, c); }
PHASES_FN double fuse_(double a, double b, double c) { return __fma_rn(a, b, c); }
template <class A> constexpr bool float_num = same<A, f32> || same<A, f64>;
template <class A, class B, class D>
constexpr bool fuses = float_num<plain<A>> && same<plain<A>, plain<B>> && same<plain<A>, plain<D>>;
#define PHASES_CONTRACT(name, x, y, z, fused, otherwise)                                                         \
    template <class C, class X, class Y, class Z>                                                                \
    PHASES_FN auto o_##name(C c, line l, const X& x, const Y& y, const Z& z) {                                   \
        if constexpr (fuses<decltype(v(x)), decltype(v(y)), decltype(v(z))>) {                                   \
            return plain<decltype(v(x))>(fused);                                                                 \
        } else {                                                                                                 \
            return otherwise;                                                                                    \
        }                                                                                                        \
    }
PHASES_CONTRACT(product_plus, a, b, d, fuse_(v(a).v, v(b).v, v(d).v), o_add(c, l, o_mul(c, l, a, b), d))
PHASES_CONTRACT(product_minus, a, b, d, fuse_(v(a).v, v(b).v, -v(d).v), o_sub(c, l, o_mul(c, l, a, b), d))
PHASES_CONTRACT(plus_product, d, a, b, fuse_(v(a).v, v(b).v, v(d).v), o_add(c, l, d, o_mul(c, l, a, b)))
PHASES_CONTRACT(minus_product, d, a, b, fuse_(-v(a).v, v(b).v, v(d).v), o_sub(c, l, d, o_mul(c, l, a, b)))
#undef PHASES_CONTRACT
template <class C, class S, class A, class B>
PHASES_FN unit o_add_product_assign(C c, line l, S& s, const A& a, const B& b) {
    if constexpr (fuses<S, decltype(v(a)), decltype(v(b))>) s = S(fuse_(v(a).v, v(b).v, s.v));
    else o_add_assign(c, l, s, o_mul(c, l, a, b));
    return unit{};
}
template <class C, class S, class A, class B>
PHASES_FN unit o_sub_product_assign(C c, line l, S& s, const A& a, const B& b) {
    if constexpr (fuses<S, decltype(v(a)), decltype(v(b))>) s = S(fuse_(-v(a).v, v(b).v, s.v));
    else o_sub_assign(c, l, s, o_mul(c, l, a, b));
    return unit{};
}

// ---- Comparisons.

#define PHASES_COMPARE(name, op)                                                                                 \
    template <class R, int K> PHASES_FN bool name##_nums(num<R, K> a, num<R, K> b) { return a.v op b.v; }         \
    PHASES_FN bool name##_nums(bool a, bool b) { return a op b; }                                                \
    template <class A, class B>                                                                                  \
    PHASES_FN auto o_##name(const A& a, const B& b)->decltype(name##_nums(v(a), v(b))) { return name##_nums(v(a), v(b)); }
PHASES_COMPARE(eq, ==)
PHASES_COMPARE(ne, !=)
PHASES_COMPARE(lt, <)
PHASES_COMPARE(le, <=)
PHASES_COMPARE(gt, >)
PHASES_COMPARE(ge, >=)
#undef PHASES_COMPARE
// Literal patterns: rustc has checked that `b` is a value of the type.
template <class R, int K, class L> PHASES_FN bool is(num<R, K> a, L b) { return a.v == R(b); }
PHASES_FN bool is(bool a, bool b) { return a == b; }
template <class R, int K, class L> PHASES_FN bool at_least(num<R, K> a, L b) { return a.v >= R(b); }
template <class R, int K, class L> PHASES_FN bool at_most(num<R, K> a, L b) { return a.v <= R(b); }
template <class R, int K, class L> PHASES_FN bool below(num<R, K> a, L b) { return a.v < R(b); }

// ---- `as`.

// Devices convert a float to the nearest integer of the type, and a NaN to 0, but for 64 bits on either side. As assembly,
// since C++ leaves the values outside of the type open.
PHASES_FN void truncated(int& r, float a) { asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(a)); }
PHASES_FN void truncated(unsigned& r, float a) { asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(r) : "f"(a)); }
PHASES_FN void truncated(long long& r, float a) { asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(r) : "f"(a)); }
PHASES_FN void truncated(unsigned long long& r, float a) { asm("cvt.rzi.u64.f32 %0, %1;" : "=l"(r) : "f"(a)); }
PHASES_FN void truncated(int& r, double a) { asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(a)); }
PHASES_FN void truncated(unsigned& r, double a) { asm("cvt.rzi.u32.f64 %0, %1;" : "=r"(r) : "d"(a)); }
PHASES_FN void truncated(long long& r, double a) { asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(r) : "d"(a)); }
PHASES_FN void truncated(unsigned long long& r, double a) { asm("cvt.rzi.u64.f64 %0, %1;" : "=l"(r) : "d"(a)); }
template <class T> struct cast_;
template <class R, int K> struct cast_<num<R, K>> {
    template <class S, int J> static PHASES_FN num<R, K> from(num<S, J> a) {
        if constexpr (raw<S>::floating && !raw<R>::floating) {
            pick<sizeof(R) == 8, R, pick<raw<R>::is_signed, int, unsigned>> x;
            truncated(x, a.v);
            if constexpr (sizeof(R) < 4) x = x < raw<R>::min ? raw<R>::min : x > raw<R>::max ? raw<R>::max : x;
            if constexpr (sizeof(R) == 8 || sizeof(S) == 8) x = a.v == a.v ? x : 0;
            return num<R, K>(R(x));
        } else {
            return num<R, K>(R(a.v));
        }
    }
    static PHASES_FN num<R, K> from(bool a) { return num<R, K>(R(a ? 1 : 0)); }
    template <class E> static PHASES_FN auto from(const E& a) -> decltype(num<R, K>(R(a.tag.v))) {
        return num<R, K>(R(a.tag.v)); // A C-like enum.
    }
};
template <> struct cast_<bool> {
    static PHASES_FN bool from(bool a) { return a; }
};
template <class T, class S> PHASES_FN T as(const S& a) { return cast_<T>::from(a); }

// ---- Ranges.

template <class T> struct range;
template <class R, int K> struct range<num<R, K>> {
    num<R, K> start, end;
    PHASES_FN num<R, K> number(R j) const { return num<R, K>(j); }
    PHASES_FN u64_raw distance() const { return u64_raw(end.v) - u64_raw(start.v); }
    // The number of items of `step_by`.
    PHASES_FN u64_raw steps(usize by, bool inclusive) const {
        if (inclusive ? start.v > end.v : start.v >= end.v) return 0;
        u64_raw distance = u64_raw(end.v) - u64_raw(start.v) - (inclusive ? 0 : 1);
        return by.v == 0 ? 0 : distance / by.v + 1;
    }
    PHASES_FN num<R, K> step(u64_raw j, usize by) const {
        const R x = R(u64_raw(start.v) + j * by.v);
        __builtin_assume(x <= end.v);
        return num<R, K>(x);
    }
};
// Whether the numbers are lengths.
template <class R, int K> PHASES_FN bool fits(range<num<R, K>> r) {
    if constexpr (raw<R>::is_signed) {
        if (r.start.v < R(0)) return false;
    }
    return u64_raw(r.end.v) <= len(-1);
}
// The last value of a counter whose range fits: then its upper half is zero, which compilers see by this.
template <class R, int K> PHASES_FN num<R, K> lower(num<R, K> x) { return num<R, K>(R(len(x.v))); }
template <class R, int K> PHASES_FN range<num<R, K>> upto(num<R, K> a, num<R, K> b) { return range<num<R, K>>{a, b}; }
template <class R> PHASES_FN R next(R x) { return R(typename raw<R>::wide(x) + 1); }
template <class R> PHASES_FN R before(R x) { return R(typename raw<R>::wide(x) - 1); }

// Items of `for`.
template <class T> PHASES_FN ref<plain<T>> item(const slice<T>& x, len j) { return ref<plain<T>>(x.p + j); }
template <class T> PHASES_FN mut<T> item_mut(const slice<T>& x, len j) { return mut<T>(x.p + j); }
template <class T, u64_raw N> PHASES_FN ref<T> item(const array<T, N>& x, len j) { return ref<T>(x.a + j); }
template <class T, u64_raw N> PHASES_FN mut<T> item_mut(array<T, N>& x, len j) { return mut<T>(x.a + j); }
template <class T, u64_raw N> PHASES_FN T element_of(const array<T, N>& x, len j) { return x.a[j]; }
template <class T> PHASES_FN ref<plain<T>> element_of(const slice<const T>& x, len j) { return item(x, j); }
template <class T> PHASES_FN mut<T> element_of(const slice<T>& x, len j) { return item_mut(x, j); }
template <class T> PHASES_FN auto element_of(const ref<T>& x, len j) { return item(*x.p, j); }
template <class T> PHASES_FN auto element_of(const mut<T>& x, len j) { return item_mut(*x.p, j); }
PHASES_FN u64_raw shorter(u64_raw a, u64_raw b) { return a < b ? a : b; }

// What a pattern binds to a part `p` of `x`: a copy, or a reference if `x` is one.
template <class X, class P> PHASES_FN plain<P> bind(const X&, P& p) { return p; }
template <class X, class P> PHASES_FN ref<plain<P>> bind(const ref<X>&, P& p) { return ref<plain<P>>(&p); }
template <class X, class P> PHASES_FN mut<P> bind(const mut<X>&, P& p) { return mut<P>(&p); }

template <class T> struct ty {}; // Names a type in a call: `a_new(c, L, ty<Vec3>{}, x)`.
template <class T> struct option {
    bool some;
    T value; // That of `None` is not set: writing it would cost each thread registers.
    PHASES_FN option() : some(false) {}
    PHASES_FN option(bool s, T v) : some(s), value(v) {}
};
template <class T> constexpr bool points<option<T>> = points<T>;
template <class T> constexpr bool leads<option<T>> = points<T>;
template <class T> PHASES_FN option<T> some(T x) { return option<T>{true, x}; }
template <class C, class T> PHASES_FN bool m_is_some(C, line, const option<T>& x) { return x.some; }
template <class C, class T> PHASES_FN bool m_is_none(C, line, const option<T>& x) { return !x.some; }
template <class C, class T> PHASES_FN T m_unwrap_or(C, line, const option<T>& x, T y) { return x.some ? x.value : y; }
template <class C, class T> PHASES_FN T m_unwrap(C c, line l, const option<T>& x) {
    if constexpr (C::deferred && points<T>) {
        if (!x.some) c.end(l, None);
    }
    if (!x.some) c.fail(l, None);
    return x.value;
}
template <class C, class R, int K> PHASES_FN num<R, K> m_wrapping_abs(C, line, const num<R, K>& x) {
    static_assert(raw<R>::is_signed && !raw<R>::floating, "the type has no such method");
    return x.v < 0 ? num<R, K>(R(typename raw<R>::wide(0) - typename raw<R>::wide(x.v))) : x;
}
PHASES_FN float bits_f32(unsigned x) { return __uint_as_float(x); }
PHASES_FN double bits_f64(unsigned long long x) { return __longlong_as_double((long long)x); }

// Literals. rustc has checked that `x` is a value of the type.
struct any_float {
    float f;
    double d;
    PHASES_FN constexpr operator float() const { return f; }
    PHASES_FN constexpr operator double() const { return d; }
};
template <class T, class L> PHASES_FN constexpr T lit(L x) { return T(static_cast<decltype(T::v)>(x)); }
} // namespace phases
