// The kernels of hash grids, and macros that define them for one type of coordinates. Launches are one-dimensional;
// the kernels of builds have blocks of 256 threads.
#pragma once

#include <geom/hash_grid/batch.cuh>
#include <geom/hash_grid/build.cuh>
#include <geom/sort/digits.cuh>

namespace geom {
namespace grid {

__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Writes the points in cell order, and their groups.
template <class T>
__device__ __forceinline__ void keep(
    const GridHeader<T>& header, const Points<T>& points, unsigned slot, unsigned index, bool in,
    GridPoint<T>* kept, unsigned* groups
) {
    kept[slot] = kept_point(header, points, index, !in);
    if (groups != nullptr)
        groups[slot] = in ? points.group(index) : no_point;
}

// Writes the part of the table of cells that a block's slots determine.
template <class T, class Key>
__device__ __forceinline__ void
finish_dense(const GridHeader<T>& header, const Key* keys, unsigned length, unsigned* starts) {
    unsigned slot = thread(), total = static_cast<unsigned>(header.no_key);
    unsigned begin = 0, end = 0;
    if (slot < length) {
        begin = slot == 0 ? 0 : static_cast<unsigned>(keys[slot - 1]) + 1;
        end = static_cast<unsigned>(keys[slot]) + 1;
    }
    fill_starts(starts, begin, end, slot);
    // The last block also writes the cells after the last point.
    if (blockIdx.x == gridDim.x - 1) {
        bool last = slot + 1 == length;
        unsigned rest = last ? static_cast<unsigned>(keys[slot]) + 1 : total + 1;
        fill_starts(starts, rest, total + 1, length);
    }
}

__device__ __forceinline__ void store_four(unsigned* keys, const unsigned (&key)[4]) {
    uint4 v = {key[0], key[1], key[2], key[3]};
    *reinterpret_cast<uint4*>(keys) = v;
}
__device__ __forceinline__ void store_four(unsigned long long* keys, const unsigned long long (&key)[4]) {
    ulonglong2 a = {key[0], key[1]}, b = {key[2], key[3]};
    reinterpret_cast<ulonglong2*>(keys)[0] = a;
    reinterpret_cast<ulonglong2*>(keys)[1] = b;
}

// Writes the keys of points, up to a multiple of 16 bytes, and counts their digits, so that the sort need not read
// them for that. Any number of blocks.
template <class T, int PASSES, class Key>
__device__ __forceinline__ void make_keys(
    const GridHeader<T>& header, const Points<T>& points, Key* keys, const sort::Digits& digits,
    unsigned* state
) {
    __shared__ sort::DigitCounts<PASSES> counts;
    counts.clear();
    const unsigned n = points.length;
    const bool fours = in_fours(points);
    // Each thread has four points: neighbours, or so far apart that neighbouring threads read neighbouring points.
    // Indices beyond the last point stay below 2^32.
    const unsigned gap = fours ? 1 : blockDim.x;
    for (unsigned block = blockIdx.x * blockDim.x * 4; block < n; block += gridDim.x * blockDim.x * 4) {
        const unsigned first = block + (fours ? 4 * threadIdx.x : threadIdx.x);
        const bool whole = fours && first + 3 < n;
        vec3<T> p[4];
        Key key[4];
        if (whole) {
            load_four(points.data + 3 * static_cast<unsigned long long>(first), p);
        } else {
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                p[i] = points.at(min(first + i * gap, n - 1));
        }
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned at = first + i * gap;
            key[i] = static_cast<Key>(point_key(header, p[i], points.group(min(at, n - 1))));
            if (at < n) {
                counts.add(digits, key[i]);
                if (!whole)
                    keys[at] = key[i];
            }
        }
        if (whole)
            store_four(keys + first, key);
    }
    counts.flush(digits, state);
}

// Bounded grids: the frame comes from the host, and keys have 32 bits.
template <class T>
__device__ __forceinline__ void bounded_keys(
    const GridHeader<T>& frame, GridHeader<T>* header, const Points<T>& points, unsigned* keys,
    const sort::Digits& digits, unsigned* state
) {
    if (thread() == 0)
        *header = frame;
    make_keys<T, 4>(frame, points, keys, digits, state);
}

template <class T>
__device__ __forceinline__ void bounded_finish(
    GridHeader<T>* header, const Points<T>& points, const unsigned* keys, const unsigned* indices,
    GridPoint<T>* kept, unsigned* groups, unsigned* starts
) {
    unsigned slot = thread();
    if (slot < points.length) {
        unsigned none = static_cast<unsigned>(header->no_key);
        bool in = keys[slot] != none;
        keep(*header, points, slot, indices[slot], in, kept, groups);
        count_points(*header, slot, points.length, in, slot + 1 < points.length && keys[slot + 1] != none);
    }
    finish_dense(*header, keys, points.length, starts);
}

// Other grids: the device chooses the frame, and keys have 64 bits. Only the device knows which of two buffers has
// the sorted pairs.
template <class T>
__device__ __forceinline__ void clear_table(const GridHeader<T>& header, unsigned* table, unsigned mask) {
    if (header.mode != grid_dense && thread() <= mask)
        table[thread()] = no_point;
}

template <class T>
__device__ __forceinline__ void any_finish(
    GridHeader<T>* header, const Points<T>& points, const unsigned* which,
    unsigned long long* first_keys, const unsigned long long* second_keys,
    const unsigned* first_indices, const unsigned* second_indices,
    GridPoint<T>* kept, unsigned* groups, unsigned* starts, unsigned* table, unsigned mask
) {
    bool second = *which != 0;
    const unsigned long long* keys = second ? second_keys : first_keys;
    const unsigned* indices = second ? second_indices : first_indices;
    unsigned slot = thread();
    bool dense = header->mode == grid_dense;
    if (slot < points.length) {
        unsigned long long none = header->no_key, key = keys[slot];
        bool in = key != none;
        keep(*header, points, slot, indices[slot], in, kept, groups);
        count_points(*header, slot, points.length, in, slot + 1 < points.length && keys[slot + 1] != none);
        if (!dense) {
            unsigned bits = header->bits[0];
            if (in && (slot == 0 || keys[slot - 1] >> bits != key >> bits))
                enter_row(table, mask, key >> bits, slot);
            // Queries read the first buffer, so the keys are copied there.
            if (second)
                first_keys[slot] = key;
        }
    }
    if (dense)
        finish_dense(*header, keys, points.length, starts);
}

// Queries in the order of the grid's cells.
template <class T>
__device__ __forceinline__ void order_queries(
    const Points<T>& points, const unsigned* which, const unsigned* first, const unsigned* second,
    GridPoint<T>* out
) {
    if (thread() >= points.length)
        return;
    unsigned index = (which != nullptr && *which != 0 ? second : first)[thread()];
    vec3<T> p = points.at(index);
    GridPoint<T> ordered{};
    ordered.x = p.x;
    ordered.y = p.y;
    ordered.z = p.z;
    ordered.index = index;
    out[thread()] = ordered;
}

} // namespace grid
} // namespace geom

