// The builder whose hierarchies are faster to query: it walks the radix tree of the sorted keys as the fast one does,
// but merges what is below a node of that tree by nearness.
//
// C. Benthin, D. Meister, J. Barczak, R. Mehalwal, J. Tsakok, A. Kensler: H-PLOC: Hierarchical Parallel
// Locally-Ordered Clustering for Bounding Volume Hierarchy Construction. 2024. A range of leaves has a list of
// clusters, at its start, of at most 16 when it is finished. Where two ranges meet, a warp takes both lists and
// merges clusters that are each other's nearest, repeatedly, until 16 are left, or for long ranges, 1.
//
// The hierarchy is the same on every run: neither results nor node numbers depend on the order of threads. A cluster
// has a *head*, the first of its leaves. When two clusters are merged into a node, one head vanishes and becomes the
// node's number. So numbers start at 1, and each is used once.
#pragma once

#include <geom/bvh/build_radix.cuh>

namespace geom {
namespace bvh {

// The most clusters of a list: half a warp, so that a warp takes two lists.
constexpr unsigned list_size = 16;
// Ranges of more leaves than this become one cluster: above, the hierarchy is built from the sorted keys. The paper
// merges clusters by nearness up to the root; but among few large clusters along a curve the nearest ones are not
// near, and their boxes overlap. That made closest points take up to a quarter longer, depending on the mesh, while
// the cells of the keys never overlap.
constexpr unsigned treelet_size = 1024;
// The distance in the list within which a cluster searches for its nearest.
constexpr unsigned search_radius = 8;

// A cluster in a list, and its head.
struct Entry {
    Cluster cluster;
    unsigned head;
};

// The lists of all ranges: a list is at its range's first leaf. After its end, heads are `no_index`, up to the 16th
// or the range's end.
struct Lists {
    Cluster* clusters;
    unsigned* heads;

    __device__ __forceinline__ void store(unsigned place, const Entry& e) const {
        store_shared(clusters + place, e.cluster);
        heads[place] = e.head;
    }
    __device__ __forceinline__ Entry load(unsigned place) const {
        return {load_shared(clusters + place), sort::load_word(heads + place)};
    }
};

constexpr unsigned all_lanes = 0xffffffffu;

// Returns the value of another lane. All lanes call it.
__device__ __forceinline__ aabb<float> box_from(const aabb<float>& b, unsigned lane) {
    return {{__shfl_sync(all_lanes, b.lower.x, lane), __shfl_sync(all_lanes, b.lower.y, lane),
             __shfl_sync(all_lanes, b.lower.z, lane)},
            {__shfl_sync(all_lanes, b.upper.x, lane), __shfl_sync(all_lanes, b.upper.y, lane),
             __shfl_sync(all_lanes, b.upper.z, lane)}};
}
__device__ __forceinline__ Entry entry_from(const Entry& e, unsigned lane) {
    aabb<float> b = box_from(box_of(e.cluster), lane);
    unsigned id = __shfl_sync(all_lanes, e.cluster.id, lane);
    unsigned count = __shfl_sync(all_lanes, e.cluster.count, lane);
    return {make_cluster(b, id, count), __shfl_sync(all_lanes, e.head, lane)};
}

// The index of the n-th set bit of a word, counted from 0; any number below 32 if there are fewer.
__device__ __forceinline__ unsigned nth_bit(unsigned word, unsigned n) {
    unsigned at = 0;
#pragma unroll
    for (unsigned width = 16; width > 0; width /= 2) {
        const unsigned below = __popc(word >> at & ((1u << width) - 1));
        const bool beyond = n >= below;
        n -= beyond ? below : 0;
        at += beyond ? width : 0;
    }
    return at;
}

// The lane of the nearest cluster among those of the first `length` >= 2 lanes: the one whose union with this lane's
// has the smallest surface. Among equal ones, the one whose number differs in lower bits. So the order of pairs is
// strict and symmetric: the first of all pairs is mutual, and of many equal clusters half vanish at a time. All lanes
// call it; beyond `length` the result is some lane.
__device__ __forceinline__ unsigned nearest_lane(const Cluster& c, unsigned length) {
    constexpr unsigned infinity = 0x7f800000u;
    const unsigned lane = threadIdx.x % 32;
    const aabb<float> mine = box_of(c);
    // `best` has the bits of the area, which compare as areas do, above the bits in which the lanes differ.
    unsigned long long best = ~0ull;
#pragma unroll
    for (unsigned step = 1; step <= search_radius; ++step) {
        const unsigned above = lane + step, below = lane - step;
        const aabb<float> other = box_from(mine, above % 32);
        unsigned area = __float_as_uint(half_area(unite(mine, other)));
        area = above < length ? area : infinity;
        best = min(best, (unsigned long long)area << 32 | (lane ^ above) % 32);
        area = __shfl_sync(all_lanes, area, below % 32);
        area = lane >= step ? area : infinity;
        best = min(best, (unsigned long long)area << 32 | (lane ^ below) % 32);
    }
    return lane ^ static_cast<unsigned>(best) % 32;
}

// Merges each two clusters that are each other's nearest, among those in the first `length` lanes, at least 2.
// Returns how many are left, in the first lanes in the same order. All lanes call it.
__device__ __forceinline__ unsigned join_nearest(Entry& mine, unsigned length, BinaryNode* nodes) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned mate = nearest_lane(mine.cluster, length);
    const bool mutual = __shfl_sync(all_lanes, mate, mate) == lane && lane < length && mate < length;
    const Entry other = entry_from(mine, mate);
    const bool vanishes = mutual && mate < lane;
    if (mutual) {
        const unsigned node = vanishes ? mine.head : other.head;
        store_shared(&nodes[node].child[vanishes ? 1 : 0], mine.cluster);
        if (!vanishes)
            mine.cluster = join(mine.cluster, other.cluster, node);
    }
    const unsigned left = __ballot_sync(all_lanes, lane < length && !vanishes);
    mine = entry_from(mine, nth_bit(left, lane));
    return __popc(left);
}

// Merges the lists of the leaves from `first` to before `split` and from there to `last` into a list of at most
// `most` clusters, and returns the one in this lane. All lanes call it with the same arguments.
__device__ __forceinline__ Cluster join_lists(
    const Lists& lists, unsigned first, unsigned split, unsigned last, unsigned most, BinaryNode* nodes
) {
    const unsigned lane = threadIdx.x % 32;
    const bool right = lane >= list_size;
    const unsigned place = right ? split + (lane - list_size) : first + lane;
    const bool inside = right ? lane < 2 * list_size && place <= last : place < split;
    Entry mine = {make_cluster(aabb<float>::empty(), 0, 0), no_index};
    if (inside)
        mine = lists.load(place);
    const unsigned there = __ballot_sync(all_lanes, mine.head != no_index);
    unsigned length = __popc(there);
    // The second list is moved to the end of the first.
    mine = entry_from(mine, nth_bit(there, lane));
    while (length > most)
        length = join_nearest(mine, length, nodes);
    if (lane >= length)
        mine.head = no_index;
    // The barrier orders memory, which shuffles do not: other lanes have read the words that are written now.
    __syncwarp();
    if (lane < list_size && first + lane <= last)
        lists.store(first + lane, mine);
    return mine.cluster;
}

// Stores the far end of a range plus one in a word, and returns the old value: 0, or the far end of the range on the
// other side plus one. Ordered like `arrive`.
__device__ __forceinline__ unsigned exchange_end(unsigned* at, unsigned end) {
    unsigned d;
    asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], %2;"
                 : "=r"(d)
                 : "l"(at), "r"(end + 1)
                 : "memory");
    return d;
}

