// Neighbouring elements that a thread has as an array in registers.
namespace phases {
// Patches of a tile. A thread has one as an array in registers while its closure runs.
template <class T, u64_raw H, u64_raw W, u64_raw R, u64_raw K> struct patches {
    static constexpr len across = len((W + (K - 1)) / K);
    static constexpr u64_raw fixed = (H + (R - 1)) / R * across, most = fixed;
    tile<T, H, W> of;
    mutable array<array<T, K>, R> values;
    PHASES_FN len count() const { return len(fixed); }
    PHASES_FN len row(len i) const { return i / across * len(R); }
    PHASES_FN len column(len i) const { return i % across * len(K); }
    PHASES_FN bool has(len i) const { return row(i) < of.height && column(i) < of.width; }
    PHASES_FN array<usize, 2> index(len i) const { return arr(usize(row(i)), usize(column(i))); }
    // Calls `f` for each element, with whether it is inside.
    template <class F> PHASES_FN void visit(len i, const F& f) const {
        T* const p = of.p + (u64_raw(row(i)) * of.pitch + column(i));
        const len height = of.height - row(i), width = of.width - column(i);
        const bool whole = height >= R && width >= K;
#pragma unroll
        for (len y = 0; y < R; ++y)
#pragma unroll
            for (len x = 0; x < K; ++x) f(p, u64_raw(y) * of.pitch + x, values.a[y].a[x], whole || (y < height && x < width));
    }
    PHASES_FN mut<array<array<T, K>, R>> item(len i) const {
        visit(i, [](const T* p, u64_raw at, T& x, bool inside) { x = p[inside ? at : 0]; });
        return mut<array<array<T, K>, R>>(&values);
    }
};
template <u64_raw R, u64_raw K, class C, class T, u64_raw H, u64_raw W>
PHASES_FN patches<T, H, W, R, K> b_patches(C, line, tile<T, H, W> x) {
    return patches<T, H, W, R, K>{x};
}
// Copies neighbours to or from registers, 16 bytes at a time, if the memory is aligned for that.
template <class T, u64_raw K> constexpr bool in_vectors = sizeof(T) * K % 16 == 0 && 16 % sizeof(T) == 0;
template <class T> PHASES_FN bool aligned(const T* p) { return (u64_raw(p) & 15) == 0; }
template <class T, u64_raw K> PHASES_FN void load_vectors(array<T, K>& to, const T* from) {
    constexpr u64_raw count = 16 / sizeof(T);
#pragma unroll
    for (u64_raw k = 0; k < K; k += count) {
        const uint4 v = *(const uint4*)(from + k);
        memcpy(to.a + k, &v, 16);
    }
}
template <class T, u64_raw K> PHASES_FN void store_vectors(T* to, const array<T, K>& from) {
    constexpr u64_raw count = 16 / sizeof(T);
#pragma unroll
    for (u64_raw k = 0; k < K; k += count) {
        uint4 v;
        memcpy(&v, from.a + k, 16);
        *(uint4*)(to + k) = v;
    }
}
// Patches of a part. What a phase accesses by vectors, no other one accesses without a barrier in between.
template <class T, u64_raw MOST, u64_raw K> struct line_patches {
    static constexpr u64_raw fixed = 0, most = (MOST + (K - 1)) / K;
    slice<T> of;
    mutable array<T, K> values;
    PHASES_FN len count() const { return len(of.n / K) + (of.n % K != 0); }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN usize index(len i) const { return usize(u64_raw(i) * K); }
    PHASES_FN bool whole(len i) const { return of.n - i * len(K) >= K; }
    PHASES_FN mut<array<T, K>> item(len i) const {
        T* const p = of.p + u64_raw(i) * K;
        const bool all = whole(i);
#ifndef PHASES_GRADIENT
        if constexpr (in_vectors<T, K>) {
            if (all && aligned(p)) {
                load_vectors(values, p);
                return mut<array<T, K>>(&values);
            }
        }
#endif
#pragma unroll
        for (u64_raw k = 0; k < K; ++k) values.a[k] = p[all || k < of.n - i * len(K) ? k : 0];
        return mut<array<T, K>>(&values);
    }
};
template <u64_raw K, class C, class X> PHASES_FN auto b_patches(C, line, const X& x) {
    const auto s = all_of(x);
    return line_patches<plain<decltype(*s.p)>, most_of<plain<decltype(s)>>, K>{slice<plain<decltype(*s.p)>>{s.p, s.n}};
}
template <class T, u64_raw M, u64_raw K> PHASES_FN void after(const line_patches<T, M, K>& g, len i) {
    T* const p = g.of.p + u64_raw(i) * K;
    const bool all = g.whole(i);
#ifndef PHASES_GRADIENT
    if constexpr (in_vectors<T, K>) {
        if (all && aligned(p)) {
            store_vectors(p, g.values);
            return;
        }
    }
#endif
#pragma unroll
    for (u64_raw k = 0; k < K; ++k) {
        if (all || k < g.of.n - i * len(K)) p[k] = g.values.a[k];
    }
}
template <class T, u64_raw H, u64_raw W, u64_raw R, u64_raw K> PHASES_FN void after(const patches<T, H, W, R, K>& g, len i) {
    g.visit(i, [](T* p, u64_raw at, const T& x, bool inside) { if (inside) p[at] = x; });
}
// Arrays of threads.
template <class B, class C, class D, class T, u64_raw K>
PHASES_FN loaded load_items(C c, line, const own_item<D, array<T, K>>& g, slice<const T> x, isize start, T rest) {
    const u64_raw first = u64_raw(start.v), at = first + u64_raw(B::thread()) * K;
    array<T, K>& to = *g.p;
    if (first < x.n && x.n - len(first) >= B::threads * len(K)) {
        const T* const from = x.p + at;
#ifndef PHASES_GRADIENT
        if constexpr (in_vectors<T, K>) {
            if (aligned(x.p + first)) {
                load_vectors(to, from);
                return loaded{};
            }
        }
#endif
#pragma unroll
        for (u64_raw k = 0; k < K; ++k) to.a[k] = from[k];
    } else {
#pragma unroll
        for (u64_raw k = 0; k < K; ++k) to.a[k] = at + k < x.n ? x.p[at + k] : rest;
    }
    return loaded{};
}
} // namespace phases