// The kernels that build a grid with bounds.
#define GEOM_HASH_GRID_BUILD(T, suffix)                                                             \
    extern "C" __global__ void hash_grid_bounded_keys_##suffix(                                    \
        geom::GridHeader<T> frame, geom::GridHeader<T>* header, geom::grid::Points<T> points, unsigned* keys, \
        geom::sort::Digits digits, unsigned* state                                                 \
    ) {                                                                                            \
        geom::grid::bounded_keys(frame, header, points, keys, digits, state);                      \
    }                                                                                               \
    extern "C" __global__ void __launch_bounds__(256) hash_grid_bounded_finish_##suffix(           \
        geom::GridHeader<T>* header, geom::grid::Points<T> points, const unsigned* keys, const unsigned* indices, \
        geom::GridPoint<T>* kept, unsigned* groups, unsigned* starts                               \
    ) {                                                                                            \
        geom::grid::bounded_finish(header, points, keys, indices, kept, groups, starts);           \
    }

// The kernels that build a grid without bounds, and write the keys of its queries.
#define GEOM_HASH_GRID_UNBOUNDED(T, suffix)                                                         \
    extern "C" __global__ void __launch_bounds__(256) hash_grid_bounds_##suffix(                   \
        geom::grid::Points<T> points, unsigned groups, unsigned long long* bounds                  \
    ) {                                                                                            \
        geom::grid::bound_points(points, groups, bounds);                                          \
    }                                                                                               \
    extern "C" __global__ void hash_grid_frame_##suffix(                                           \
        const unsigned long long* bounds, T radius, geom::grid::FrameRequest request, geom::GridHeader<T>* header \
    ) {                                                                                            \
        if (geom::grid::thread() == 0)                                                             \
            geom::grid::choose_frame(bounds, radius, request, *header);                            \
    }                                                                                               \
    extern "C" __global__ void hash_grid_clear_##suffix(                                           \
        const geom::GridHeader<T>* header, unsigned* table, unsigned mask                          \
    ) {                                                                                            \
        geom::grid::clear_table(*header, table, mask);                                             \
    }                                                                                               \
    extern "C" __global__ void hash_grid_long_keys_##suffix(                                       \
        const geom::GridHeader<T>* header, geom::grid::Points<T> points, unsigned long long* keys, \
        geom::sort::Digits digits, unsigned* state                                                 \
    ) {                                                                                            \
        geom::grid::make_keys<T, 8>(*header, points, keys, digits, state);                         \
    }                                                                                               \
    extern "C" __global__ void __launch_bounds__(256) hash_grid_finish_##suffix(                   \
        geom::GridHeader<T>* header, geom::grid::Points<T> points, const unsigned* which,          \
        unsigned long long* first_keys, const unsigned long long* second_keys,                     \
        const unsigned* first_indices, const unsigned* second_indices,                             \
        geom::GridPoint<T>* kept, unsigned* groups, unsigned* starts, unsigned* table, unsigned mask \
    ) {                                                                                            \
        geom::grid::any_finish(                                                                    \
            header, points, which, first_keys, second_keys, first_indices, second_indices, kept,   \
            groups, starts, table, mask                                                            \
        );                                                                                         \
    }

