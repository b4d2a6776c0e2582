// Loads. Most are inside of the source: then their elements have no conditions. Memory of the block is written after all
// elements were read, also those of the loads that follow without a barrier, so that all are under way together.
namespace phases {
// The most elements that a thread reads ahead for one load.
constexpr len most_ahead = 8;
// A load that is done.
struct loaded {
    static constexpr len ahead = 0;
    static constexpr bool whole = true;
};
template <class B, class G> constexpr len ahead_of = 0;
template <class B, u64_raw N> constexpr len each_of = len((N + B::threads - 1) / B::threads) <= most_ahead
    ? len((N + B::threads - 1) / B::threads)
    : 0;
template <class B, class T, u64_raw K> constexpr len ahead_of<B, items<T, K>> = each_of<B, K>;
template <class B, class T, u64_raw C, u64_raw R> constexpr len ahead_of<B, matrix<T, C, R>> = each_of<B, C * R>;
template <class B, class T, u64_raw C, u64_raw R> constexpr len ahead_of<B, cells<T, C, R>> = each_of<B, C * R>;
template <class B, class T> constexpr len ahead_of<B, own_item<B, T>> = 1;

template <class B, class G, class T> struct items_load {
    static constexpr len ahead = ahead_of<B, G>;
    using value = T;
    G to;
    slice<const T> x;
    u64_raw first;
    T rest;
    bool whole;
    PHASES_FN T inside(usize i) const { return x.p[len(first) + len(i.v)]; }
    PHASES_FN T any(usize i) const {
        const u64_raw at = first + i.v;
        return at < x.n ? x.p[at] : rest;
    }
};
template <class B, class G, class T> struct matrix_load {
    static constexpr len ahead = ahead_of<B, G>;
    using value = T;
    G to;
    const T *p, *from;
    u64_raw rows, columns, row, column;
    T rest;
    bool whole;
    PHASES_FN T inside(array<usize, 2> i) const { return from[len(i.a[0].v) * len(columns) + len(i.a[1].v)]; }
    PHASES_FN T any(array<usize, 2> i) const {
        const u64_raw y = row + i.a[0].v, z = column + i.a[1].v;
        T value = rest;
        if (y < rows && z < columns) value = p[len(y) * len(columns) + len(z)];
        return value;
    }
};
template <class B, class C, class L> PHASES_FN void load_now(C c, const L& load) {
    if (load.whole) {
        each_item<B>(c, load.to, [&](auto, auto i, auto to) { *to.p = load.inside(i); });
    } else {
        each_item<B>(c, load.to, [&](auto, auto i, auto to) { *to.p = load.any(i); });
    }
}
template <class B, class C> PHASES_FN void load_any(C, loaded) {}
template <class B, class C, class L> PHASES_FN void load_any(C c, const L& load) {
    each_item<B>(c, load.to, [&](auto, auto i, auto to) { *to.p = load.any(i); });
}
template <class B> PHASES_FN void load_ahead() {}
template <class B, class... M> PHASES_FN void load_ahead(loaded, const M&... more) { load_ahead<B>(more...); }
template <class B, class L, class... M> PHASES_FN void load_ahead(const L& load, const M&... more) {
    typename L::value read[L::ahead];
    const len n = load.to.count(), t = B::thread();
#pragma unroll
    for (len k = 0; k < L::ahead; ++k) {
        const len i = t + k * B::threads;
        if (i < n) read[k] = load.inside(load.to.index(i));
    }
    load_ahead<B>(more...);
#pragma unroll
    for (len k = 0; k < L::ahead; ++k) {
        const len i = t + k * B::threads;
        if (i < n) *load.to.item(i).p = read[k];
    }
}
// Loads between which no barrier stands.
template <class B, class C, class... L> PHASES_FN void load_all(C c, const L&... loads) {
    if ((loads.whole && ...)) {
        load_ahead<B>(loads...);
    } else {
        (load_any<B>(c, loads), ...);
    }
}
// A load that waits for `load_all`, unless it is of memory that others see or of many elements.
template <class B, class C, class L> PHASES_FN auto begun(C c, const L& load) {
    if constexpr (L::ahead > 0) {
        return load;
    } else {
        load_now<B>(c, load);
        return loaded{};
    }
}
template <class B, class C, class G, class T>
PHASES_FN auto load_items(C c, line, const G& g, slice<const T> x, isize start, T rest) {
    const u64_raw first = u64_raw(start.v);
    const bool whole = first < x.n && x.n - len(first) >= g.count();
    return begun<B>(c, items_load<B, G, T>{g, x, first, rest, whole});
}
template <class B, class C, class G, class T, u64_raw K>
PHASES_FN auto load_items(C c, line l, const G& g, ref<array<T, K>> x, isize start, T rest) {
    return load_items<B>(c, l, g, slice<const T>(x.p->a, len(K)), start, rest);
}
// The rows and columns of a target.
template <class T, u64_raw C, u64_raw R> PHASES_FN tuple<len, len> sides(const matrix<T, C, R>&) { return tup(len(R), len(C)); }
template <class T, u64_raw C, u64_raw R> PHASES_FN tuple<len, len> sides(const cells<T, C, R>& g) { return tup(len(R), g.columns); }
template <class B, class T, u64_raw H, u64_raw W> PHASES_FN tuple<len, len> sides(const tile_items<B, T, H, W>& g) {
    return tup(g.of.height, g.of.width);
}
template <u64_raw N, u64_raw M, class T> PHASES_FN tuple<len, len> sides(const own_item<block<N, M>, T>&) {
    return tup(len(N), len(M));
}
template <class B, class C, class G, class T>
PHASES_FN auto load_matrix(
    C c, line l, const G& g, slice<const T> x, array<usize, 2> size, array<isize, 2> origin, T rest
) {
    const u64_raw rows = size.a[0].v, columns = size.a[1].v;
    // The product is compared without overflow.
    const bool small = ((rows | columns) >> 32) == 0;
    if (small ? rows * columns > x.n : columns != 0 && rows > x.n / columns) c.fail(l, Index, rows * columns, x.n);
    const u64_raw row = u64_raw(origin.a[0].v), column = u64_raw(origin.a[1].v);
    const len pitch = len(columns);
    const auto of = sides(g);
    const bool near = small && ((row | column) >> 32) == 0 && len(row) < len(rows) && len(column) < pitch;
    const bool whole = near && len(rows) - len(row) >= of.f0 && pitch - len(column) >= of.f1;
    const T* const from = x.p + (len(row) * pitch + len(column));
    return begun<B>(c, matrix_load<B, G, T>{g, x.p, from, rows, columns, row, column, rest, whole});
}
template <class B, class C, class G, class T, u64_raw K>
PHASES_FN auto load_matrix(
    C c, line l, const G& g, ref<array<T, K>> x, array<usize, 2> size, array<isize, 2> origin, T rest
) {
    return load_matrix<B>(c, l, g, slice<const T>(x.p->a, len(K)), size, origin, rest);
}
} // namespace phases
