// The cells of points.
//
// Every query is right because a cell's number never decreases when a coordinate grows: each step from coordinate to
// number (subtract, multiply, round down, clamp) is monotonic, also with rounding. So all points between two
// coordinates are in the cells between theirs, however far away they are.
#pragma once

#include <geom/hash_grid/types.cuh>
#include <geom/math/exact.cuh>

namespace geom {
namespace grid {

// 1 plus four units in the last place, and the difference below which a square rounds to 0.
template <class T> struct Limits;
template <> struct Limits<float> {
    static __device__ __forceinline__ float widened() { return 1.0f + 4.0f * 1.1920929e-7f; }
    static __device__ __forceinline__ float tiny() { return 5.2939559e-23f; } // 2^-74
    static __device__ __forceinline__ float nan() { return __uint_as_float(0x7fffffffu); }
    static __device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }
};
template <> struct Limits<double> {
    static __device__ __forceinline__ double widened() { return 1.0 + 4.0 * 2.2204460492503131e-16; }
    static __device__ __forceinline__ double tiny() {
        return __longlong_as_double(0x1e70000000000000ll); // 2^-536
    }
    static __device__ __forceinline__ double nan() {
        return __longlong_as_double(0x7fffffffffffffffll);
    }
    static __device__ __forceinline__ double infinity() {
        return __longlong_as_double(0x7ff0000000000000ll);
    }
};

template <class T> __device__ __forceinline__ T component(const vec3<T>& v, int axis) {
    return axis == 0 ? v.x : axis == 1 ? v.y : v.z;
}

template <class T> __device__ __forceinline__ bool is_finite(const vec3<T>& v) {
    return exact::is_finite(v.x) && exact::is_finite(v.y) && exact::is_finite(v.z);
}

__device__ __forceinline__ int clamp(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}
__device__ __forceinline__ long long clamp(long long value, long long low, long long high) {
    return value < low ? low : value > high ? high : value;
}

// The image of a coordinate in the box that begins at `origin`; unchanged where `period` is 0.
template <class T>
__device__ __forceinline__ T wrapped(T x, T origin, T period, T inverse_period) {
    if (exact::equal(period, T(0)))
        return x;
    T boxes = exact::floor(exact::mul(exact::sub(x, origin), inverse_period));
    T image = exact::sub(x, exact::mul(period, boxes));
    // The image is outside the box by less than the rounding of x itself, and is clamped.
    return exact::min(exact::max(image, origin), exact::add(origin, period));
}

template <class T>
__device__ __forceinline__ vec3<T> wrapped(const GridHeader<T>& header, vec3<T> p) {
    return {
        wrapped(p.x, load_unchanged(&header.origin[0]), load_unchanged(&header.period[0]),
                load_unchanged(&header.inverse_period[0])),
        wrapped(p.y, load_unchanged(&header.origin[1]), load_unchanged(&header.period[1]),
                load_unchanged(&header.inverse_period[1])),
        wrapped(p.z, load_unchanged(&header.origin[2]), load_unchanged(&header.period[2]),
                load_unchanged(&header.inverse_period[2])),
    };
}

// Dense: the cell in one direction.
template <class T>
__device__ __forceinline__ int dense_cell(const GridHeader<T>& header, int axis, T p) {
    T at = exact::mul(exact::sub(p, load_unchanged(&header.origin[axis])), load_unchanged(&header.inverse[axis]));
    return clamp(exact::floor_to_int(at), 0, static_cast<int>(load_unchanged(&header.cells[axis])) - 1);
}

// Dense: the cell's number, x fastest. `p` is finite, and wrapped into the box.
template <class T>
__device__ __forceinline__ unsigned
dense_key(const GridHeader<T>& header, const vec3<T>& p, unsigned group) {
    unsigned x = dense_cell(header, 0, p.x), y = dense_cell(header, 1, p.y);
    unsigned z = dense_cell(header, 2, p.z);
    const unsigned across = load_unchanged(&header.cells[0]), rows = load_unchanged(&header.cells[1]);
    return group * load_unchanged(&header.cells_of_group) + (z * rows + y) * across + x;
}

// Rows: the cell in one direction, of a coordinate relative to the origin.
template <class T>
__device__ __forceinline__ long long row_cell(const GridHeader<T>& header, int axis, double from_origin) {
    double at = exact::mul(from_origin, load_unchanged(&header.row_inverse[axis]));
    return clamp(exact::floor_to_long(at), 0ll, load_unchanged(&header.row_cells[axis]) - 1);
}

template <class T>
__device__ __forceinline__ long long row_cell_of(const GridHeader<T>& header, int axis, T p) {
    return row_cell(header, axis, exact::sub(exact::widen(p), load_unchanged(&header.row_origin[axis])));
}

// The bits of x that are part of a key if rows are hashed: a row is divided into pieces of that many cells.
constexpr unsigned hashed_x_bits = 20;

// A bijection of 64-bit words whose every bit depends on all bits: the finalizer of MurmurHash3.
__device__ __forceinline__ unsigned long long mixed(unsigned long long v) {
    v = (v ^ (v >> 33)) * 0xff51afd7ed558ccdull;
    v = (v ^ (v >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return v ^ (v >> 33);
}

// The row, or piece of a row, of a cell.
struct Row {
    long long piece, y, z;
    unsigned group;

    __device__ __forceinline__ bool operator==(const Row& other) const {
        return piece == other.piece && y == other.y && z == other.z && group == other.group;
    }
};

// The upper part of the keys of a row's points: the row's coordinates, or their hash.
template <class T>
__device__ __forceinline__ unsigned long long row_name(const GridHeader<T>& header, const Row& row) {
    if (load_unchanged(&header.mode) == grid_hashed) {
        unsigned long long hash = mixed(row.piece * 0x9e3779b97f4a7c15ull + row.group);
        hash = mixed(hash + row.y * 0xd6e8feb86659fd93ull);
        hash = mixed(hash + row.z * 0xa0761d6478bd642full);
        return hash >> (1 + hashed_x_bits);
    }
    unsigned long long name = row.group;
    name = name << load_unchanged(&header.bits[2]) | static_cast<unsigned long long>(row.z);
    return name << load_unchanged(&header.bits[1]) | static_cast<unsigned long long>(row.y);
}

template <class T> __device__ __forceinline__ Row row_of(const GridHeader<T>& header, const vec3<T>& p, unsigned group) {
    long long x = row_cell_of(header, 0, p.x);
    return {
        x >> load_unchanged(&header.bits[0]),
        row_cell_of(header, 1, p.y),
        row_cell_of(header, 2, p.z),
        group,
    };
}

// Rows: the key of a finite point.
template <class T>
__device__ __forceinline__ unsigned long long
row_key(const GridHeader<T>& header, const vec3<T>& p, unsigned group) {
    unsigned long long x = row_cell_of(header, 0, p.x);
    unsigned long long low = x & ((1ull << load_unchanged(&header.bits[0])) - 1);
    return row_name(header, row_of(header, p, group)) << load_unchanged(&header.bits[0]) | low;
}

// The first slot of the search for a row in the hash table.
__device__ __forceinline__ unsigned first_slot(unsigned long long name, unsigned mask) {
    return static_cast<unsigned>(mixed(name)) & mask;
}

constexpr unsigned no_point = 0xffffffffu;

} // namespace grid
} // namespace geom