// The kernels that sort queries, whose keys are short for a grid with bounds.
#define GEOM_HASH_GRID_ORDER(T, suffix)                                                             \
    extern "C" __global__ void hash_grid_short_keys_##suffix(                                      \
        const geom::GridHeader<T>* header, geom::grid::Points<T> points, unsigned* keys, geom::sort::Digits digits, \
        unsigned* state                                                                            \
    ) {                                                                                            \
        geom::grid::make_keys<T, 4>(*header, points, keys, digits, state);                         \
    }                                                                                               \
    extern "C" __global__ void hash_grid_order_##suffix(                                           \
        geom::grid::Points<T> points, const unsigned* which, const unsigned* first, const unsigned* second, \
        geom::GridPoint<T>* out                                                                    \
    ) {                                                                                            \
        geom::grid::order_queries(points, which, first, second, out);                              \
    }

// The kernels for counts and lists of neighbours.
#define GEOM_HASH_GRID_QUERY(T, suffix)                                                             \
    extern "C" __global__ void hash_grid_count_##suffix(                                           \
        geom::HashGrid<T> grid, geom::grid::Queries<T> queries, unsigned pairs, unsigned* counts   \
    ) {                                                                                            \
        geom::grid::count_neighbors(grid, queries, pairs, counts);                                 \
    }                                                                                               \
    extern "C" __global__ void hash_grid_list_##suffix(                                            \
        geom::HashGrid<T> grid, geom::grid::Queries<T> queries, unsigned pairs, const unsigned long long* offsets, \
        unsigned* indices, unsigned long long capacity                                             \
    ) {                                                                                            \
        geom::grid::list_neighbors(grid, queries, pairs, offsets, indices, capacity);              \
    }

// The kernel for the nearest points, up to `most` of them.
#define GEOM_HASH_GRID_NEAREST(T, suffix, most)                                                    \
    extern "C" __global__ void hash_grid_nearest_##most##_##suffix(                                \
        geom::HashGrid<T> grid, geom::grid::Queries<T> queries, unsigned pairs, unsigned k, unsigned* indices, \
        T* distances_squared                                                                       \
    ) {                                                                                            \
        geom::grid::nearest_points<most>(grid, queries, pairs, k, indices, distances_squared);     \
    }