// `arrivals` are zero before. Blocks of whole warps, with a thread for each item.
__device__ __forceinline__ void link_clusters(
    const Leaves& leaves, const Cluster* items, const Lists& lists, BinaryNode* nodes,
    unsigned* arrivals, BuildState* state
) {
    const unsigned lane = threadIdx.x % 32;
    unsigned first = thread(), last = first;
    bool active = first < leaves.count;
    if (leaves.count == 0 && first == 0)
        state->root = make_cluster(aabb<float>::empty(), 0, 0);
    if (active) {
        const Cluster leaf = load_cluster(items + __ldg(leaves.indices + first));
        lists.store(first, {leaf, first});
        if (leaves.count == 1) {
            state->root = leaf;
            active = false;
        }
    }
    // Each round extends every lane's range to the parent's.
    while (__any_sync(all_lanes, active)) {
        unsigned split = 0;
        if (active) {
            const bool left = leaves.is_left(first, last);
            const unsigned end = exchange_end(arrivals + (left ? last : first - 1), left ? first : last);
            active = end != 0;
            if (active && left) {
                split = last + 1;
                last = end - 1;
            } else if (active) {
                split = first;
                first = end - 1;
            }
        }
        const unsigned size = last - first + 1;
        const bool whole = active && size == leaves.count;
        // Short ranges wait until they are part of a longer one.
        unsigned waiting = __ballot_sync(all_lanes, whole || (active && size > list_size));
        const bool closes = whole || size > treelet_size;
        // After the barrier all lanes may read the data whose presence one lane has found.
        __syncwarp();
        for (; waiting != 0; waiting &= waiting - 1) {
            const unsigned leader = __ffs(waiting) - 1;
            const bool is_root = __shfl_sync(all_lanes, whole, leader);
            const bool becomes_one = __shfl_sync(all_lanes, closes, leader);
            const Cluster joined = join_lists(
                lists, __shfl_sync(all_lanes, first, leader), __shfl_sync(all_lanes, split, leader),
                __shfl_sync(all_lanes, last, leader), becomes_one ? 1 : list_size, nodes
            );
            if (is_root && lane == 0)
                state->root = joined;
        }
        // After the barrier one lane may announce what all have written.
        __syncwarp();
        active = active && !whole;
    }
}

} // namespace bvh
} // namespace geom
