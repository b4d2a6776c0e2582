// Builds a hash grid: its frame (the layout of cells), a key for each point, and, once the points are sorted by key,
// their copy in that order and the table of cells or rows.
#pragma once

#include <geom/hash_grid/cells.cuh>

namespace geom {
namespace grid {

// Points in an array of T: coordinate c of point i at data[i * stride + c * component].
template <class T> struct Points {
    const T* data;
    unsigned long long stride, component;
    // The group of each point, or null.
    const unsigned* groups;
    unsigned length, unused;

    __device__ __forceinline__ vec3<T> at(unsigned i) const {
        const T* p = data + i * stride;
        return {__ldg(p), __ldg(p + component), __ldg(p + 2 * component)};
    }
    __device__ __forceinline__ unsigned group(unsigned i) const { return groups ? __ldg(groups + i) : 0; }
};

// Whether the points are contiguous from a multiple of 16 bytes on: then they are read four at a time, in words of 16
// bytes.
template <class T> __device__ __forceinline__ bool in_fours(const Points<T>& points) {
    return points.stride == 3 && points.component == 1 &&
           reinterpret_cast<unsigned long long>(points.data) % 16 == 0;
}
__device__ __forceinline__ void load_four(const float* data, vec3<float> (&p)[4]) {
    const float4* at = reinterpret_cast<const float4*>(data);
    float4 a = __ldg(at), b = __ldg(at + 1), c = __ldg(at + 2);
    p[0] = {a.x, a.y, a.z};
    p[1] = {a.w, b.x, b.y};
    p[2] = {b.z, b.w, c.x};
    p[3] = {c.y, c.z, c.w};
}
__device__ __forceinline__ void load_four(const double* data, vec3<double> (&p)[4]) {
    const double2* at = reinterpret_cast<const double2*>(data);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
        double2 a = __ldg(at + 3 * pair), b = __ldg(at + 3 * pair + 1), c = __ldg(at + 3 * pair + 2);
        p[2 * pair] = {a.x, a.y, b.x};
        p[2 * pair + 1] = {b.y, c.x, c.y};
    }
}

// A finite number as a word that compares like it.
__device__ __forceinline__ unsigned long long ordered(double v) {
    unsigned long long bits = __double_as_longlong(v);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}
__device__ __forceinline__ double unordered(unsigned long long word) {
    return __longlong_as_double(word >> 63 ? word & ~(1ull << 63) : ~word);
}

// Lowers each of 6 words to the least coordinate, and the complement of the greatest, in x, y and z. By whole blocks
// of at most 1024 threads.
template <class T>
__device__ void bound_points(const Points<T>& points, unsigned groups, unsigned long long* bounds) {
    constexpr unsigned long long none = ~0ull;
    __shared__ unsigned long long block[6];
    if (threadIdx.x < 6)
        block[threadIdx.x] = none;
    __syncthreads();
    unsigned long long mine[6] = {none, none, none, none, none, none};
    for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
         i < points.length; i += gridDim.x * static_cast<unsigned long long>(blockDim.x)) {
        vec3<T> p = points.at(i);
        if (!is_finite(p) || points.group(i) >= groups)
            continue;
        for (int axis = 0; axis < 3; ++axis) {
            unsigned long long word = ordered(exact::widen(component(p, axis)));
            mine[axis] = word < mine[axis] ? word : mine[axis];
            mine[3 + axis] = ~word < mine[3 + axis] ? ~word : mine[3 + axis];
        }
    }
    for (int place = 0; place < 6; ++place) {
        unsigned long long word = mine[place];
        for (int offset = 16; offset > 0; offset /= 2) {
            unsigned long long other = __shfl_xor_sync(0xffffffffu, word, offset);
            word = other < word ? other : word;
        }
        if (threadIdx.x % 32 == 0 && word != none)
            atomicMin(block + place, word);
    }
    __syncthreads();
    if (threadIdx.x < 6 && block[threadIdx.x] != none)
        atomicMin(bounds + threadIdx.x, block[threadIdx.x]);
}

// The input for choosing a frame.
struct FrameRequest {
    // The capacity of the table in cells.
    unsigned cells_capacity;
    unsigned groups;
    // Cells of a dense grid are this many times shorter in x, so that runs end nearer to the sphere.
    unsigned x_split;
    unsigned unused;
};

__device__ __forceinline__ unsigned bits_for(long long count) {
    return count <= 1 ? 0 : 64 - __clzll(count - 1);
}

// The number of cells of this size in an extent; large numbers are only compared.
__device__ __forceinline__ double cells_in(double extent, double size) {
    return exact::less(0.0, extent) ? exact::add(exact::floor(exact::div(extent, size)), 1.0) : 1.0;
}

template <class T> __device__ __forceinline__ T to(double v);
template <> __device__ __forceinline__ float to<float>(double v) { return exact::narrow(v); }
template <> __device__ __forceinline__ double to<double>(double v) { return v; }

