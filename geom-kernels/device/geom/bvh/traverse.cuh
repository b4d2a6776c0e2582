// Traversal of a hierarchy of boxes by a thread.
//
// A thread has a stack of 64 entries in its local memory (512 bytes), and nothing in shared memory: a kernel may have
// any number of traversals at a time. A tree that is too deep for the stack is traversed from parent to parent:
// nothing is lost. A program that defines GEOM_BVH_STACK has stacks of that many entries.
//
// Lanes of a warp at nodes and lanes at leaves wait for each other. A query may use a vote: then a lane keeps a leaf
// until most of the others have one too. The vote is among the lanes that happen to be converged. It changes when a
// leaf is visited, never the result.
#pragma once

#include <geom/bvh/types.cuh>
#include <geom/math/ray.cuh>

namespace geom {
namespace bvh {

// The key of a child for queries: a smaller key is nearer. The lowest two bits are the child's number, so that keys
// can be sorted with it; replacing them rounds down.
constexpr unsigned rejected = 0xfffffffcu;
__device__ __forceinline__ unsigned make_key(float distance, unsigned child) {
    return (__float_as_uint(distance) & ~3u) | child;
}
// The greatest key of a child within this distance.
__device__ __forceinline__ unsigned key_limit(float distance) { return __float_as_uint(distance) | 3u; }

// A bound of the distance from q to any corner, rounded up.
__device__ __forceinline__ float reach(const aabb<float>& bounds, vec3<float> q) {
    using namespace exact;
    const float x = max(sub_up(q.x, bounds.lower.x), sub_up(bounds.upper.x, q.x));
    const float y = max(sub_up(q.y, bounds.lower.y), sub_up(bounds.upper.y, q.y));
    const float z = max(sub_up(q.z, bounds.lower.z), sub_up(bounds.upper.z, q.z));
    return add_up(add_up(x, y), z);
}

// The boxes of a node's children: lower x, y, z, upper x, y, z of all four.
struct Boxes {
    const float4* at;

