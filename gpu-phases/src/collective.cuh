// Values of the threads of a warp, and of a block. The order of operations is that of the CPU.
namespace phases {
PHASES_FN len lane_number() { return threadIdx.x % 32; }
template <class T> union words_of {
    T x;
    unsigned w[(sizeof(T) + 3) / 4];
    PHASES_FN words_of() {}
};
template <class T> PHASES_FN T exchange(T x, len from) {
    constexpr int words = (sizeof(T) + 3) / 4;
    words_of<T> in, out;
    in.w[words - 1] = 0;
    in.x = x;
#pragma unroll
    for (int k = 0; k < words; ++k) out.w[k] = __shfl_sync(~0u, in.w[k], from);
    return out.x;
}
struct plus_ {
    template <class R, int K> PHASES_FN num<R, K> operator()(num<R, K> a, num<R, K> b) const {
        using W = typename raw<R>::wide;
        if constexpr (raw<R>::floating) return num<R, K>(add_(a.v, b.v));
        else return num<R, K>(R(W(a.v) + W(b.v)));
    }
};
struct lesser_ {
    template <class T> PHASES_FN T operator()(T a, T b) const { return min_num(0, 0, a, b); }
};
struct greater_ {
    template <class T> PHASES_FN T operator()(T a, T b) const { return max_num(0, 0, a, b); }
};
template <class B, class O, class T> PHASES_FN T butterfly(T x, O op) {
    B::meet_warp();
#pragma unroll
    for (len distance = 16; distance > 0; distance /= 2) {
        const len partner = lane_number() ^ distance;
        const T other = exchange(x, partner);
        x = lane_number() < partner ? op(x, other) : op(other, x);
    }
    return x;
}
template <class B, class T> PHASES_FN T inclusive(T x) {
    B::meet_warp();
#pragma unroll
    for (len distance = 1; distance < 32; distance *= 2) {
        const T before = exchange(x, lane_number() - distance);
#ifdef PHASES_GRADIENT
        // Without a branch, in which a compiler would take doubles apart.
        const T sum = plus_{}(before, x);
        x = lane_number() >= distance ? sum : x;
#else
        if (lane_number() >= distance) x = plus_{}(before, x);
#endif
    }
    return x;
}
template <class B, class T> PHASES_FN unit b_warp_sum(per_thread<T>& x) { x.v = butterfly<B>(x.v, plus_{}); return unit{}; }
template <class B, class T> PHASES_FN unit b_warp_min(per_thread<T>& x) { x.v = butterfly<B>(x.v, lesser_{}); return unit{}; }
template <class B, class T> PHASES_FN unit b_warp_max(per_thread<T>& x) { x.v = butterfly<B>(x.v, greater_{}); return unit{}; }
template <class B, class T> PHASES_FN unit b_warp_scan(per_thread<T>& x) { x.v = inclusive<B>(x.v); return unit{}; }
template <class B, class T> PHASES_FN unit b_warp_xor(per_thread<T>& x, u32 mask) {
    B::meet_warp();
    x.v = exchange(x.v, lane_number() ^ (mask.v & 31));
    return unit{};
}
template <class B, class T> PHASES_FN unit b_warp_broadcast(per_thread<T>& x, const per_thread<u32>& from) {
    B::meet_warp();
    x.v = exchange(x.v, from.v.v & 31);
    return unit{};
}
template <class B> PHASES_FN unit b_warp_ballot(const per_thread<bool>& x, per_thread<u32>& bits) {
    B::meet_warp();
    bits.v = u32(__ballot_sync(~0u, x.v));
    return unit{};
}
// Values of the warps of a block, for its functions.
template <class B, class T> PHASES_FN T* room_for_warps() {
    static_assert(B::threads % 32 == 0, "functions of the values of a block need a multiple of 32 threads");
    __shared__ bytes_of<T> room[B::warps];
    return (T*)room;
}
template <class B, class T, class O> PHASES_FN T reduced(T x, O op) {
    x = butterfly<B>(x, op);
    T* const of_warps = room_for_warps<B, T>();
    if (lane_number() == 0) of_warps[threadIdx.x / 32] = x;
    B::meet();
    T result = of_warps[0];
#pragma unroll
    for (len w = 1; w < B::warps; ++w) result = op(result, of_warps[w]);
    return result;
}
template <class B, class T> PHASES_FN T b_sum(const per_thread<T>& x) { return reduced<B>(x.v, plus_{}); }
template <class B, class T> PHASES_FN T b_min(const per_thread<T>& x) { return reduced<B>(x.v, lesser_{}); }
template <class B, class T> PHASES_FN T b_max(const per_thread<T>& x) { return reduced<B>(x.v, greater_{}); }
template <class B, class T> PHASES_FN T b_scan(per_thread<T>& x) {
    const T sum = inclusive<B>(x.v), before = exchange(sum, lane_number() - 1);
    T* const of_warps = room_for_warps<B, T>();
    if (lane_number() == 31) of_warps[threadIdx.x / 32] = sum;
    B::meet();
    T total{}, own{};
    total.v = own.v = 0;
#pragma unroll
    for (len w = 0; w < B::warps; ++w) {
        if (w == threadIdx.x / 32) own = total;
        total = plus_{}(total, of_warps[w]);
    }
    T first{};
    first.v = 0;
    x.v = plus_{}(own, lane_number() == 0 ? first : before);
    return total;
}
template <class B> PHASES_FN u32 b_compact(const per_thread<bool>& keep, per_thread<u32>& at) {
    B::meet_warp();
    const unsigned bits = __ballot_sync(~0u, keep.v);
    u32* const of_warps = room_for_warps<B, u32>();
    if (lane_number() == 0) of_warps[threadIdx.x / 32] = u32(__popc(bits));
    B::meet();
    unsigned total = 0, own = 0;
#pragma unroll
    for (len w = 0; w < B::warps; ++w) {
        if (w == threadIdx.x / 32) own = total;
        total += of_warps[w].v;
    }
    at.v = u32(own + __popc(bits & ((1u << lane_number()) - 1)));
    return u32(total);
}
template <class B, class C, class T> PHASES_FN T b_broadcast(C c, line l, const per_thread<T>& x, usize from) {
    if (from.v >= B::threads) c.fail(l, Index, from.v, B::threads);
    __shared__ bytes_of<T> room;
    if (threadIdx.x == len(from.v)) *(T*)&room = x.v;
    B::meet();
    return T(*(T*)&room);
}
// The order of `total_cmp`, as integers have it, with NaNs at the end.
template <class R, int K> PHASES_FN R order_of(num<R, K> x) { return x.v; }
PHASES_FN int order_of(f32 x) {
    const int b = int(bits_(x.v));
    return b ^ int(unsigned(b >> 31) >> 1);
}
PHASES_FN long long order_of(f64 x) {
    const long long b = (long long)bits_(x.v);
    return b ^ (long long)((unsigned long long)(b >> 63) >> 1);
}
// Bitonic, with all comparisons upwards: elements beyond the end would be the greatest, and stay there.
template <class B, class T, u64_raw K> PHASES_FN unit b_sort(shared<array<T, K>> x) {
    T* const a = x.p->a;
    for (len size = 2; size / 2 < K; size *= 2) {
        for (len distance = size / 2; distance > 0; distance /= 2) {
            B::meet();
            const len flip = distance == size / 2 ? size - 1 : distance;
            for (len i = B::thread(); i < K; i += B::threads) {
                const len j = i ^ flip;
                if (j > i && j < K && order_of(a[j]) < order_of(a[i])) {
                    const T t = a[i];
                    a[i] = a[j];
                    a[j] = t;
                }
            }
        }
    }
    return unit{};
}
template <class T> PHASES_FN unit swap_handles(T& a, T& b) {
    const T t = a;
    a = b;
    b = t;
    return unit{};
}
template <class B, class C, class A> PHASES_FN void swap_memory(C c, shared<A> a, shared<A> b) {
    each_item<B>(c, zipped(target<B>(a), target<B>(b)), [&](auto, auto, auto x) { swap_handles(*x.f0.p, *x.f1.p); });
}
template <class B, class C, class T, u64_raw M> PHASES_FN void swap_memory(C c, piece<T, M>& a, piece<T, M>& b) {
    each_item<B>(c, zipped(target<B>(a), target<B>(b)), [&](auto, auto, auto x) { swap_handles(*x.f0.p, *x.f1.p); });
}
template <class B, class C, class T> PHASES_FN void swap_memory(C, T& a, T& b) { swap_handles(a, b); }
} // namespace phases
