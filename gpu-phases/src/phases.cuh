// The semantics of Rust in CUDA C++. Every operation of a translated kernel is a function here.
//
// Numbers are distinct types without implicit conversions, so a translation that disagrees with rustc about a type does not
// compile. Functions that can fail take `c`, what they report to, and the line of the source. User types and functions are
// defined in this namespace, too: overloads for user types are found by argument-dependent lookup.
#define PHASES_FN __forceinline__

// The text with `PHASES_GRADIENT` is differentiated. A check that fails there only ends its thread, since the launch has
// reported it. The size of blocks is the launch's, as in other kernels that are differentiated. An adjoint needs
// more registers than the kernel, so it has no least number of blocks.
#ifdef PHASES_GRADIENT
#define PHASES_BLOCK(n, axis) blockDim.axis
#define PHASES_BOUNDS(threads, blocks)
#define PHASES_LEAST(blocks)
#else
#define PHASES_BLOCK(n, axis) n
#define PHASES_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define PHASES_LEAST(blocks) , blocks
#endif

namespace phases {

// Lengths have 32 bits unless a launch needs more.
#ifdef PHASES_LEN64
using len = unsigned long long;
#else
using len = unsigned int;
#endif
using line = unsigned int;
using u64_raw = unsigned long long;

template <bool B, class A, class Z> struct pick_ { using type = A; };
template <class A, class Z> struct pick_<false, A, Z> { using type = Z; };
template <bool B, class A, class Z> using pick = typename pick_<B, A, Z>::type;
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T> struct plain_ { using type = T; };
template <class T> struct plain_<const T> { using type = T; };
template <class T> struct plain_<T&> { using type = T; };
template <class T> struct plain_<const T&> { using type = T; };
template <class T> struct plain_<T&&> { using type = T; };
template <class T> using plain = typename plain_<T>::type;

// ---- Numbers. `K` keeps `usize` apart from `u64`, and `isize` from `i64`.

template <class R, int K> struct num {
    R v;
    num() = default;
    PHASES_FN constexpr explicit num(R r) : v(r) {}
};
using u8 = num<unsigned char, 0>;
using u16 = num<unsigned short, 0>;
using u32 = num<unsigned int, 0>;
using u64 = num<unsigned long long, 0>;
using usize = num<unsigned long long, 1>;
using i8 = num<signed char, 0>;
using i16 = num<short, 0>;
using i32 = num<int, 0>;
using i64 = num<long long, 0>;
using isize = num<long long, 1>;
using f32 = num<float, 0>;
using f64 = num<double, 0>;
struct unit {};

// Says that a number is a length that the launch has computed from it.
PHASES_FN void same_length(const usize&, u64_raw) {}
PHASES_FN void same_length(usize& x, u64_raw n) { x.v = n; }

// Says that a slice has this length, which the host has compared.
PHASES_FN void given(unsigned long long n, usize x) { __builtin_assume(n == x.v); }

// A parameter by value. A `usize` has the bits of a length.
template <class T> struct passed_ { using type = T; };
template <> struct passed_<usize> { using type = len; };
template <class T> using passed = typename passed_<T>::type;
template <class T> PHASES_FN T& taken(T& x) { return x; }
PHASES_FN usize taken(len& x) { return usize(x); }

template <class R> struct raw { // Facts about a representation.
    static constexpr bool floating = same<R, float> || same<R, double>;
    static constexpr bool is_signed = R(-1) < R(0);
    static constexpr int bits = sizeof(R) * 8;
    using bytes1 = pick<sizeof(R) == 1, unsigned char, unsigned short>;
    using unsigned_ = pick<sizeof(R) == 8, unsigned long long, pick<sizeof(R) == 4, unsigned int, bytes1>>;
    // Arithmetic is done in this type: unsigned, so that it wraps, and not narrower than `int`.
    using wide = pick<sizeof(R) == 8, unsigned long long, unsigned int>;
    static constexpr R min = floating ? R(0) : is_signed ? R(unsigned_(1) << (bits - 1)) : R(0);
    static constexpr R max = floating ? R(0) : R(~unsigned_(min));
};

// ---- Faults.

struct fault {
    unsigned state, kind, line, file, kernel, block;
    u64_raw index, len, element[3];
};
enum kind : unsigned { Index = 1, Overflow = 2, Division = 3, Shift = 4, Assert = 5, None = 6 };

// What every function is given: where to record a fault, and the number of dimensions of the launch.
struct thread {
    fault* slot;
    // From `blocks_of` on: a kernel over blocks, whose threads have so many columns.
    static constexpr unsigned blocks_of = 4;
    // Whether elements are loaded, and whether their indices are inspected before.
    static constexpr bool loads = true, inspects = false;
    // Whether lengths that may overflow fail a check.
    static constexpr bool strict = false;
    unsigned kernel, dims;
    // 1 more than the block, of a kernel over blocks.
    unsigned position = 0;
    // Where blocks wait for others: a failure stores the tag of the launch there.
    unsigned *ended = nullptr, tag = 0;
    PHASES_FN u64_raw x() const {
        if (dims > blocks_of) return threadIdx.x / (dims - blocks_of);
        if (dims == blocks_of) return threadIdx.x;
        return dims == 1 ? u64_raw(blockIdx.x) * 256 + threadIdx.x : u64_raw(blockIdx.x) * 32 + threadIdx.x;
    }
    PHASES_FN u64_raw y() const {
        if (dims > blocks_of) return threadIdx.x % (dims - blocks_of);
        return dims == 1 || dims == blocks_of ? 0 : u64_raw(blockIdx.y) * 8 + threadIdx.y;
    }
    PHASES_FN u64_raw z() const { return blockIdx.z; }
    PHASES_FN void fail(unsigned file, line at, kind k, u64_raw index, u64_raw length) const {
#ifndef PHASES_GRADIENT
        if (atomicCAS(&slot->state, 0u, 1u) == 0u) {
            volatile fault* s = slot;
            s->kind = k;
            s->line = at;
            s->file = file;
            s->kernel = kernel;
            s->index = index;
            s->len = length;
            s->element[0] = x();
            s->element[1] = y();
            s->element[2] = z();
            s->block = position;
            __threadfence_system();
            s->state = 2;
        }
        if (ended) *(volatile unsigned*)ended = tag;
#endif
        asm volatile("exit;");
        __builtin_unreachable();
    }
};

// `now<O>` reports at once. `later<O>` notes only that a check has failed: the loop, which has no effects, runs again with
// `now<O>` then, which finds the first. `O`: integer overflows are checked.
template <bool O> struct now : thread {
    static constexpr bool overflow = O, deferred = false, block = false;
    unsigned file;
    // Whether loops end since a check has failed.
    PHASES_FN constexpr bool stop() const { return false; }
    PHASES_FN constexpr bool effects() const { return true; }
    PHASES_FN void fail(line at, kind k, u64_raw index = 0, u64_raw length = 0) const {
        thread::fail(file, at, k, index, length);
    }
};
template <bool O> struct later : thread {
    static constexpr bool overflow = O, deferred = true, block = false;
    unsigned file;
    bool* failed;
    PHASES_FN bool stop() const { return *failed; }
    // A function that the loop calls prints or uses an atomic: it does when the loop runs again.
    PHASES_FN bool effects() const {
        *failed = true;
        return false;
    }
    PHASES_FN void fail(line, kind, u64_raw = 0, u64_raw = 0) const { *failed = true; }
    // Ends the thread: nothing can take the place of a missing reference.
    PHASES_FN void end(line at, kind k, u64_raw index = 0, u64_raw length = 0) const {
        thread::fail(file, at, k, index, length);
    }
};
// The body of a loop over elements whose indices follow from no element, for the sake of its checks alone.
template <bool O> struct inspection : later<O> {
    static constexpr bool inspects = true, loads = false;
};
// A loop with constant ends in it. Its indices grow with the counters, so that those of the last iteration are the largest,
// if nothing overflows.
template <bool O> struct strict_inspection : inspection<O> {
    static constexpr bool strict = true;
};
template <class C> PHASES_FN C strictly(C c) { return c; }
template <bool O> PHASES_FN strict_inspection<O> strictly(inspection<O> c) { return strict_inspection<O>{c}; }
template <class C, class R> PHASES_FN R corner(C, R r) {
    if constexpr (!C::loads) {
        if (r.start.v < r.end.v) r.start.v = decltype(r.start.v)(r.end.v - 1);
    }
    return r;
}
// A function that such a body calls, without the values of elements: its loops might not end without them. Nor need what it
// returns grow with a counter.
template <bool O> struct unsure : later<O> {
    PHASES_FN bool stop() const {
        *this->failed = true;
        return true;
    }
};
// The same body, if no check has failed: all indices are in bounds.
template <bool O> struct proven : later<O> {
    static constexpr bool inspects = true;
};
// A value that such a body names. The first copy keeps a length for the second, opaque: NVVM would compute it again, with other
// terms, for each index that begins with it.
template <class C, class T> PHASES_FN T apart(C, u64_raw&, T x) { return x; }
template <class C> PHASES_FN usize apart(C, u64_raw& kept, usize x) {
    if constexpr (C::inspects && C::loads) return usize(kept);
    if constexpr (C::inspects) {
        asm("" : "+l"(x.v));
        kept = x.v;
    }
    return x;
}
// The distances of indices from one of them: then two comparisons suffice for all. The second copy reads them without a check.
struct reach {
    u64_raw back = 0, ahead = 0;
    bool used = false;
    template <class X> PHASES_FN void check(bool& failed, usize at, const X& x) const {
        const len i = len(at.v), n = len(length(x).v), a = len(ahead), b = len(back);
        // Without branches.
        const bool small = (i == at.v) & (a == ahead) & (b == back);
        failed = failed | (used & !(small & (i < n) & (b <= i) & (a < n - i)));
    }
};
template <bool O> PHASES_FN inspection<O> inspecting(now<O> c, bool& failed) { return inspection<O>{{c, c.file, &failed}}; }
template <bool O> PHASES_FN proven<O> inspected(now<O> c, bool& failed) { return proven<O>{{c, c.file, &failed}}; }
template <bool O, bool P> PHASES_FN now<O> in(now<P> c, unsigned file) { return now<O>{c, file}; }
template <bool O, bool P> PHASES_FN later<O> in(later<P> c, unsigned file) { return later<O>{c, file, c.failed}; }
template <bool O, bool P> PHASES_FN unsure<O> in(unsure<P> c, unsigned file) { return unsure<O>{{c, file, c.failed}}; }
template <bool O, bool P> PHASES_FN unsure<O> in(inspection<P> c, unsigned file) { return unsure<O>{{c, file, c.failed}}; }
template <bool O, bool P> PHASES_FN unsure<O> in(strict_inspection<P> c, unsigned file) {
    *c.failed = true;
    return unsure<O>{{c, file, c.failed}};
}
// `F`: what the loop may change is small enough to be kept.
template <bool F, bool O> PHASES_FN auto defer(now<O> c, bool& failed) {
    if constexpr (F) return later<O>{c, c.file, &failed};
    else return c;
}
template <bool F, bool O> PHASES_FN later<O> defer(later<O> c, bool&) { return c; }
template <bool F, bool O> PHASES_FN unsure<O> defer(unsure<O> c, bool&) { return c; }
// Whether the indices of a body of a loop over elements are inspected. An adjoint has one copy.
#ifdef PHASES_GRADIENT
constexpr bool inspects = false;
#else
constexpr bool inspects = true;
#endif
// A loop with more iterations checks as it goes: after a failure it would go on for too long.
constexpr u64_raw most_deferred = 1u << 24;
struct yes {};
struct no {};
template <class... T> constexpr bool small = (0 + ... + sizeof(T)) <= 64;
template <bool F, class T> PHASES_FN auto kept_if(const T& x) {
    if constexpr (F) return x;
    else return no{};
}
// Sets a variable back before a loop runs again. Closures are not assigned to.
template <class T> PHASES_FN auto restore(T& x, const T& kept, int) -> decltype(x = kept, void()) { x = kept; }
template <class T, class K> PHASES_FN void restore(T&, const K&, long) {}
// The largest value of an index in a loop, if it is one of the numbers.
struct largest {
    u64_raw v;
    bool ok;
};
PHASES_FN largest plus(largest a, largest b) { return largest{a.v + b.v, a.ok && b.ok && b.v <= ~a.v}; }
// Compilers know the high word of no product, but may know that of its factors.
PHASES_FN largest times(largest a, largest b) { return largest{a.v * b.v, a.ok && b.ok && (((a.v | b.v) >> 32) == 0 || __umul64hi(a.v, b.v) == 0)}; }
PHASES_FN largest of(u64_raw x) { return largest{x, true}; }
PHASES_FN largest of(usize x) { return of(x.v); }
template <class T> PHASES_FN largest of(const T&) { return largest{0, false}; }
// Integers in it overflow nothing.
template <class C> PHASES_FN now<false> sure(C c, yes) { return now<false>{c, c.file}; }
template <class C> PHASES_FN C sure(C c, no) { return c; }

// ---- References, arrays, slices, tuples.

template <class T> struct ref {
    const T* p;
    ref() = default;
    PHASES_FN explicit ref(const T* q) : p(q) {}
};
template <class T> struct mut {
    T* p;
    mut() = default;
    PHASES_FN explicit mut(T* q) : p(q) {}
    PHASES_FN operator ref<T>() const { return ref<T>(p); }
};
template <class T, u64_raw N> struct array {
    T a[N];
};
template <class T> struct array<T, 0> {};
// `&[T]`, or `&mut [T]`, or an output's element index: `T` is const in the first.
template <class T> struct slice {
    T* p;
    len n;
};
template <class T> struct slice<const T> {
    const T* p;
    len n;
    slice() = default;
    PHASES_FN slice(const T* q, len m) : p(q), n(m) {}
    PHASES_FN slice(slice<T> s) : p(s.p), n(s.n) {}
};

template <class... T> struct tuple;
template <> struct tuple<> {};
template <class A> struct tuple<A> { A f0; };
template <class A, class B> struct tuple<A, B> { A f0; B f1; };
template <class A, class B, class C> struct tuple<A, B, C> { A f0; B f1; C f2; };
template <class A, class B, class C, class D> struct tuple<A, B, C, D> { A f0; B f1; C f2; D f3; };
template <class A, class B, class C, class D, class E> struct tuple<A, B, C, D, E> { A f0; B f1; C f2; D f3; E f4; };
template <class A, class B, class C, class D, class E, class F> struct tuple<A, B, C, D, E, F> {
    A f0; B f1; C f2; D f3; E f4; F f5;
};
template <class... T> PHASES_FN tuple<T...> tup(T... x) { return tuple<T...>{x...}; }
template <class T, class... U> PHASES_FN array<T, 1 + sizeof...(U)> arr(T x, U... y) {
    return array<T, 1 + sizeof...(U)>{{x, y...}};
}
template <u64_raw N, class T> PHASES_FN array<T, N> filled(T x) {
    array<T, N> a;
    if constexpr (N > 0) {
#pragma unroll
        for (u64_raw i = 0; i < N; ++i) a.a[i] = x;
    }
    return a;
}

// Whether a value has references or slices in it.
template <class T> constexpr bool points = false;
template <class T> constexpr bool points<ref<T>> = true;
template <class T> constexpr bool points<mut<T>> = true;
template <class T> constexpr bool points<slice<T>> = true;
template <class T, u64_raw N> constexpr bool points<array<T, N>> = points<T>;
template <class... T> constexpr bool points<tuple<T...>> = (false || ... || points<T>);
// Whether a loop may write through a variable, or needs a reference in place of an element that is missing. Checks of such
// a loop are not deferred. A closure, which may write what it has captured, has no default constructor.
template <class T> constexpr bool leads = !__is_constructible(T);
template <class T> constexpr bool leads<ref<T>> = leads<T>;
template <class T> constexpr bool leads<mut<T>> = true;
template <class T> constexpr bool leads<slice<T>> = true;
template <class T> constexpr bool leads<slice<const T>> = points<T>;
template <class T, u64_raw N> constexpr bool leads<array<T, N>> = points<T>;
template <class... T> constexpr bool leads<tuple<T...>> = (false || ... || leads<T>);
template <class... T> constexpr bool own = !(false || ... || leads<plain<T>>);
// Whether a variable is an array or leads to one, and whether a write through a variable can change its length.
template <class T> constexpr bool is_array = false;
template <class T, u64_raw N> constexpr bool is_array<array<T, N>> = true;
template <class T> constexpr bool is_array<ref<T>> = is_array<T>;
template <class T> constexpr bool is_array<mut<T>> = is_array<T>;
template <class T> constexpr bool changes = false;
template <class T> constexpr bool changes<mut<T>> = !is_array<T>;

// Removes references, as Rust does before fields, methods and indices.
template <class T> PHASES_FN T& d(T& x) { return x; }
template <class T> PHASES_FN const T& d(const T& x) { return x; }
template <class T> PHASES_FN decltype(auto) d(const ref<T>& r) { return d(*r.p); }
template <class T> PHASES_FN decltype(auto) d(ref<T>& r) { return d(*r.p); }
template <class T> PHASES_FN decltype(auto) d(const mut<T>& r) { return d(*r.p); }
template <class T> PHASES_FN decltype(auto) d(mut<T>& r) { return d(*r.p); }
// `*r`: one level.
template <class T> PHASES_FN const T& deref(ref<T> r) { return *r.p; }
template <class T> PHASES_FN T& deref(mut<T> r) { return *r.p; }
// `&x` and `&mut x`. A slice is a reference already.
template <class T> PHASES_FN ref<T> borrow(const T& x) { return ref<T>(&x); }
template <class T> PHASES_FN slice<const T> borrow(const slice<T>& x) { return slice<const T>(x.p, x.n); }
template <class T> PHASES_FN mut<T> borrow_mut(T& x) { return mut<T>(&x); }
template <class T> PHASES_FN slice<T> borrow_mut(slice<T>& x) { return x; }

template <class T> PHASES_FN mut<T> mut_at(T* p, u64_raw at) { return mut<T>(p + at); }

// ---- Indices.

// The element that a failed, deferred check reads: its value is thrown away with the thread.
template <class T> PHASES_FN T* none() {
    static __device__ unsigned long long zero[(sizeof(T) + 15) / 16 * 2];
    return (T*)zero;
}
// `i < n`, where `n` is a length. In 32 bits where compilers know that the upper half is zero.
PHASES_FN bool below(u64_raw i, len n) {
    return sizeof(len) == 4 ? unsigned(i >> 32) == 0 && unsigned(i) < unsigned(n) : i < n;
}
// The length of an array. The comparison of signed numbers is one that NVVM folds for a sum of an index and a constant.
template <u64_raw N> struct length_of {
    PHASES_FN constexpr operator u64_raw() const { return N; }
};
template <u64_raw N> PHASES_FN bool below(u64_raw i, length_of<N>) { return (long long)i >= 0 && (long long)i < (long long)N; }
template <class C, class T, class N> PHASES_FN T& element(C c, line l, T* p, N n, usize i) {
#ifdef PHASES_GRADIENT
    // What another variable takes would be lost: a thread that goes on uses the first element, if there is one.
    if constexpr (C::deferred && !points<plain<T>>) {
        if (n == 0) c.end(l, Index, i.v, n);
        if (!below(i.v, n)) c.fail(l, Index, i.v, n);
        return p[below(i.v, n) ? len(i.v) : 0];
    }
#endif
    if (!below(i.v, n)) {
        if constexpr (C::deferred && points<plain<T>>) c.end(l, Index, i.v, n);
        c.fail(l, Index, i.v, n);
        if constexpr (C::deferred) return *none<plain<T>>();
    }
    return p[len(i.v)];
}
template <class C, class T> PHASES_FN T& at(C c, line l, slice<T> x, usize i) { return element(c, l, x.p, x.n, i); }
// An index in bounds, for an element of an array that a deferred check may throw away: another place instead would hide from
// loads that the array is in shared memory.
template <class C, class T, u64_raw N> PHASES_FN T& array_element(C c, line l, T (&a)[N], usize i) {
    if constexpr (C::deferred && !points<plain<T>>) {
        if (!below(i.v, length_of<N>{})) c.fail(l, Index, i.v, N);
        return a[below(i.v, length_of<N>{}) ? i.v : 0];
    } else {
        return element(c, l, a, length_of<N>{}, i);
    }
}
template <class C, class T, u64_raw N> PHASES_FN T& at(C c, line l, array<T, N>& x, usize i) {
    return array_element(c, l, x.a, i);
}
template <class C, class T, u64_raw N> PHASES_FN const T& at(C c, line l, const array<T, N>& x, usize i) {
    return array_element(c, l, x.a, i);
}
// `yes`: the loop has shown that the index is in bounds.
template <class C, class X> PHASES_FN auto& at(C c, line l, X&& x, usize i, no) { return at(c, l, x, i); }
template <class C, class T> PHASES_FN T& at(C, line, slice<T> x, usize i, yes) { return x.p[i.v]; }
template <class C, class T, u64_raw N> PHASES_FN T& at(C, line, array<T, N>& x, usize i, yes) { return x.a[i.v]; }
template <class C, class T, u64_raw N> PHASES_FN const T& at(C, line, const array<T, N>& x, usize i, yes) {
    return x.a[i.v];
}
// The value of an element. A load whose deferred check fails is left out, and is zero.
template <class C, class T, class N> PHASES_FN T value(C c, line l, const T* p, N n, usize i) {
    if constexpr (C::inspects) {
        if constexpr (C::loads) return p[i.v];
        if (!below(i.v, n)) c.fail(l, Index, i.v, n);
        return T{};
    } else if constexpr (C::deferred && !points<T>) {
        T x{};
        if (below(i.v, n)) x = p[len(i.v)];
        else c.fail(l, Index, i.v, n);
        return x;
    } else {
        return element(c, l, p, n, i);
    }
}
template <class C, class T> PHASES_FN plain<T> read(C c, line l, slice<T> x, usize i) {
    return value<C, plain<T>>(c, l, x.p, x.n, i);
}
template <class C, class T, u64_raw N> PHASES_FN T read(C c, line l, const array<T, N>& x, usize i) {
    return value(c, l, x.a, length_of<N>{}, i);
}
template <class C, class X> PHASES_FN auto read(C c, line l, const X& x, usize i, no) { return read(c, l, x, i); }
template <class C, class T> PHASES_FN plain<T> read(C, line, slice<T> x, usize i, yes) { return x.p[i.v]; }
template <class C, class T, u64_raw N> PHASES_FN T read(C, line, const array<T, N>& x, usize i, yes) { return x.a[i.v]; }
// The element at `from`, plus or minus `by`.
template <bool AHEAD, class C, class X> PHASES_FN auto near(C c, line l, const X& x, usize from, usize by, reach& r) {
    if constexpr (C::inspects && !C::loads) {
        u64_raw& most = AHEAD ? r.ahead : r.back;
        if (by.v > most) most = by.v;
        r.used = true;
        return plain<decltype(read(c, l, x, from))>{};
    } else if constexpr (C::inspects) {
        return read(c, l, x, usize(AHEAD ? from.v + by.v : from.v - by.v));
    } else {
        return read(c, l, x, AHEAD ? o_add(c, l, from, by) : o_sub(c, l, from, by));
    }
}
template <class T> PHASES_FN T copy(const T& x) { return x; }
// An element that was read ahead.
template <class T> struct held {
    T v;
};
template <class T> PHASES_FN held<plain<T>> hold(slice<T> x, u64_raw j) { return held<plain<T>>{x.p[j]}; }
template <class T, u64_raw N> PHASES_FN held<T> hold(const array<T, N>& x, u64_raw j) { return held<T>{x.a[j]}; }
template <class C, class X, class K> PHASES_FN auto read(C c, line l, const X& x, usize i, K known, no) {
    return read(c, l, x, i, known);
}
template <class C, class X, class T> PHASES_FN T read(C, line, const X&, usize, yes, const held<T>& h) { return h.v; }
// The number of iterations whose elements are read ahead: they fit in 32 registers.
template <class... H>
constexpr len ahead = (0 + ... + sizeof(H)) <= 8 ? 16 : (0 + ... + sizeof(H)) <= 16 ? 8 : (0 + ... + sizeof(H)) <= 32 ? 4 : 1;
// `&x[a..b]`, `&mut x[a..b]`. A part whose failed check is deferred is empty.
template <class C, class T> PHASES_FN slice<T> part_of(C c, line l, slice<T> x, usize start, usize end) {
    const bool ordered = start.v <= end.v;
    if (end.v <= x.n && ordered) return slice<T>{x.p + start.v, len(end.v - start.v)};
    c.fail(l, Index, ordered ? end.v : start.v, ordered ? x.n : end.v);
    return slice<T>{x.p, 0};
}
template <class T> PHASES_FN slice<T> whole(slice<T> x) { return x; }
template <class T, u64_raw N> PHASES_FN slice<T> whole(array<T, N>& x) { return slice<T>{x.a, len(N)}; }
template <class T, u64_raw N> PHASES_FN slice<const T> whole(const array<T, N>& x) { return slice<const T>{x.a, len(N)}; }
template <class C, class X> PHASES_FN auto part_mut(C c, line l, X&& x, usize start, usize end) {
    return part_of(c, l, whole(x), start, end);
}
template <class C, class X> PHASES_FN auto part_mut(C c, line l, X&& x, usize start) {
    return part_of(c, l, whole(x), start, usize(whole(x).n));
}
template <class C, class X, class... E> PHASES_FN auto part(C c, line l, const X& x, E... bounds) {
    return borrow(part_mut(c, l, x, bounds...));
}
template <class T> PHASES_FN usize length(slice<T> x) { return usize(x.n); }
template <class T, u64_raw N> PHASES_FN usize length(const array<T, N>&) { return usize(N); }
template <class X> PHASES_FN largest of_length(const X& x) { return largest{length(d(x)).v, !changes<X>}; }
template <class X> PHASES_FN bool within(largest i, const X& x) { return !changes<X> && i.ok && i.v < length(d(x)).v; }
// A variable may become another slice.
template <class X> PHASES_FN bool array_within(largest i, const X& x) { return is_array<X> && within(i, x); }
template <class C, class T> PHASES_FN usize m_len(C, line, const T& x) { return length(x); }
template <class C, class T> PHASES_FN bool m_is_empty(C, line, const T& x) { return length(x).v == 0; }
} // namespace phases
