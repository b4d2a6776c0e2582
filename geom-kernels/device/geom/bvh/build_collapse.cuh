// The last step of a build: from the binary hierarchy to nodes with four children, from the root to the
// leaves.
//
// A node begins as the two children of a binary node. Among those with more items than a leaf may have, the one with
// the largest surface is replaced by its own two, until there are four or none can be opened. H. Ylitie, T. Karras,
// S. Laine: Efficient Incoherent Ray Traversal on GPUs Through Compressed Wide BVHs. 2017 (which child is opened); C.
// Benthin et al.: H-PLOC. 2024 (all levels in one kernel).
//
// The most nodes: let A nodes have a child that is a node, and B have only leaves. Each of A has four children, else
// it would have opened that child. All N = A + B nodes except the root are children of A, so A has 4 A - (N - 1) = 3
// A - B + 1 leaves of at least one item. Each of B has at least 5 items, unless it is the root. So m >= 5 items give
// m >= 5 B + 3 A - B + 1 = 3 N + B + 1, and since B >= 1 there are N <= (m - 2) / 3 nodes. With fewer items there is
// only the root. `m / 3 + 1` is enough.
#pragma once

#include <geom/bvh/build_state.cuh>

namespace geom {
namespace bvh {

// The input of one node, in two words that are 0 until they are written. Each word carries its own state, so no fence
// is needed: the data that they refer to was written by an earlier kernel.
struct Task {
    // The node of the binary hierarchy plus one, and in the upper bits the first place of its items.
    unsigned long long node_first;
    // The value of BvhNode::parent, and in the upper bits the level: 1 for the root.
    unsigned long long parent_level;
};

// Selects word by word: the compiler would keep a structure that depends on a condition in memory.
__device__ __forceinline__ Cluster choose(bool first, const Cluster& a, const Cluster& b) {
    return {{first ? a.lower[0] : b.lower[0], first ? a.lower[1] : b.lower[1],
             first ? a.lower[2] : b.lower[2]},
            first ? a.id : b.id,
            {first ? a.upper[0] : b.upper[0], first ? a.upper[1] : b.upper[1],
             first ? a.upper[2] : b.upper[2]},
            first ? a.count : b.count};
}

// The part of a cluster that identifies its items.
struct Below {
    unsigned id, count;
};
__device__ __forceinline__ Below choose(bool first, const Below& a, const Below& b) {
    return {first ? a.id : b.id, first ? a.count : b.count};
}

// Up to four children in a row, each of which can be replaced by two. An absent child has the count 0.
template <class T>
struct Siblings {
    T at[4];
    unsigned length;

    __device__ __forceinline__ void replace(unsigned place, const T& first, const T& second) {
#pragma unroll
        for (unsigned i = 3; i > 0; --i)
            at[i] = choose(i > place + 1, at[i - 1], choose(i == place + 1, second, at[i]));
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            at[i] = choose(i == place, first, at[i]);
        ++length;
    }
};

// Replaces children with more items than a leaf may have by their own two, largest first, until there are four or
// none can be opened.
__device__ __forceinline__ void open(const BinaryNode* nodes, Siblings<Cluster>& row) {
    while (row.length < 4) {
        unsigned largest = no_index, area = 0, id = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            if (row.at[i].count <= leaf_size)
                continue;
            // The areas are not negative, so their bits compare as they do.
            unsigned other = __float_as_uint(half_area(box_of(row.at[i])));
            if (largest == no_index || other > area) {
                largest = i;
                area = other;
                id = row.at[i].id;
            }
        }
        if (largest == no_index)
            return;
        const Cluster* children = nodes[id].child;
        row.replace(largest, load_cluster(children), load_cluster(children + 1));
    }
}

// Writes the items below a cluster of at most four, from left to right.
__device__ __forceinline__ void
write_items(const BinaryNode* nodes, const Cluster& leaf, unsigned* items) {
    Siblings<Below> row = {{{leaf.id, leaf.count}, {}, {}, {}}, 1};
    while (row.length < leaf.count) {
        unsigned place = no_index, id = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            if (row.at[i].count > 1) {
                place = i;
                id = row.at[i].id;
            }
        }
        const Cluster* children = nodes[id].child;
        const Below first = {__ldg(&children[0].id), __ldg(&children[0].count)};
        const Below second = {__ldg(&children[1].id), __ldg(&children[1].count)};
        row.replace(place, first, second);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        if (i < leaf.count)
            items[i] = row.at[i].id;
}

// Writes a node, and the tasks of those of its children that are nodes: they are `next`, `next` + 1 and so on.
__device__ __forceinline__ void write_node(
    const Siblings<Cluster>& row, const BinaryNode* binary, unsigned index, unsigned parent,
    unsigned level, unsigned first, unsigned next, BvhNode* nodes, unsigned* items, Task* tasks
) {
    const Cluster(&c)[4] = row.at;
    // The tasks of the children are written first.
    unsigned child[4], inner = 0, place = first;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        child[i] = c[i].count == 0 ? no_index : make_leaf(place, c[i].count);
        if (c[i].count > leaf_size) {
            child[i] = next + inner++;
            Task* task = tasks + child[i];
            sort::store_word(&task->node_first, c[i].id + 1ull | (unsigned long long)place << 32);
            sort::store_word(&task->parent_level, 4ull * index + i | (level + 1ull) << 32);
        }
        place += c[i].count;
    }
    float4* words = reinterpret_cast<float4*>(nodes + index);
#pragma unroll
    for (unsigned axis = 0; axis < 3; ++axis) {
        words[axis] = {c[0].lower[axis], c[1].lower[axis], c[2].lower[axis], c[3].lower[axis]};
        words[3 + axis] = {c[0].upper[axis], c[1].upper[axis], c[2].upper[axis], c[3].upper[axis]};
    }
    reinterpret_cast<uint4*>(words)[6] = {child[0], child[1], child[2], child[3]};
    reinterpret_cast<uint4*>(words)[7] = {parent, inner, first, place - first};
    place = first;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        if (c[i].count <= leaf_size)
            write_items(binary, c[i], items + place);
        place += c[i].count;
    }
}