    __device__ __forceinline__ explicit Boxes(const BvhNode& node)
        : at(reinterpret_cast<const float4*>(&node)) {}
    __device__ __forceinline__ float4 lower(int axis) const { return load_unchanged(at + axis); }
    __device__ __forceinline__ float4 upper(int axis) const { return load_unchanged(at + 3 + axis); }
};

__device__ __forceinline__ void sort_two(unsigned& a, unsigned& b) {
    unsigned least = min(a, b);
    b = max(a, b);
    a = least;
}
__device__ __forceinline__ void sort_four(unsigned (&key)[4]) {
    sort_two(key[0], key[1]);
    sort_two(key[2], key[3]);
    sort_two(key[0], key[2]);
    sort_two(key[1], key[3]);
    sort_two(key[1], key[2]);
}

__device__ __forceinline__ unsigned pick(uint4 of, unsigned number) {
    unsigned low = (number & 1) != 0 ? of.y : of.x, high = (number & 1) != 0 ? of.w : of.z;
    return (number & 2) != 0 ? high : low;
}

__device__ __forceinline__ uint4 children(const BvhNode& node) {
    return load_unchanged(reinterpret_cast<const uint4*>(node.child));
}

// A query has
//   static constexpr bool ordered;         whether near children come first
//   static constexpr bool votes;           whether leaves wait for a vote
//   static constexpr bool repeatable;      whether it may see items twice; else it has no vote
//   void keys(Boxes, unsigned (&key)[4]);  for each child its key, or at least `rejected`
//   unsigned limit() const;                what is greater is not wanted, as things stand
//   bool leaf(unsigned leaf);              looks at its items; whether to stop
//   void restart();                        before it sees everything again
//   void adopt(const Query& copy);         becomes what its copy has become
// of which the last two are for what is repeatable.

// Goes through what is below a child without a stack. Whether it was stopped.
template <class Query>
__device__ __noinline__ bool walk(const BvhNode* nodes, unsigned child, Query& query) {
    if (is_leaf(child)) return query.leaf(child);
    const unsigned top = child;
    unsigned node = child, next = 0;
    for (;;) {
        if (next == 4) {
            if (node == top) return false;
            const unsigned parent = load_unchanged(&nodes[node].parent);
            node = parent / 4;
            next = parent % 4 + 1;
            continue;
        }
        unsigned key[4];
        query.keys(Boxes(nodes[node]), key);
        const unsigned wanted = next == 0 ? key[0] : next == 1 ? key[1] : next == 2 ? key[2] : key[3];
        const unsigned below = load_unchanged(&nodes[node].child[next]);
        if (wanted > query.limit() || below == no_index) {
            ++next;
        } else if (is_leaf(below)) {
            if (query.leaf(below)) return true;
            ++next;
        } else {
            node = below;
            next = 0;
        }
    }
}

#ifndef GEOM_BVH_STACK
#define GEOM_BVH_STACK 64
#endif
constexpr unsigned stack_room = GEOM_BVH_STACK;
static_assert(stack_room >= 3, "the children of a node but the first are put there");

// The state of a traversal. The stack is a separate array: the compiler would keep all members of a structure in
// memory with an array that is indexed at run time.
struct State {
    unsigned size = 0;
    bool stopped = false, lost = false;
};

__device__ __forceinline__ unsigned pop(const uint2* stack, State& state, unsigned limit) {
    while (state.size > 0) {
        const uint2 entry = stack[--state.size];
        if (entry.x <= limit) return entry.y;
    }
    return no_index;
}

// Traverses a part of the tree for which the stack is too small, with a copy of the query, so that the query itself
// can stay in registers.
template <class Query>
__device__ __forceinline__ bool walk_copy(const BvhNode* nodes, unsigned child, Query& query) {
    Query copy = query;
    const bool stopped = walk(nodes, child, copy);
    query.adopt(copy);
    return stopped;
}

// Visits a node: pushes all children except the nearest, and returns that; without children it pops the stack.
template <class Query>
__device__ __forceinline__ unsigned
visit(const BvhNode* nodes, unsigned number, uint2* stack, State& state, Query& query) {
    if (Query::repeatable && state.size > stack_room - 3) {
        state.lost = true;
        return pop(stack, state, query.limit());
    }
    const BvhNode& node = nodes[number];
    unsigned key[4];
    query.keys(Boxes(node), key);
    const uint4 child = children(node);
    if (Query::ordered) sort_four(key);
    const unsigned limit = query.limit();
#pragma unroll
    for (int i = 3; i > 0; --i) {
        if (key[i] > limit) continue;
        stack[state.size++] = make_uint2(key[i], pick(child, key[i] & 3));
    }
    return key[0] <= limit ? pick(child, key[0] & 3) : pop(stack, state, limit);
}

template <class Query>
__device__ __forceinline__ void traverse_voting(const BvhNode* nodes, uint2* stack, State& state, Query& query) {
    // `next` is the next node or leaf, and `waiting` the leaf that waits for the vote.
    unsigned next = 0, waiting = no_index;
    while (!state.stopped) {
        if (waiting == no_index && next != no_index && is_leaf(next)) {
            waiting = next;
            next = pop(stack, state, query.limit());
        }
        const bool at_node = next != no_index && !is_leaf(next);
        if (!at_node && waiting == no_index) return;
        const unsigned together = __activemask();
        const unsigned at_nodes = __ballot_sync(together, at_node);
        const unsigned at_leaves = __ballot_sync(together, waiting != no_index);
        if (__popc(at_leaves) >= __popc(at_nodes)) {
            if (waiting != no_index) {
                state.stopped = query.leaf(waiting);
                waiting = no_index;
            }
        } else if (at_node) {
            next = visit(nodes, next, stack, state, query);
        }
    }
}

template <class Query>
__device__ __forceinline__ void traverse_at_once(const BvhNode* nodes, uint2* stack, State& state, Query& query) {
    for (unsigned next = 0; next != no_index;) {
        while (!is_leaf(next)) {
            next = visit(nodes, next, stack, state, query);
            if (state.stopped) return;
        }
        if (next == no_index) return;
        state.stopped = query.leaf(next);
        if (state.stopped) return;
        next = pop(stack, state, query.limit());
    }
}

// The state of a traversal without the stack: it covers all nodes below `top`, and continues with child `slot` of
// `node`.
struct Climb {
    unsigned top = no_index, node = 0, slot = 0;
};

// The next child within the limit; `no_index` if there is none.
template <class Query>
__device__ __forceinline__ unsigned climb(const BvhNode* nodes, Climb& at, const Query& query) {
    for (;;) {
        const BvhNode& node = nodes[at.node];
        unsigned key[4];
        query.keys(Boxes(node), key);
        const unsigned limit = query.limit();
        unsigned found = 4;
#pragma unroll
        for (int i = 3; i >= 0; --i)
            if (unsigned(i) >= at.slot && key[i] <= limit) found = i;
        if (found < 4) {
            at.slot = found + 1;
            return pick(children(node), found);
        }
        if (at.node == at.top) {
            at.top = no_index;
            return no_index;
        }
        const unsigned parent = load_unchanged(&node.parent);
        at.node = parent / 4;
        at.slot = parent % 4 + 1;
    }
}

// Visits each item once, without a function call: memory that a query refers to can stay in registers.
template <class Query>
__device__ __forceinline__ bool traverse_once(const BvhNode* nodes, uint2* stack, State& state, Query& query) {
    Climb at;
    for (unsigned next = 0; next != no_index;) {
        while (!is_leaf(next)) {
            if (at.top == no_index && state.size <= stack_room - 3) {
                next = visit(nodes, next, stack, state, query);
                continue;
            }
            if (at.top == no_index) at.top = next;
            at.node = next;
            at.slot = 0;
            next = climb(nodes, at, query);
            if (next == no_index) next = pop(stack, state, query.limit());
        }
        if (next == no_index) break;
        if (query.leaf(next)) return true;
        next = at.top == no_index ? no_index : climb(nodes, at, query);
        if (next == no_index) next = pop(stack, state, query.limit());
    }
    return false;
}

// Returns whether the query stopped by itself.
template <class Query>
__device__ __forceinline__ bool traverse(const Bvh& bvh, Query& query) {
    uint2 stack[stack_room];
    State state;
    static_assert(Query::repeatable || !Query::votes, "a vote is for what is repeatable");
    if (!Query::repeatable)
        return traverse_once(bvh.nodes, stack, state, query);
    if (Query::votes)
        traverse_voting(bvh.nodes, stack, state, query);
    else
        traverse_at_once(bvh.nodes, stack, state, query);
    if (state.lost && !state.stopped) {
        query.restart();
        return walk_copy(bvh.nodes, 0, query);
    }
    return state.stopped;
}

} // namespace bvh
} // namespace geom
