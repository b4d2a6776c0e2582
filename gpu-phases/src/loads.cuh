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

// The rows and columns of a target.
template <class T, u64_raw C, u64_raw R> PHASES_FN tuple<len, len> sides(const matrix<T, C, R>&) { return tup(len(R), len(C)); }
template <class T, u64_raw C, u64_raw R> PHASES_FN tuple<len, len> sides(const cells<T, C, R>& g) { return tup(len(R), g.columns); }
template <class B, class T, u64_raw H, u64_raw W> PHASES_FN tuple<len, len> sides(const tile_items<B, T, H, W>& g) {
    return tup(g.of.height, g.of.width);
}
template <u64_raw N, u64_raw M, class T> PHASES_FN tuple<len, len> sides(const own_item<block<N, M>, T>&) {
    return tup(len(N), len(M));
}
template <class B, class G, class T> struct items_load {
    static constexpr len ahead = ahead_of<B, G>;
    using value = T;
    G to;
    slice<const T> x;
    const T* from;
    u64_raw first;
    T rest;
    bool whole;
    PHASES_FN T inside(const T* p, usize i) const { return p[len(i.v)]; }
    PHASES_FN T any(usize i) const {
        const u64_raw at = first + i.v;
        return at < x.n ? x.p[at] : rest;
    }
};
template <class B, class G, class T> struct matrix_load {
    static constexpr len ahead = ahead_of<B, G>;
    using value = T;
    G to;
    const T* from;
    len first;
    u64_raw rows, columns, row, column;
    T rest;
    bool whole;
    PHASES_FN T inside(const T* p, array<usize, 2> i) const { return p[first + (len(i.a[0].v) * len(columns) + len(i.a[1].v))]; }
    PHASES_FN T any(array<usize, 2> i) const {
        const u64_raw y = row + i.a[0].v, z = column + i.a[1].v;
        T value = rest;
        if (y < rows && z < columns) value = from[len(y) * len(columns) + len(z)];
        return value;
    }
};
// Whether a target is rows of a shared array, and how far apart they are.
template <class G> constexpr u64_raw row_of = 0;
template <class T, u64_raw C, u64_raw R> constexpr u64_raw row_of<matrix<T, C, R>> = C;
template <class T, u64_raw C, u64_raw R> constexpr u64_raw row_of<cells<T, C, R>> = C;
// Loads a matrix that is inside, by threads that each have one column.
template <class B, class G, class T> PHASES_FN void load_columns(const matrix_load<B, G, T>& load, len height, len width) {
    const len t = B::thread(), step = B::threads / width, count = (height + step - 1) / step;
    const u64_raw across = u64_raw(step) * len(load.columns);
    const T* from = load.from + (load.first + (t / width * len(load.columns) + t % width));
    T* to = load.to.p + (t / width * len(row_of<G>) + t % width);
    for (len first = 0; first < count; first += most_ahead) {
        T read[most_ahead];
        const auto has = [&](len k) {
            return (count % most_ahead == 0 || first + k < count) && (height % step == 0 || t / width + (first + k) * step < height);
        };
#pragma unroll
        for (len k = 0; k < most_ahead; ++k) {
            if (has(k)) read[k] = from[k * across];
        }
#pragma unroll
        for (len k = 0; k < most_ahead; ++k) {
            if (has(k)) to[k * step * len(row_of<G>)] = read[k];
        }
        from += most_ahead * across;
        to += most_ahead * step * len(row_of<G>);
    }
}
// Whether it has done so.
template <class L> PHASES_FN bool has_loaded_columns(const L&) { return false; }
template <class B, class G, class T> PHASES_FN bool has_loaded_columns(const matrix_load<B, G, T>& load) {
    if constexpr (row_of<G> > 0) {
        const auto of = sides(load.to);
        if (of.f1 != 0 && B::threads % of.f1 == 0) {
            load_columns(load, of.f0, of.f1);
            return true;
        }
    }
    return false;
}
template <class B, class C, class L> PHASES_FN void load_now(C c, const L& load) {
    if (load.whole && has_loaded_columns(load)) return;
    if (load.whole) {
        typename L::value read[most_ahead];
        const len n = load.to.count();
        for (len first = B::thread(); first < n; first += most_ahead * B::threads) {
#pragma unroll
            for (len k = 0; k < most_ahead; ++k) {
                const len i = k * B::threads;
                if (i < n - first && load.to.has(first + i)) read[k] = load.inside(load.from, load.to.index(first + i));
            }
#pragma unroll
            for (len k = 0; k < most_ahead; ++k) {
                const len i = k * B::threads;
                if (i < n - first && load.to.has(first + i)) *load.to.item(first + i).p = read[k];
            }
            if (n - first <= most_ahead * B::threads) break; // The sum may overflow.
        }
    } else {
        each_item<B>(c, load.to, [&](auto, auto i, auto to) { *to.p = load.any(i); });
    }
}
template <class B, class C, class L> PHASES_FN void load_any(C c, const L& load) {
    each_item<B>(c, load.to, [&](auto, auto i, auto to) { *to.p = load.any(i); });
}
// A pointer to global memory from which loads stay before a barrier: ptxas moves a barrier before loads of read-only memory.
template <bool MEET, class T> PHASES_FN const T* early(const T* p) {
    if constexpr (MEET && inspects) {
        asm("" : "+l"(p));
        __builtin_assume(__isGlobal(p));
    }
    return p;
}
template <bool MEET, class L> PHASES_FN bool is_early(const L& load) {
    if constexpr (MEET && inspects && L::ahead > 0) return __isGlobal(load.from);
    return true;
}
// Reads the elements of loads, then calls `before`, and then writes them, in the order of the loads. `MEET`: `before` is a
// barrier.
template <bool MEET, class B, class C, class F> PHASES_FN void load_ahead(C, bool, const F& before) { before(); }
template <bool MEET, class B, class C, class F, class L, class... M>
PHASES_FN void load_ahead(C c, bool whole, const F& before, const L& load, const M&... more) {
    if constexpr (same<L, loaded>) {
        load_ahead<MEET, B>(c, whole, before, more...);
    } else if constexpr (L::ahead == 0) {
        const auto now = [&] { before(), load_now<B>(c, load); };
        load_ahead<MEET, B>(c, whole, now, more...);
    } else {
        typename L::value read[L::ahead];
        const len n = load.to.count(), t = B::thread();
        if (whole) {
            const auto* const from = early<MEET>(load.from);
#pragma unroll
            for (len k = 0; k < L::ahead; ++k) {
                const len i = t + k * B::threads;
                if (i < n) read[k] = load.inside(from, load.to.index(i));
            }
        }
        const auto then = [&] {
            before();
            if (!whole) return load_any<B>(c, load);
#pragma unroll
            for (len k = 0; k < L::ahead; ++k) {
                const len i = t + k * B::threads;
                if (i < n) *load.to.item(i).p = read[k];
            }
        };
        load_ahead<MEET, B>(c, whole, then, more...);
    }
}
// Loads between which no barrier stands. `MEET`: one stands before their elements are written.
template <bool MEET, class B, class C, class... L> PHASES_FN void load_all(C c, const L&... loads) {
    const auto before = [] { if constexpr (MEET) B::sync(); };
    load_ahead<MEET, B>(c, ((L::ahead == 0 || (loads.whole && is_early<MEET>(loads))) && ...), before, loads...);
}
template <class B, class C, class G, class T>
PHASES_FN auto load_items(C c, line, const G& g, slice<const T> x, isize start, T rest) {
    const u64_raw first = u64_raw(start.v);
    const bool whole = first < x.n && x.n - len(first) >= g.count();
    return items_load<B, G, T>{g, x, x.p + first, first, rest, whole};
}
template <class B, class C, class G, class T, u64_raw K>
PHASES_FN auto load_items(C c, line l, const G& g, ref<array<T, K>> x, isize start, T rest) {
    return load_items<B>(c, l, g, slice<const T>(x.p->a, len(K)), start, rest);
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
    const bool near = small && ((row | column) >> 32) == 0 && len(rows) >= of.f0 && pitch >= of.f1;
    const bool whole = near && len(row) <= len(rows) - of.f0 && len(column) <= pitch - of.f1;
    return matrix_load<B, G, T>{g, x.p, len(row) * pitch + len(column), rows, columns, row, column, rest, whole};
}
template <class B, class C, class G, class T, u64_raw K>
PHASES_FN auto load_matrix(
    C c, line l, const G& g, ref<array<T, K>> x, array<usize, 2> size, array<isize, 2> origin, T rest
) {
    return load_matrix<B>(c, l, g, slice<const T>(x.p->a, len(K)), size, origin, rest);
}
} // namespace phases
