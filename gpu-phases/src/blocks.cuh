// Blocks of threads: phases and memory that a block shares.
namespace phases {

// Code at block level: all threads run it with the same values. A check that fails there fails in all of them.
template <bool O> struct block_now : thread {
    static constexpr bool overflow = O, deferred = false, block = true;
    unsigned file;
    PHASES_FN constexpr bool stop() const { return false; }
    PHASES_FN bool effects() const { return threadIdx.x == 0; }
    PHASES_FN void fail(line at, kind k, u64_raw index = 0, u64_raw length = 0) const {
        if (threadIdx.x == 0) thread::fail(file, at, k, index, length);
        asm volatile("exit;");
        __builtin_unreachable();
    }
};
template <bool O, bool P> PHASES_FN block_now<O> in(block_now<P> c, unsigned file) { return block_now<O>{c, file}; }
template <bool F, bool O> PHASES_FN block_now<O> defer(block_now<O> c, bool&) { return c; }
template <bool O> PHASES_FN block_now<false> sure(block_now<O> c, yes) { return block_now<false>{c, c.file}; }
// A thread in a phase. `failed` is the thread's, of this phase.
#ifdef PHASES_GRADIENT
// All threads come to each barrier and exchange, so that their reverse does: a check that fails, which the launch has
// reported, lets the thread go on with zeros, without effects.
template <bool O> struct flagged : thread {
    static constexpr bool overflow = O, deferred = true, block = false;
    unsigned file;
    bool* failed;
    PHASES_FN bool stop() const { return *failed; }
    PHASES_FN bool effects() const { return !*failed; }
    PHASES_FN void fail(line, kind, u64_raw = 0, u64_raw = 0) const { *failed = true; }
    PHASES_FN void end(line at, kind k, u64_raw index = 0, u64_raw length = 0) const {
        thread::fail(file, at, k, index, length);
    }
};
template <bool O, bool P> PHASES_FN flagged<O> in(flagged<P> c, unsigned file) { return flagged<O>{c, file, c.failed}; }
template <bool F, bool O> PHASES_FN flagged<O> defer(flagged<O> c, bool&) { return c; }
template <bool O> PHASES_FN flagged<false> sure(flagged<O> c, yes) { return flagged<false>{c, c.file, c.failed}; }
template <bool O> PHASES_FN flagged<O> threads_of(block_now<O> c, bool& failed) { return flagged<O>{c, c.file, &failed}; }
#else
template <bool O> PHASES_FN now<O> threads_of(block_now<O> c, bool&) { return now<O>{c, c.file}; }
#endif

// A block of N threads, or of N rows of M.
template <u64_raw N, u64_raw M> struct block {
    static constexpr len threads = len(M == 0 ? N : N * M), warps = threads / 32;
    PHASES_FN static len thread() {
        // NVVM knows which bits of an `and` are 0, and forgets an assumption.
        if constexpr ((threads & (threads - 1)) == 0) return threadIdx.x & (threads - 1);
        const len t = threadIdx.x;
        __builtin_assume(t < threads);
        return t;
    }
    PHASES_FN static auto index(len i) {
        if constexpr (M == 0) return usize(i);
        else return arr(usize(i / M), usize(i % M));
    }
    PHASES_FN static void sync() { __syncthreads(); }
    // A barrier that ends the block if a thread has left by a fault: what it has not written must not be used. Adjoints
    // wait for no result: gradients after a fault are any numbers.
    PHASES_FN static void meet() {
#ifdef PHASES_GRADIENT
        sync();
#else
        if (__syncthreads_count(1) != int(threads)) asm volatile("exit;");
#endif
    }
    // The same for the threads of a warp.
    PHASES_FN static void meet_warp() {
        static_assert(threads % 32 == 0, "functions of warps need a multiple of 32 threads");
#ifndef PHASES_GRADIENT
        if (__ballot_sync(~0u, 1) != ~0u) asm volatile("exit;");
#endif
    }
    len count;
    // Its index.
    unsigned at;
};
template <class C, u64_raw N, u64_raw M> PHASES_FN usize b_index(C, line, block<N, M> b) { return usize(b.at); }
template <class C, u64_raw N, u64_raw M> PHASES_FN usize b_count(C, line, block<N, M> b) { return usize(b.count); }
template <class C, u64_raw N, u64_raw M> PHASES_FN usize b_threads(C, line, block<N, M> b) { return usize(b.threads); }

// ---- Memory of a block. Only phases write it.

template <class A> struct shared {
    A* p;
};
template <class A> constexpr bool is_array<shared<A>> = true;
template <class A> constexpr bool leads<shared<A>> = points<A>;
template <class A> PHASES_FN const A& d(const shared<A>& x) { return *x.p; }
template <class A> PHASES_FN const A& d(shared<A>& x) { return *x.p; }
template <class T> struct per_thread {
    T v;
};
template <class B, class T> PHASES_FN per_thread<plain<T>> kept_by(const T& x) { return per_thread<plain<T>>{x}; }
// A part of an output, or of a shared array of `MOST` elements.
template <class T, u64_raw MOST = 0> struct piece : slice<T> {
    len first;
    PHASES_FN piece(T* p, len n, len f) : slice<T>{p, n}, first(f) {}
};
template <class T, u64_raw M> constexpr bool leads<piece<T, M>> = points<T>;
template <class C, class T, u64_raw M> PHASES_FN usize b_start(C, line, piece<T, M> x) { return usize(x.first); }
template <class T, u64_raw K> PHASES_FN piece<T, K> all_of(shared<array<T, K>> x) { return piece<T, K>(x.p->a, len(K), 0); }
template <class T, u64_raw M> PHASES_FN piece<T, M> all_of(const piece<T, M>& x) { return x; }
template <class X> constexpr u64_raw most_of = 0;
template <class T, u64_raw M> constexpr u64_raw most_of<piece<T, M>> = M;
template <class T, u64_raw H, u64_raw W> struct tile {
    T* p;
    len pitch, row, column, height, width;
};
template <class C, class T, u64_raw H, u64_raw W> PHASES_FN array<usize, 2> b_origin(C, line, tile<T, H, W> x) {
    return arr(usize(x.row), usize(x.column));
}
template <class T> struct slot {
    T* p;
};
template <class C, class T> PHASES_FN unit b_set(C, line, slot<T> x, T v) {
    if (threadIdx.x == 0) *x.p = v;
    return unit{};
}
// An element, or a row, for each warp.
template <class T> struct warp_elements {
    T* p;
    len n, first;
};
template <class C, class T> PHASES_FN usize b_start(C, line, warp_elements<T> x) { return usize(x.first); }
template <class T> struct warp_rows {
    T* p;
    len n, columns, first;
};
template <class C, class T> PHASES_FN usize b_start(C, line, warp_rows<T> x) { return usize(x.first); }
template <class T> struct lane {
    T* p;
    len n, at;
};
template <class T> PHASES_FN usize length(lane<T> x) { return usize(x.n); }
template <class C, class T> PHASES_FN T& at(C c, line l, lane<T> x, usize i) {
#ifdef PHASES_GRADIENT
    // As in `element`.
    if constexpr (C::deferred) {
        if (x.n == 0) c.end(l, Index, i.v, x.n);
        if (i.v >= x.n) c.fail(l, Index, i.v, x.n);
        return x.p[i.v < x.n ? u64_raw(len(i.v)) * 32 : 0];
    }
#endif
    if (i.v >= x.n) {
        c.fail(l, Index, i.v, x.n);
        if constexpr (C::deferred) return *none<T>();
    }
    return x.p[u64_raw(len(i.v)) * 32];
}
template <class C, class T> PHASES_FN T& at(C, line, lane<T> x, usize i, yes) { return x.p[i.v * 32]; }
template <class C, class T> PHASES_FN T read(C c, line l, lane<T> x, usize i) { return at(c, l, x, i); }
template <class C, class T> PHASES_FN T read(C, line, lane<T> x, usize i, yes) { return x.p[i.v * 32]; }
template <class T> constexpr bool leads<lane<T>> = true;
template <class C, class T> PHASES_FN usize m_column(C, line, lane<T> x, usize i) { return usize(x.at + i.v * 32); }

// ---- Parts of outputs, those of the block with the index `at`.

template <class T> PHASES_FN slot<T> slot_of(unsigned at, slice<T> x) { return slot<T>{x.p + at}; }
template <class T> PHASES_FN piece<T> chunk_of(unsigned at, slice<T> x, usize size) {
    const u64_raw first = at * size.v;
    return piece<T>(x.p + first, len(x.n - first < size.v ? x.n - first : size.v), len(first));
}
// The index of a block whose grid has the shape of the tiles of an output, unless they are too many.
struct plane_index {
    PHASES_FN operator unsigned() const { return blockIdx.y * gridDim.x + blockIdx.x; }
};
PHASES_FN tuple<unsigned, unsigned> tile_at(unsigned at, len across) { return tup(unsigned(at / across), unsigned(at % across)); }
// A division takes as long as a fifth of a small kernel.
PHASES_FN tuple<unsigned, unsigned> tile_at(plane_index at, len across) {
    return gridDim.x == across ? tup(blockIdx.y, blockIdx.x) : tile_at(unsigned(at), across);
}
template <u64_raw H, u64_raw W, class A, class T>
PHASES_FN tile<T, H, W> tile_of(A at, slice<T> x, array<usize, 2> size) {
    const usize rows = size.a[0], columns = size.a[1];
    const auto place = tile_at(at, len((columns.v + (W - 1)) / W));
    const len row = place.f0 * len(H), column = place.f1 * len(W);
    const len height = len(rows.v) - row < H ? len(rows.v) - row : len(H);
    const len width = len(columns.v) - column < W ? len(columns.v) - column : len(W);
    return tile<T, H, W>{x.p + (row * len(columns.v) + column), len(columns.v), row, column, height, width};
}
template <class T> PHASES_FN warp_elements<T> warps_of(unsigned at, slice<T> x, usize count) {
    const piece<T> p = chunk_of(at, x, count);
    return warp_elements<T>{p.p, p.n, p.first};
}
template <class T> struct rows_ {
    slice<T> of;
    usize columns;
};
template <class T> PHASES_FN warp_rows<T> warps_of(unsigned at, rows_<T> x, usize count) {
    const u64_raw rows = x.of.n / x.columns.v, first = at * count.v;
    const u64_raw left = rows - first;
    return warp_rows<T>{x.of.p + first * x.columns.v, len(left < count.v ? left : count.v), len(x.columns.v), len(first)};
}

// ---- Targets of phases: positions with items. `fixed` is their number if it is known, else 0.

template <class T, u64_raw K> struct items {
    static constexpr u64_raw fixed = K, most = fixed;
    T* p;
    PHASES_FN len count() const { return len(K); }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN usize index(len i) const { return usize(i); }
    PHASES_FN mut<T> item(len i) const { return mut<T>(p + i); }
};
template <class B, class T, u64_raw K> PHASES_FN items<T, K> target(shared<array<T, K>> x) { return items<T, K>{x.p->a}; }
// Rows of a shared array: all columns, or the first ones.
template <class T, u64_raw C, u64_raw R> struct matrix {
    static constexpr u64_raw fixed = C * R, most = fixed;
    T* p;
    PHASES_FN len count() const { return len(C * R); }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN array<usize, 2> index(len i) const { return arr(usize(i / C), usize(i % C)); }
    PHASES_FN mut<T> item(len i) const { return mut<T>(p + i); }
};
template <class B, class T, u64_raw C, u64_raw R> PHASES_FN matrix<T, C, R> target(shared<array<array<T, C>, R>> x) {
    return matrix<T, C, R>{x.p->a->a};
}
template <class T, u64_raw C, u64_raw R> struct cells {
    static constexpr u64_raw fixed = 0, most = C * R;
    T* p;
    len columns;
    PHASES_FN len count() const { return len(R) * columns; }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN array<usize, 2> index(len i) const { return arr(usize(i / columns), usize(i % columns)); }
    PHASES_FN mut<T> item(len i) const { return mut<T>(p + (i / columns * len(C) + i % columns)); }
};
template <class T, class U, u64_raw C, u64_raw R>
PHASES_FN cells<U, C, R> b_cells(T c, line l, shared<array<array<U, C>, R>> x, usize columns) {
    if (columns.v > C) c.fail(l, Index, columns.v, C);
    return cells<U, C, R>{x.p->a->a, len(columns.v)};
}
template <class T, u64_raw MOST> struct any_items {
    static constexpr u64_raw fixed = 0, most = MOST;
    slice<T> of;
    PHASES_FN len count() const { return of.n; }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN usize index(len i) const { return usize(i); }
    PHASES_FN mut<T> item(len i) const { return mut<T>(of.p + i); }
};
template <class B, class T, u64_raw M> PHASES_FN any_items<T, M> target(const piece<T, M>& x) {
    return any_items<T, M>{slice<T>{x.p, x.n}};
}
constexpr u64_raw bits_below(u64_raw n, u64_raw all = 0) { return all >= n ? all : bits_below(n, 2 * all + 1); }
template <class T, u64_raw MOST> struct pairs {
    static constexpr u64_raw fixed = 0, most = MOST / 2;
    slice<T> of;
    // A power of two. The bits that it cannot have are cleared, so that compilers see which indices are in bounds.
    len distance;
    // Of a last group that is cut off, the first pairs are whole, so that positions without a pair come last.
    PHASES_FN len count() const { return distance < of.n ? of.n / 2 : 0; }
    PHASES_FN len apart() const { return MOST > 0 ? distance & len(bits_below(MOST - 1)) : distance; }
    PHASES_FN bool has(len i) const { return (first(i) | apart()) < of.n; }
    PHASES_FN len first(len i) const { return (i & (0 - apart())) << 1 | (i & (apart() - 1)); }
    PHASES_FN usize index(len i) const { return usize(first(i)); }
    PHASES_FN tuple<mut<T>, mut<T>> item(len i) const {
        return tup(mut<T>(of.p + first(i)), mut<T>(of.p + (first(i) | apart())));
    }
};
template <class T> struct row_items {
    static constexpr u64_raw fixed = 0, most = 0;
    slice<T> of;
    len columns;
    PHASES_FN len count() const { return of.n / columns + (of.n % columns != 0); }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN usize index(len i) const { return usize(i); }
    PHASES_FN slice<T> item(len i) const {
        const len first = i * columns, left = of.n - first;
        return slice<T>{of.p + first, left < columns ? left : columns};
    }
};
template <class B, class T, u64_raw H, u64_raw W> struct tile_items {
    static constexpr u64_raw fixed = H * W, most = fixed;
    tile<T, H, W> of;
    PHASES_FN len count() const { return len(H * W); }
    PHASES_FN bool has(len i) const { return i / len(W) < of.height && i % len(W) < of.width; }
    PHASES_FN array<usize, 2> index(len i) const { return arr(usize(i / len(W)), usize(i % len(W))); }
    PHASES_FN mut<T> item(len i) const { return mut<T>(of.p + (i / len(W) * of.pitch + i % len(W))); }
};
template <class B, class T, u64_raw H, u64_raw W> PHASES_FN tile_items<B, T, H, W> target(const tile<T, H, W>& x) {
    return tile_items<B, T, H, W>{x};
}
// What follows the closure of an item.
template <class G> PHASES_FN void after(const G&, len) {}
template <class B, class T> struct own_item {
    static constexpr u64_raw fixed = B::threads, most = fixed;
    T* p;
    PHASES_FN len count() const { return B::threads; }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN auto index(len i) const { return B::index(i); }
    PHASES_FN mut<T> item(len) const { return mut<T>(p); }
};
template <class B, class T> PHASES_FN own_item<B, T> target(per_thread<T>& x) { return own_item<B, T>{&x.v}; }
template <class T> struct first_lanes {
    static constexpr u64_raw fixed = 0, most = 0;
    warp_elements<T> of;
    PHASES_FN len count() const { return of.n * 32; }
    PHASES_FN bool has(len i) const { return i % 32 == 0; }
    PHASES_FN usize index(len i) const { return usize(i); }
    PHASES_FN mut<T> item(len i) const { return mut<T>(of.p + i / 32); }
};
template <class B, class T> PHASES_FN first_lanes<T> target(const warp_elements<T>& x) { return first_lanes<T>{x}; }
template <class T> struct lanes {
    static constexpr u64_raw fixed = 0, most = 0;
    warp_rows<T> of;
    PHASES_FN len count() const { return of.n * 32; }
    PHASES_FN bool has(len) const { return true; }
    PHASES_FN usize index(len i) const { return usize(i); }
    PHASES_FN lane<T> item(len i) const {
        const len at = i % 32, n = of.columns > at ? (of.columns - at + 31) / 32 : 0;
        return lane<T>{of.p + (u64_raw(i / 32) * of.columns + (n > 0 ? at : 0)), n, at};
    }
};
template <class B, class T> PHASES_FN lanes<T> target(const warp_rows<T>& x) { return lanes<T>{x}; }
template <class B, class T> PHASES_FN auto target(const T& x) -> decltype(x.item(0), x) { return x; }

constexpr u64_raw fewer(u64_raw a, u64_raw b) { return a == 0 || b == 0 ? 0 : a < b ? a : b; }
constexpr u64_raw known(u64_raw a, u64_raw b) { return a == 0 ? b : b == 0 ? a : a < b ? a : b; }
template <class... G> struct zip;
template <class A> struct zip<A> {
    static constexpr u64_raw fixed = A::fixed, most = A::most;
    A a;
    PHASES_FN len count() const { return a.count(); }
    PHASES_FN bool has(len i) const { return a.has(i); }
    PHASES_FN auto index(len i) const { return a.index(i); }
};
template <class A, class... R> struct zip<A, R...> {
    static constexpr u64_raw fixed = fewer(A::fixed, zip<R...>::fixed), most = known(A::most, zip<R...>::most);
    A a;
    zip<R...> rest;
    PHASES_FN len count() const {
        const len n = a.count(), m = rest.count();
        return n < m ? n : m;
    }
    PHASES_FN bool has(len i) const { return a.has(i) && rest.has(i); }
    PHASES_FN auto index(len i) const { return a.index(i); }
};
template <class A> PHASES_FN void after(const zip<A>& z, len i) { after(z.a, i); }
template <class A, class B, class... R> PHASES_FN void after(const zip<A, B, R...>& z, len i) {
    after(z.a, i);
    after(z.rest, i);
}
template <class A> PHASES_FN zip<A> zipped(A a) { return zip<A>{a}; }
template <class A, class... R> PHASES_FN zip<A, R...> zipped(A a, R... r) { return zip<A, R...>{a, zipped(r...)}; }
template <class G> PHASES_FN auto item_of(const G& g, len i) { return g.item(i); }
template <class A> PHASES_FN auto item_of(const zip<A>& z, len i) { return tup(item_of(z.a, i)); }
template <class A, class B> PHASES_FN auto item_of(const zip<A, B>& z, len i) {
    return tup(item_of(z.a, i), item_of(z.rest.a, i));
}
template <class A, class B, class C> PHASES_FN auto item_of(const zip<A, B, C>& z, len i) {
    return tup(item_of(z.a, i), item_of(z.rest.a, i), item_of(z.rest.rest.a, i));
}
template <class A, class B, class C, class D> PHASES_FN auto item_of(const zip<A, B, C, D>& z, len i) {
    return tup(item_of(z.a, i), item_of(z.rest.a, i), item_of(z.rest.rest.a, i), item_of(z.rest.rest.rest.a, i));
}
template <class A, class B, class C, class D, class E> PHASES_FN auto item_of(const zip<A, B, C, D, E>& z, len i) {
    const auto& r = z.rest.rest.rest;
    return tup(item_of(z.a, i), item_of(z.rest.a, i), item_of(z.rest.rest.a, i), item_of(r.a, i), item_of(r.rest.a, i));
}
template <class A, class B, class C, class D, class E, class F>
PHASES_FN auto item_of(const zip<A, B, C, D, E, F>& z, len i) {
    const auto& r = z.rest.rest.rest;
    const auto a = item_of(r.a, i);
    return tup(
        item_of(z.a, i), item_of(z.rest.a, i), item_of(z.rest.rest.a, i), a, item_of(r.rest.a, i), item_of(r.rest.rest.a, i)
    );
}

// ---- Phases.

template <class C, class G, class F> PHASES_FN void at_item(C in, const G& g, len i, const F& f) {
    f(in, g.index(i), item_of(g, i));
    after(g, i);
}
template <class B, class C, class G, class F> PHASES_FN void each_item(C c, const G& g, const F& f) {
    bool failed = false;
    const auto in = threads_of(c, failed);
    const len t = B::thread();
    if constexpr (G::fixed > 0) {
        constexpr len n = len(G::fixed), times = (n + B::threads - 1) / B::threads;
#pragma unroll(times <= 8 ? times : 1)
        for (len k = 0; k < times; ++k) {
            const len i = t + k * B::threads;
            if ((n % B::threads == 0 || i < n) && g.has(i)) at_item(in, g, i, f);
        }
    } else if constexpr (G::most > 0 && G::most <= 8 * B::threads) {
        const len n = g.count();
        constexpr len times = (len(G::most) + B::threads - 1) / B::threads;
#pragma unroll
        for (len k = 0; k < times; ++k) {
            const len i = t + k * B::threads;
            if (i < n && g.has(i)) at_item(in, g, i, f);
        }
    } else {
        const len n = g.count();
        for (len i = t; i < n; i += B::threads) {
            if (g.has(i)) at_item(in, g, i, f);
            if (n - i <= B::threads) break; // The sum may overflow.
        }
    }
}
// `U` indices together, so that several loads are under way. Compilers see that an index is below a count of 32 bits, which
// is a length in most cases.
template <class B, len U, class C, class F> PHASES_FN void run_items(C c, usize count, const F& f) {
    bool failed = false;
    const auto in = threads_of(c, failed);
    const len t = B::thread(), n = len(count.v);
    if (n != count.v) {
        for (u64_raw k = 0; k < (count.v - t - 1) / B::threads + 1; ++k) f(in, usize(t + k * B::threads));
        return;
    }
    len i = t;
    // The sums do not overflow.
    if (U == 4 && n < len(0) - 8 * B::threads) {
        for (; i < n; i += 4 * B::threads) {
            const len j = i + B::threads, k = j + B::threads, l = k + B::threads;
            if (!(j < n && k < n && l < n)) break;
            f(in, usize(i));
            f(in, usize(j));
            f(in, usize(k));
            f(in, usize(l));
        }
    }
    for (; i < n; i += B::threads) {
        f(in, usize(i));
        if (n - i <= B::threads) break;
    }
}
template <class B, u64_raw K, class T> PHASES_FN void set_items(T* p, T v) {
    constexpr len times = len((K + B::threads - 1) / B::threads);
#pragma unroll(times <= 8 ? times : 8)
    for (len k = 0; k < times; ++k) {
        const len i = B::thread() + k * B::threads;
        if (K % B::threads == 0 || i < K) p[i] = v;
    }
}
template <class B, class T, u64_raw K, class V> PHASES_FN void fill(shared<array<T, K>> x, V v) {
    set_items<B, K>(x.p->a, v);
}
template <class B, class T, u64_raw C, u64_raw R, class V> PHASES_FN void fill(shared<array<array<T, C>, R>> x, V v) {
    set_items<B, C * R>(x.p->a->a, v);
}
// An array of the block's dynamic memory, of which `used` bytes are those of other arrays. The host has computed the same
// lengths before the launch.
template <class B, class T, class C> PHASES_FN piece<T> shared_slice(C c, line l, u64_raw& used, usize n, T v) {
    extern __shared__ uint4 dynamic_memory[];
    unsigned size;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    const u64_raw most = used < size ? (size - used) / sizeof(T) : 0;
    if (n.v > most) c.fail(l, Index, n.v, most);
    T* const p = (T*)((unsigned char*)dynamic_memory + used);
    used = (used + n.v * sizeof(T) + 15) / 16 * 16;
    for (len i = B::thread(); i < n.v; i += B::threads) p[i] = v;
    return piece<T>(p, len(n.v), 0);
}
// An array whose values are listed.
template <class B, class A> PHASES_FN void set_all(shared<A> x, const A& v) {
    if (threadIdx.x == 0) *x.p = v;
}
// The value that one thread computes, in all threads.
template <class T> struct alignas(sizeof(T) < 16 ? alignof(T) : 16) bytes_of {
    unsigned char b[sizeof(T)];
};
template <class B, class C, class F> PHASES_FN auto one_thread(C c, const F& f) {
    bool failed = false;
    const auto in = threads_of(c, failed);
    using T = plain<decltype(f(in))>;
    if constexpr (same<T, unit>) {
        if (threadIdx.x == 0) f(in);
        return unit{};
    } else {
        __shared__ bytes_of<T> room;
        if (threadIdx.x == 0) *(T*)&room = f(in);
        B::meet();
        return T(*(T*)&room);
    }
}

// ---- Splits.

template <class T, u64_raw M> PHASES_FN piece<T, M> piece_of(piece<T, M> x, len from, len to) {
    return piece<T, M>(x.p + from, to - from, x.first + from);
}
template <class C, class X> PHASES_FN auto b_split_at_mut(C c, line l, const X& x, usize middle) {
    const auto s = all_of(x);
    if (middle.v > s.n) c.fail(l, Index, middle.v, s.n);
    return tup(piece_of(s, 0, len(middle.v)), piece_of(s, len(middle.v), s.n));
}
template <class T, u64_raw M> PHASES_FN pairs<T, M> pairs_of(piece<T, M> x, len distance) {
    return pairs<T, M>{x, distance};
}
template <class C, class X> PHASES_FN auto b_pairs(C c, line l, const X& x, usize distance) {
    const auto s = all_of(x);
    if (distance.v == 0 || (distance.v & (distance.v - 1)) != 0) c.fail(l, Assert);
    // A larger distance has no pairs either.
    return pairs_of(s, distance.v > 0x40000000 ? 0x40000000 : len(distance.v));
}
template <class C, class X> PHASES_FN auto b_rows(C c, line l, const X& x, usize columns) {
    const auto s = all_of(x);
    if (columns.v == 0) c.fail(l, Assert);
    return row_items<plain<decltype(*s.p)>>{s, columns.v > s.n ? (s.n > 0 ? s.n : 1) : len(columns.v)};
}
template <class C, class X> PHASES_FN auto b_atomic(C, line, const X& x) {
    const auto s = all_of(x);
    return atomics<plain<decltype(*s.p)>>{s.p, s.n};
}
} // namespace phases
