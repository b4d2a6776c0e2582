// The device code of batch calls, into which a user's snippet is inserted.
#pragma once

#include <geom/hash_grid/nearest.cuh>

namespace geom {
namespace grid {

// Queries: a grid's own points or others in its order, or an array of points in its order.
template <class T> struct Queries {
    // The queries in cell order, or null; then those in `data`.
    const GridPoint<T>* ordered;
    // Coordinate c of point i at data[i * stride + c * component].
    const T* data;
    unsigned long long stride, component;
    // The radius of each query by its index; null if all have `radius`.
    const T* radii;
    // The group of each query; null if all have group 0.
    const unsigned* groups;
    T radius;
    unsigned length;
    // Whether `groups` is indexed by the place in `ordered`, instead of the query's index.
    unsigned groups_in_order;
};

template <class T> struct OneQuery {
    vec3<T> x;
    T radius;
    unsigned index, group;
    // Whether the query exists. A grid's contents may come from another build than the host's last, if a graph builds
    // it: with more points, or none yet.
    bool valid;

    __device__ __forceinline__
    OneQuery(const HashGrid<T>& grid, const Queries<T>& queries, unsigned i) {
        valid = true;
        if (queries.ordered) {
            if (queries.ordered == grid.points)
                valid = i < __ldg(&grid.header->points) + __ldg(&grid.header->left_out);
            if (!valid)
                return;
            GridPoint<T> point = load_point(queries.ordered, i);
            x = {point.x, point.y, point.z};
            index = point.index;
        } else {
            const T* p = queries.data + i * queries.stride;
            x = {__ldg(p), __ldg(p + queries.component), __ldg(p + 2 * queries.component)};
            index = i;
        }
        valid = index < queries.length;
        if (!valid)
            return;
        radius = queries.radii ? __ldg(queries.radii + index) : queries.radius;
        group = queries.groups ? __ldg(queries.groups + (queries.groups_in_order ? i : index)) : 0;
    }
};

// The pairs that count, where queries are the grid's own points.
enum Pairs : unsigned {
    all_pairs = 0,
    // All pairs except of a point with itself.
    other_points = 1,
    // Each pair once: i < j.
    half_pairs = 2,
};

__device__ __forceinline__ bool counts(unsigned pairs, unsigned i, unsigned j) {
    return pairs == all_pairs || (pairs == other_points ? i != j : i < j);
}

template <class T>
__device__ __forceinline__ void
count_neighbors(const HashGrid<T>& grid, const Queries<T>& queries, unsigned pairs, unsigned* counts_out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries.length)
        return;
    OneQuery<T> query(grid, queries, i);
    if (!query.valid)
        return;
    unsigned count = 0;
    for_each_neighbor(
        grid, query.x, query.radius,
        [&](const Neighbor<T>& n) { count += counts(pairs, query.index, n.index); }, query.group
    );
    counts_out[query.index] = count;
}

// Writes the neighbours of query i from offsets[i] on, up to `capacity`.
template <class T>
__device__ __forceinline__ void list_neighbors(
    const HashGrid<T>& grid, const Queries<T>& queries, unsigned pairs,
    const unsigned long long* offsets, unsigned* indices, unsigned long long capacity
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries.length)
        return;
    OneQuery<T> query(grid, queries, i);
    if (!query.valid)
        return;
    unsigned long long at = offsets[query.index], end = min(offsets[query.index + 1], capacity);
    for_each_neighbor(
        grid, query.x, query.radius,
        [&](const Neighbor<T>& n) {
            if (counts(pairs, query.index, n.index) && at < end)
                indices[at++] = n.index;
        },
        query.group
    );
}

// Writes k indices and squared distances for each query, nearest first; missing ones are no_point and infinity.
template <unsigned K, class T>
__device__ __forceinline__ void nearest_points(
    const HashGrid<T>& grid, const Queries<T>& queries, unsigned pairs, unsigned k,
    unsigned* indices, T* distances_squared
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= queries.length)
        return;
    OneQuery<T> query(grid, queries, i);
    if (!query.valid)
        return;
    Nearest<T, K> nearest;
    unsigned skip = pairs == all_pairs ? no_point : query.index;
    nearest_neighbors<K>(grid, query.x, k, query.radius, nearest, query.group, skip);
    for (unsigned j = 0; j < k; ++j) {
        size_t at = query.index * static_cast<size_t>(k) + j;
        indices[at] = j < nearest.count ? nearest.index[j] : no_point;
        distances_squared[at] = j < nearest.count ? nearest.distance_squared[j] : Limits<T>::infinity();
    }
}

} // namespace grid
} // namespace geom
