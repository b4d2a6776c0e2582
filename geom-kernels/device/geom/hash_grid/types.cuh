// The types of a hash grid in device memory. The Rust side of these layouts is src/hash_grid/layout.rs.
#pragma once

#include <geom/math/load.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {

// A point of the grid, in cell order: its position (wrapped into a periodic box), and its index in the array that the
// grid was built from. Points that were left out come last, as NaN.
template <class T> struct GridPoint;

template <> struct alignas(16) GridPoint<float> {
    float x, y, z;
    unsigned index;
};

template <> struct alignas(16) GridPoint<double> {
    double x, y, z;
    unsigned index, unused;
};

// The kinds of lookup.
enum GridMode : unsigned {
    // A table with the first point of every cell.
    grid_dense = 0,
    // Keys of up to 63 bits that name group, z, y and x exactly; a hash table of rows.
    grid_rows = 1,
    // Keys like those of grid_rows, but with a hash for rows that are farther apart than keys can name; rows are then
    // compared exactly.
    grid_hashed = 2,
};

// Written by the build, read by every query.
template <class T> struct GridHeader {
    // Rows: cells of a point are floor((p - row_origin) * row_inverse), below row_cells.
    double row_origin[3], row_inverse[3];
    long long row_cells[3];
    // The key of points that are left out; greater than every other.
    unsigned long long no_key;
    // Dense: cells of a point are floor((p - origin) * inverse), clamped to the grid.
    T origin[3], inverse[3];
    // The extent of a cell, and a bound of how far rounding may move a point out of its cell.
    T size[3], margin[3];
    // The extent of the box in periodic directions and its reciprocal, else 0.
    T period[3], inverse_period[3];
    // The radius that the grid was built for.
    T radius;
    unsigned cells[3], cells_of_group;
    unsigned groups, mode, periodic;
    // The number of points in the grid, and of points that were left out: not finite, or in no group.
    unsigned points, left_out;
    // Bits of a key for x, y and z.
    unsigned bits[3];
};

// A hash grid as a kernel argument. All of it is read only while the kernel runs.
template <class T> struct HashGrid {
    const GridHeader<T>* header;
    const GridPoint<T>* points;
    // The group of each of `points`, or null.
    const unsigned* groups;
    // Dense: the first point of each cell, and one entry more.
    const unsigned* starts;
    // Rows: the key of each point, and the hash table of the first point of each row.
    const unsigned long long* keys;
    const unsigned* table;
    unsigned table_mask;
    // The number of points that the grid was built from, including those left out.
    unsigned length;
};

// The host declares the same layouts.

// A point found near another.
template <class T> struct Neighbor {
    // The index in the array that the grid was built from.
    unsigned index;
    // The index in cell order, into HashGrid::points.
    unsigned slot;
    // The vector from the point (in a periodic box: from its nearest image) to the query point, rounded.
    vec3<T> delta;
    // The square of the length of `delta`, rounded.
    T distance_squared;
    // The position.
    vec3<T> position;
};

// A grid point by one or two loads of 16 bytes.
__device__ __forceinline__ GridPoint<float> load_point(const GridPoint<float>* points, unsigned slot) {
    float4 v = __ldg(reinterpret_cast<const float4*>(points) + slot);
#ifdef GEOM_AD
    // The word holds the bits of an integer.
    v.w = ad::stop(v.w);
#endif
    return {v.x, v.y, v.z, __float_as_uint(v.w)};
}
__device__ __forceinline__ GridPoint<double>
load_point(const GridPoint<double>* points, unsigned slot) {
    const double2* at = reinterpret_cast<const double2*>(points) + 2 * static_cast<size_t>(slot);
    double2 a = __ldg(at), b = __ldg(at + 1);
#ifdef GEOM_AD
    b.y = ad::stop(b.y);
#endif
    return {a.x, a.y, b.x, static_cast<unsigned>(__double2loint(b.y)), 0};
}

// The number of points in the grid, and the i-th of them in cell order.
template <class T> __device__ __forceinline__ unsigned point_count(const HashGrid<T>& grid) {
    return load_unchanged(&grid.header->points);
}
template <class T>
__device__ __forceinline__ GridPoint<T> point_at(const HashGrid<T>& grid, unsigned slot) {
#ifdef GEOM_AD
    // A copy, without a gradient.
    GridPoint<T> point = load_point(grid.points, slot);
    point.x = ad::lost_copy(point.x), point.y = ad::lost_copy(point.y), point.z = ad::lost_copy(point.z);
    return point;
#else
    return load_point(grid.points, slot);
#endif
}

} // namespace geom