// Chooses the frame of a grid without bounds from the bounds of its points. By one thread.
template <class T>
__device__ void choose_frame(
    const unsigned long long* bounds, T radius, const FrameRequest& request, GridHeader<T>& header
) {
    bool empty = bounds[0] == ~0ull;
    double low[3], extent[3], widest = 0.0, dense = request.groups;
    double size = exact::widen(radius);
    for (int axis = 0; axis < 3; ++axis) {
        low[axis] = empty ? 0.0 : unordered(bounds[axis]);
        double high = empty ? 0.0 : unordered(~bounds[3 + axis]);
        // The extent is rounded down, so that it is finite.
        extent[axis] = exact::sub_down(high, low[axis]);
        widest = exact::max(widest, extent[axis]);
    }
    if (!exact::less(0.0, size))
        size = exact::mul(widest, 9.5367431640625e-7); // 2^-20
    double sizes[3] = {exact::div(size, static_cast<double>(request.x_split)), size, size};
    for (int axis = 0; axis < 3; ++axis)
        dense = exact::mul(dense, cells_in(extent[axis], sizes[axis]));
    bool is_dense = exact::less_equal(dense, static_cast<double>(request.cells_capacity));
    if (!is_dense) {
        // The size has a minimum, so that cells can be numbered; points that are closer share one.
        size = exact::max(size, exact::mul(widest, 8.8817841970012523e-16)); // 2^-50
        sizes[0] = sizes[1] = sizes[2] = size;
    }
    unsigned group_bits = bits_for(request.groups), key_bits = group_bits;
    for (int axis = 0; axis < 3; ++axis) {
        double cells = cells_in(extent[axis], sizes[axis]);
        header.row_origin[axis] = low[axis];
        header.row_inverse[axis] = exact::less(0.0, extent[axis]) ? exact::div(1.0, sizes[axis]) : 0.0;
        header.row_cells[axis] = exact::floor_to_long(exact::min(cells, 4503599627370496.0));
        header.bits[axis] = bits_for(header.row_cells[axis]);
        key_bits += header.bits[axis];
        header.origin[axis] = to<T>(low[axis]);
        header.inverse[axis] = to<T>(header.row_inverse[axis]);
        header.size[axis] = to<T>(sizes[axis]);
        // The rounding of a cell's edges is at most half of this: see Gap::squared.
        double unit = sizeof(T) == 4 ? 9.5367431640625e-7 : 1.7763568394002505e-15; // 2^-20, 2^-49
        header.margin[axis] = to<T>(exact::mul(exact::add(extent[axis], sizes[axis]), unit));
        header.period[axis] = header.inverse_period[axis] = T(0);
        header.cells[axis] = is_dense ? static_cast<unsigned>(header.row_cells[axis]) : 1;
    }
    header.radius = radius;
    header.groups = request.groups;
    header.periodic = 0;
    header.points = header.left_out = 0;
    header.cells_of_group = header.cells[0] * header.cells[1] * header.cells[2];
    if (is_dense) {
        header.mode = grid_dense;
        header.no_key = header.cells_of_group * static_cast<unsigned long long>(request.groups);
    } else if (key_bits <= 63) {
        header.mode = grid_rows;
        header.no_key = 1ull << key_bits;
    } else {
        header.mode = grid_hashed;
        header.bits[0] = hashed_x_bits;
        header.no_key = 1ull << 63;
    }
}

// The key of a point: no_key if it belongs to no cell.
template <class T>
__device__ __forceinline__ unsigned long long
point_key(const GridHeader<T>& header, const vec3<T>& p, unsigned group) {
    if (!is_finite(p) || group >= header.groups)
        return header.no_key;
    if (header.mode == grid_dense)
        return dense_key(header, wrapped(header, p), group);
    return row_key(header, p, group);
}

// The copy of point i in the grid.
template <class T>
__device__ __forceinline__ GridPoint<T>
kept_point(const GridHeader<T>& header, const Points<T>& points, unsigned i, bool left_out) {
    GridPoint<T> kept{};
    vec3<T> p = points.at(i);
    if (left_out)
        p = {Limits<T>::nan(), Limits<T>::nan(), Limits<T>::nan()};
    else
        p = wrapped(header, p);
    kept.x = p.x;
    kept.y = p.y;
    kept.z = p.z;
    kept.index = i;
    return kept;
}

// Writes the number of sorted points in the grid, in the thread of the last one.
template <class T>
__device__ __forceinline__ void
count_points(GridHeader<T>& header, unsigned slot, unsigned length, bool in, bool next_in) {
    if ((slot == 0 && !in) || (in && (slot + 1 == length || !next_in))) {
        header.points = in ? slot + 1 : 0;
        header.left_out = length - header.points;
    }
}

// Dense: sets `starts[c] = slot` for each cell c in [begin, end), by a whole block of at most 256 threads; begin
// equals end in a thread that has nothing to write. All threads together write long ranges of empty cells.
__device__ __forceinline__ void
fill_starts(unsigned* starts, unsigned begin, unsigned end, unsigned slot) {
    constexpr unsigned alone = 16;
    __shared__ unsigned ranges, range_begin[256], range_end[256], range_slot[256];
    if (threadIdx.x == 0)
        ranges = 0;
    __syncthreads();
    if (end - begin > alone) {
        unsigned place = atomicAdd(&ranges, 1u);
        range_begin[place] = begin;
        range_end[place] = end;
        range_slot[place] = slot;
    } else {
        for (unsigned cell = begin; cell < end; ++cell)
            starts[cell] = slot;
    }
    __syncthreads();
    for (unsigned range = 0; range < ranges; ++range)
        for (unsigned cell = range_begin[range] + threadIdx.x; cell < range_end[range];
             cell += blockDim.x)
            starts[cell] = range_slot[range];
    // The barrier protects the ranges: the next call may clear them.
    __syncthreads();
}

// Rows: inserts the first point of a row into the hash table.
__device__ __forceinline__ void
enter_row(unsigned* table, unsigned mask, unsigned long long name, unsigned slot) {
    for (unsigned place = first_slot(name, mask);; ++place)
        if (atomicCAS(table + (place & mask), no_point, slot) == no_point)
            return;
}

} // namespace grid
} // namespace geom
