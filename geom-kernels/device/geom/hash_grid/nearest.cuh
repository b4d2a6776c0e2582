// The k nearest points.
#pragma once

#include <geom/hash_grid/query.cuh>

namespace geom {

// Up to K points, nearest first; among equally near ones the one with the smaller index first.
template <class T, unsigned K> struct Nearest {
    unsigned count;
    unsigned index[K];
    T distance_squared[K];

    // Inserts a point if it is among the `k` nearest so far.
    __device__ __forceinline__ void insert(unsigned k, unsigned i, T d2) {
        if (count == k && !before(i, d2, count - 1))
            return;
        unsigned at = count < k ? count++ : count - 1;
        for (; at > 0 && before(i, d2, at - 1); --at) {
            index[at] = index[at - 1];
            distance_squared[at] = distance_squared[at - 1];
        }
        index[at] = i;
        distance_squared[at] = d2;
    }

private:
    __device__ __forceinline__ bool before(unsigned i, T d2, unsigned place) const {
        return exact::less(d2, distance_squared[place]) ||
               (exact::equal(d2, distance_squared[place]) && i < index[place]);
    }
};

namespace grid {

template <unsigned K, class T>
__device__ __forceinline__ void find_nearest(
    const HashGrid<T>& grid, const vec3<T>& x, unsigned k, T most, Nearest<T, K>& out,
    unsigned group = 0, unsigned skip = grid::no_point
) {
    k = k < K ? k : K;
    out.count = 0;
    // The comparison is also false for a NaN.
    if (k == 0 || !exact::less_equal(T(0), most))
        return;
    T radius = __ldg(&grid.header->radius);
    if (exact::equal(radius, T(0)))
        radius = __ldg(&grid.header->size[1]);
    for (int doublings = 0;; ++doublings) {
        bool last = doublings == 8 || !exact::less(radius, most);
        if (last)
            radius = most;
        out.count = 0;
        auto visit = [&](const Neighbor<T>& n) {
            if (n.index != skip)
                out.insert(k, n.index, grid::constant(n.distance_squared));
            return false;
        };
        grid::visit(grid, x, radius, group, visit);
        if (last || out.count == k)
            return;
        radius = exact::add(radius, radius);
    }
}

// Copies the results, with squared distances by `squared(index, squared)`. A search that fills another array has no
// gradient.
template <class T, unsigned K, class Squared>
__device__ __forceinline__ void copy(const Nearest<T, K>& found, Nearest<T, K>& out, Squared squared) {
    out.count = found.count;
#pragma unroll
    for (unsigned i = 0; i < K; ++i) {
        if (i >= found.count) continue;
        out.index[i] = found.index[i];
        out.distance_squared[i] = squared(found.index[i], found.distance_squared[i]);
    }
}

} // namespace grid

// The `k` (at most K) nearest points to `x` within `most`, which may be infinite, without the one with the index
// `skip`.
//
// Searches spheres of doubling radius, from the radius that the grid was built for, until one contains k points;
// after eight spheres, all points within `most`.
template <unsigned K, class T>
__device__ __forceinline__ void nearest_neighbors(
    const HashGrid<T>& grid, const vec3<T>& x, unsigned k, T most, Nearest<T, K>& out,
    unsigned group = 0, unsigned skip = grid::no_point
) {
#ifdef GEOM_AD
    Nearest<T, K> found;
    grid::find_nearest(grid, grid::constant(x), k, grid::constant(most), found, group, skip);
    grid::copy(found, out, [&](unsigned, T squared) { return ad::lost_copy(squared); });
#else
    grid::find_nearest(grid, x, k, most, out, group, skip);
#endif
}

// The same with the array that the grid was built from, for the distances: see `for_each_neighbor`. The order is by
// distance at the time of the build.
template <unsigned K, class T, class P>
__device__ __forceinline__ void nearest_neighbors(
    const HashGrid<T>& grid, const P* points, const vec3<T>& x, unsigned k, T most, Nearest<T, K>& out,
    unsigned group = 0, unsigned skip = grid::no_point
) {
    Nearest<T, K> found;
    grid::find_nearest(grid, grid::constant(x), k, grid::constant(most), found, group, skip);
    const grid::Moving<T, P> moving(grid, points, x);
    grid::copy(found, out, [&](unsigned index, T) {
        Neighbor<T> neighbor;
        neighbor.index = index, neighbor.slot = 0;
        return moving.neighbor(neighbor).distance_squared;
    });
}

} // namespace geom
