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
// Turns the 16 bytes that lanes have each: `v[k]` of a lane is the one with the number `k * 32 + lane` of a warp before, and
// `lane * Q + k` after, or, `BACK`, the other way round. So lanes access neighbours where each has an array.
template <unsigned Q> PHASES_FN void rotate(uint4 (&v)[Q], unsigned by) {
#pragma unroll
    for (unsigned bit = 1; bit < Q; bit *= 2) {
        uint4 from[Q];
#pragma unroll
        for (unsigned k = 0; k < Q; ++k) from[k] = v[k];
#pragma unroll
        for (unsigned k = 0; k < Q; ++k) v[k] = by & bit ? from[(k + bit) % Q] : from[k];
    }
}
template <bool BACK, unsigned Q> PHASES_FN void turn_quads(uint4 (&v)[Q]) {
    const unsigned lane = threadIdx.x % 32, group = lane / (32 / Q);
    uint4 taken[Q];
    rotate(v, BACK ? group : lane);
#pragma unroll
    for (unsigned r = 0; r < Q; ++r) {
        const unsigned k = (lane - r) % Q, from = BACK ? k * (32 / Q) + lane / Q : lane * Q % 32 + (r + group) % Q;
        const uint4 x = v[BACK ? r : (Q - r) % Q];
        taken[BACK ? (Q - r) % Q : r] = uint4{
            __shfl_sync(~0u, x.x, from), __shfl_sync(~0u, x.y, from), __shfl_sync(~0u, x.z, from), __shfl_sync(~0u, x.w, from)
        };
    }
    rotate(taken, 0 - (BACK ? lane : group));
#pragma unroll
    for (unsigned k = 0; k < Q; ++k) v[k] = taken[k];
}
// Whether a thread's array takes several accesses of 16 bytes, which a warp can turn.
template <class T, u64_raw K> constexpr unsigned quads = in_vectors<T, K> ? unsigned(sizeof(T) * K / 16) : 0;
template <class T, u64_raw K> constexpr bool turns = quads<T, K> == 2 || quads<T, K> == 4 || quads<T, K> == 8;
// Whether all lanes of the warp are here, and all say yes.
PHASES_FN bool whole_warp(bool yes) {
    unsigned here;
    asm volatile("activemask.b32 %0;" : "=r"(here));
    return here == ~0u && __all_sync(~0u, yes);
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
        if constexpr (turns<T, K>) {
            if (whole_warp(all && aligned(p) && i % 32 == threadIdx.x % 32)) {
                uint4 v[quads<T, K>];
                memcpy(v, g.values.a, sizeof(v));
                turn_quads<true>(v);
                uint4* const to = (uint4*)(p - i % 32 * K) + i % 32;
                // The lanes whose elements these are have read them.
                __syncwarp();
#pragma unroll
                for (unsigned k = 0; k < quads<T, K>; ++k) to[k * 32] = v[k];
                return;
            }
        }
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
            const bool vectors = aligned(x.p + first);
            if constexpr (turns<T, K> && B::threads % 32 == 0) {
                if (whole_warp(vectors)) {
                    const uint4* const of_warp = (const uint4*)(from - threadIdx.x % 32 * K) + threadIdx.x % 32;
                    uint4 v[quads<T, K>];
#pragma unroll
                    for (unsigned k = 0; k < quads<T, K>; ++k) v[k] = of_warp[k * 32];
                    turn_quads<false>(v);
                    memcpy(to.a, v, sizeof(v));
                    return loaded{};
                }
            }
            if (vectors) {
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
