// Rows of indices that are sorted in place.
//
// Rows come from traversals, in an order that depends on the tree; in ascending order they are the same for every
// tree.
#pragma once

namespace geom {
namespace bvh {

// The longest rows that a thread sorts by insertion, and by a heap; a block sorts longer ones.
constexpr unsigned short_row = 32, thread_row = 1024;

// Restores the heap: below `at` a row of n is a heap except for `at` itself, so no element is less than those at 2 i
// + 1 and 2 i + 2.
__device__ __forceinline__ void sift_down(unsigned* row, unsigned n, unsigned at) {
    const unsigned value = row[at];
    for (unsigned child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && row[child] < row[child + 1]) ++child;
        if (row[child] <= value) break;
        row[at] = row[child];
        at = child;
    }
    row[at] = value;
}
__device__ __forceinline__ void make_heap(unsigned* row, unsigned n) {
    for (unsigned i = n / 2; i > 0; --i)
        sift_down(row, n, i - 1);
}

// Sorts a row, by one thread.
__device__ __forceinline__ void sort_row(unsigned* row, unsigned n) {
    if (n <= short_row) {
        for (unsigned i = 1; i < n; ++i) {
            const unsigned value = row[i];
            unsigned at = i;
            for (; at > 0 && row[at - 1] > value; --at)
                row[at] = row[at - 1];
            row[at] = value;
        }
        return;
    }
    make_heap(row, n);
    for (unsigned last = n - 1; last > 0; --last) {
        const unsigned greatest = row[0];
        row[0] = row[last];
        row[last] = greatest;
        sift_down(row, last, 0);
    }
}

__device__ __forceinline__ void order_two(unsigned* row, unsigned n, unsigned i, unsigned j) {
    if (j >= n || row[i] <= row[j]) return;
    const unsigned greater = row[i];
    row[i] = row[j];
    row[j] = greater;
}

// Sorts a row, by all threads of a block. K. E. Batcher: Sorting networks and their applications, 1968: the bitonic
// sorter, in the form whose comparisons all put the lesser element first. So positions beyond the end, which count as
// greater than all elements, never move.
__device__ __forceinline__ void sort_row_together(unsigned* row, unsigned n) {
    unsigned size = 1;
    while (size < n)
        size *= 2;
    for (unsigned run = 1; run < n; run *= 2) {
        // The second of two runs is traversed backwards, so that the comparisons separate the halves.
        for (unsigned pair = threadIdx.x; pair < size / 2; pair += blockDim.x) {
            const unsigned i = pair / run * 2 * run + pair % run;
            order_two(row, n, i, i ^ (2 * run - 1));
        }
        __syncthreads();
        for (unsigned gap = run / 2; gap > 0; gap /= 2) {
            for (unsigned pair = threadIdx.x; pair < size / 2; pair += blockDim.x) {
                const unsigned i = pair / gap * 2 * gap + pair % gap;
                order_two(row, n, i, i + gap);
            }
            __syncthreads();
        }
    }
}

// Sorts the rows of a block, one of each thread. All threads call it.
__device__ __forceinline__ void sort_rows(unsigned* row, unsigned n) {
    __shared__ unsigned next;
    __shared__ unsigned* shared_row;
    __shared__ unsigned shared_length;
    bool is_long = n > thread_row;
    if (!is_long && n > 1) sort_row(row, n);
    while (__syncthreads_or(is_long)) {
        if (threadIdx.x == 0) next = blockDim.x;
        __syncthreads();
        if (is_long) atomicMin(&next, threadIdx.x);
        __syncthreads();
        if (threadIdx.x == next) {
            shared_row = row;
            shared_length = n;
            is_long = false;
        }
        __syncthreads();
        sort_row_together(shared_row, shared_length);
    }
}

// A row that is being written. If it is too short for all elements, it keeps the least.
struct List {
    unsigned* elements;
    unsigned room, length;
    bool is_heap;

    __device__ __forceinline__ List(unsigned* elements, unsigned room)
        : elements(elements), room(room), length(0), is_heap(false) {}
    __device__ __forceinline__ void add(unsigned element) {
        if (length < room) {
            elements[length++] = element;
            return;
        }
        if (room == 0) return;
        if (!is_heap) {
            make_heap(elements, length);
            is_heap = true;
        }
        if (element < elements[0]) {
            elements[0] = element;
            sift_down(elements, length, 0);
        }
    }
};

} // namespace bvh
} // namespace geom