// The root is no child of a node, so it is not counted.
__device__ __forceinline__ bool is_done(unsigned long long progress) {
    return (progress >> 32) == (progress & 0xffffffffu) + 1;
}

// Writes all nodes, of which at most `capacity` fit. Any number of blocks, of whole warps.
//
// Threads take nodes by number, and a warp loops until the nodes that its threads have taken are announced or no node
// is left. A node is announced by its parent, which has a lower number and so was taken before, by a warp that runs
// or ran. The lowest unfinished number is therefore always announced, and no warp blocks, so the loop terminates
// however few blocks run at a time.
__device__ __forceinline__ void collapse(
    const BinaryNode* binary, BuildState* state, Task* tasks, unsigned capacity, BvhNode* nodes,
    unsigned* items, BvhHeader* header
) {
    constexpr unsigned all = 0xffffffffu;
    const unsigned lane = threadIdx.x % 32, below = (1u << lane) - 1;
    const Cluster root = load_cluster(&state->root);
    unsigned taken = no_index, deepest = 0, pauses = 0;
    for (;;) {
        // Each lane without a number takes the next one.
        const unsigned idle = __ballot_sync(all, taken == no_index);
        unsigned base = 0;
        if (lane == 0 && idle != 0)
            base = atomicAdd(&state->ticket, static_cast<unsigned>(__popc(idle)));
        base = __shfl_sync(all, base, 0);
        if (taken == no_index)
            taken = base + __popc(idle & below);

        unsigned long long node_first = 0, parent_level = 0;
        if (taken != 0 && taken < capacity) {
            node_first = sort::load_word(&tasks[taken].node_first);
            parent_level = sort::load_word(&tasks[taken].parent_level);
        }
        const bool ready = taken == 0 || (node_first != 0 && parent_level != 0);
        const unsigned readies = __ballot_sync(all, ready);
        if (readies == 0) {
            // One lane in 4 iterations reads the flag, so that threads with work don't wait for memory.
            if (++pauses % 4 == 0 && __any_sync(all, sort::load_word(&state->done) != 0))
                break;
            __nanosleep(min(32u * pauses, 256u));
            continue;
        }
        pauses = 0;

        const Cluster none = make_cluster(aabb<float>::empty(), 0, 0);
        Siblings<Cluster> row = {{none, none, none, none}, 0};
        unsigned inner = 0;
        if (ready) {
            if (taken != 0 || root.count > leaf_size) {
                unsigned id = taken == 0 ? root.id : static_cast<unsigned>(node_first) - 1;
                row.at[0] = load_cluster(binary[id].child);
                row.at[1] = load_cluster(binary[id].child + 1);
                row.length = 2;
            } else if (root.count != 0) {
                // The root has a single leaf.
                row.at[0] = root;
                row.length = 1;
            }
            open(binary, row);
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                inner += row.at[i].count > leaf_size;
        }
        __syncwarp();

        // Assigns numbers to the children of all lanes: `inner` is at most 4.
        const unsigned ones = __ballot_sync(all, inner & 1), twos = __ballot_sync(all, inner & 2);
        const unsigned fours = __ballot_sync(all, inner & 4);
        const unsigned made = __popc(ones) + 2 * __popc(twos) + 4 * __popc(fours);
        unsigned next = 0;
        if (lane == 0) {
            const unsigned long long more = (unsigned long long)__popc(readies) << 32 | made;
            const unsigned long long before = atomicAdd(&state->progress, more);
            next = static_cast<unsigned>(before) + 1;
            if (is_done(before + more)) {
                header->nodes = next + made;
                sort::store_word(&state->done, 1);
            }
        }
        next = __shfl_sync(all, next, 0);
        next += __popc(ones & below) + 2 * __popc(twos & below) + 4 * __popc(fours & below);
        if (ready) {
            const bool is_root = taken == 0;
            const unsigned level = is_root ? 1 : static_cast<unsigned>(parent_level >> 32);
            const unsigned parent = is_root ? no_index : static_cast<unsigned>(parent_level);
            const unsigned first = is_root ? 0 : static_cast<unsigned>(node_first >> 32);
            write_node(row, binary, taken, parent, level, first, next, nodes, items, tasks);
            deepest = max(deepest, level);
            taken = no_index;
        }
        __syncwarp();
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        deepest = max(deepest, __shfl_xor_sync(all, deepest, offset));
    if (lane == 0 && deepest != 0)
        atomicMax(&header->depth, deepest);
}

} // namespace bvh
} // namespace geom
