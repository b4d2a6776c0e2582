// Values that blocks pass on in their order, within one launch.
namespace phases {
// The memory of a launch, all zero before the first one. Launches use it one after the other, and leave it for the
// next: each has a tag of its own, and words with another tag are those of earlier launches.
struct carry_memory {
    // The number of launches before in the upper half, and how many blocks of this one have begun.
    u64_raw begun;
    // The tag of the last launch in which a thread has failed: values may never come, so nothing waits for them.
    unsigned ended, reserved;
    u64_raw nodes[1];
};
// The place of a block in the order in which they begin: a block waits only for those that have begun, whatever the
// order is in which a device starts them.
struct turn {
    unsigned at, tag;
};
PHASES_FN turn take_turn(carry_memory* m, unsigned count) {
    __shared__ u64_raw taken;
    if (threadIdx.x == 0) {
        const u64_raw t = atomicAdd(&m->begun, 1ull);
        // The last one to begin leaves the counter to the next launch, and forgets failures of earlier ones, whose tags
        // come again. No tag is 0, that of memory never written.
        if (unsigned(t) == count - 1) {
            const unsigned launches = unsigned(t >> 32), ended = *(volatile unsigned*)&m->ended;
            if (ended != launches + 1) atomicCAS(&m->ended, ended, 0u);
            atomicExch(&m->begun, u64_raw((launches + 1) % ~0u) << 32);
        }
        taken = t;
    }
    __syncthreads();
    return turn{unsigned(taken), unsigned(taken >> 32) + 1};
}
// A value as words, each with the tag of its launch: none needs to be ordered before another.
template <class T> constexpr unsigned words_in = (sizeof(T) + 3) / 4;
template <class T> PHASES_FN void publish(const thread& c, u64_raw* node, T x) {
    words_of<T> w;
    w.w[words_in<T> - 1] = 0;
    w.x = x;
#pragma unroll
    for (unsigned k = 0; k < words_in<T>; ++k) ((volatile u64_raw*)node)[k] = u64_raw(c.tag) << 32 | w.w[k];
}
// Waits for a value if `wanted`; else the result is zero.
template <class T> PHASES_FN T await(const thread& c, const u64_raw* node, bool wanted) {
    words_of<T> w;
#pragma unroll
    for (unsigned k = 0; k < words_in<T>; ++k) w.w[k] = 0;
    for (unsigned again = 1; wanted; ++again) {
        bool there = true;
#pragma unroll
        for (unsigned k = 0; k < words_in<T>; ++k) {
            const u64_raw word = ((const volatile u64_raw*)node)[k];
            w.w[k] = unsigned(word);
            there &= unsigned(word >> 32) == c.tag;
        }
        if (there) break;
        // Seldom, as this load takes as long as that of the value.
        if (again % 16 == 0 && *(volatile unsigned*)c.ended == c.tag) asm volatile("exit;");
    }
    return w.x;
}
// Combines the values of the first `n` lanes, neighbours first, in lane 0.
template <class B, class C, class T, class F> PHASES_FN T in_order(C c, T x, len n, const F& op) {
#pragma unroll
    for (len distance = 1; distance < 32; distance *= 2) {
        B::meet_warp();
        const T next = exchange(x, lane_number() + distance);
        if (lane_number() % (2 * distance) == 0 && lane_number() + distance < n) x = op(c, x, next);
    }
    return x;
}
// What is before a block, in lane 0 of a warp. The blocks are the leaves of a tree with groups of 32: the last block of
// a group publishes the combination of the group, so a block waits for at most 31 values of each level. How values are
// combined follows from the block's number alone.
template <class B, class C, class T, class F>
PHASES_FN T before_block(C c, u64_raw* nodes, unsigned at, unsigned count, T own, T first, const F& op) {
    constexpr unsigned words = words_in<T>;
    // Whether later blocks need the values of groups that end with this one.
    bool ends = at + 1 < count;
    T before = first;
    bool any = false;
    while (at > 0) {
        const unsigned others = at % 32;
        const T x = await<T>(c, nodes + u64_raw(at - others + lane_number()) * words, lane_number() < others);
        const T sum = in_order<B>(c, x, others, op);
        nodes += u64_raw(count) * words;
        count /= 32;
        at /= 32;
        ends &= others == 31;
        if (lane_number() == 0) {
            if (others > 0) before = any ? op(c, sum, before) : sum;
            if (ends) {
                own = op(c, sum, own);
                publish(c, nodes + u64_raw(at) * words, own);
            }
        }
        any |= others > 0;
    }
    return any && lane_number() == 0 ? op(c, first, before) : before;
}
// The values of the carry with the number `K`.
template <unsigned K, class B> PHASES_FN u64_raw* carried_by(const B& b, carry_memory* m) {
    // The memory of each carry is that for the largest values.
    u64_raw all = 0;
    if constexpr (K > 0) {
        for (unsigned n = unsigned(b.count); n > 0; n /= 32) all += n;
    }
    return m->nodes + K * 4 * all;
}
// Publishes a block's own value.
template <class B, unsigned K, class C, class T> PHASES_FN void b_offer(C c, const B& b, carry_memory* m, T own) {
    static_assert(words_in<T> <= 4, "a value has 16 bytes at most");
    // Values of a block that a thread has left are wrong.
    B::meet();
    if (threadIdx.x == 0 && b.at + 1 < unsigned(b.count)) {
        publish(c, carried_by<K>(b, m) + u64_raw(b.at) * words_in<T>, own);
    }
}
// Waits for what is before a block, which has published its own value.
template <class B, unsigned K, class C, class T, class F>
PHASES_FN T b_carry(C c, const B& b, carry_memory* m, T own, T first, const F& op) {
    __shared__ bytes_of<T> room;
    if (threadIdx.x < 32) {
        u64_raw* const nodes = carried_by<K>(b, m);
        bool failed = false;
        const T before = before_block<B>(threads_of(c, failed), nodes, b.at, unsigned(b.count), own, first, op);
        if (threadIdx.x == 0) *(T*)&room = before;
    }
    B::meet();
    return T(*(T*)&room);
}
} // namespace phases
