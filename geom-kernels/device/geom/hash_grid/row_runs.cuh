// Grids with keys: the runs of points, in cell order, that can hold a neighbour. A row is found with a hash table,
// and the cells in reach within it by searching its keys.
#pragma once

#include <geom/hash_grid/cells.cuh>

namespace geom {
namespace grid {

// The first slot from `begin` on whose key is at least `key`. The search doubles its steps, because rows are mostly
// short.
__device__ __forceinline__ unsigned
lower_bound(const unsigned long long* keys, unsigned begin, unsigned end, unsigned long long key) {
    unsigned step = 1;
    while (begin < end && __ldg(keys + begin) < key) {
        unsigned probe = end - begin > step ? begin + step : end;
        if (probe == end || __ldg(keys + probe) >= key) {
            // The result is after begin, whose key is less, and at most probe, whose key is not.
            unsigned low = begin + 1, high = probe;
            while (low < high) {
                unsigned middle = low + (high - low) / 2;
                if (__ldg(keys + middle) < key)
                    low = middle + 1;
                else
                    high = middle;
            }
            return low;
        }
        begin = probe;
        step *= 2;
    }
    return begin;
}

template <class T> class RowRuns {
public:
    __device__ __noinline__ RowRuns(const HashGrid<T>& grid, const vec3<T>& p, T reach, unsigned group)
        : grid_(grid), count_(load_unchanged(&grid.header->points)) {
        const GridHeader<T>& header = *grid.header;
        double wide = exact::widen(reach);
        double rows = 1.0;
        for (int axis = 0; axis < 3; ++axis) {
            double x = exact::widen(component(p, axis)), origin = load_unchanged(&header.row_origin[axis]);
            double low = exact::sub_down(exact::sub_down(x, origin), wide);
            double high = exact::add_up(exact::sub_up(x, origin), wide);
            first_[axis] = row_cell(header, axis, low);
            last_[axis] = row_cell(header, axis, high);
            unsigned shift = axis == 0 ? load_unchanged(&header.bits[0]) : 0;
            // The number of rows is only compared with that of points, so rounding does not matter.
            rows = exact::mul(rows, static_cast<double>((last_[axis] >> shift) - (first_[axis] >> shift) + 1));
        }
        x_bits_ = load_unchanged(&header.bits[0]);
        hashed_ = load_unchanged(&header.mode) == grid_hashed;
        row_ = {first_[0] >> x_bits_, first_[1], first_[2], group};
        // If there are more rows than points, all points are tested.
        all_ = exact::less(static_cast<double>(count_), rows);
        groups_ = all_ && load_unchanged(&header.groups) > 1;
        done_ = false;
    }

    __device__ __noinline__ bool next(unsigned& begin, unsigned& end) {
        begin = end = 0;
        if (all_) {
            if (done_)
                return false;
            done_ = true;
            end = count_;
            return true;
        }
        while (!done_) {
            Row row = row_;
            current_ = row;
            bool found = run(row, begin, end);
            advance();
            if (found)
                return true;
        }
        return false;
    }

    // Whether a slot of the run belongs to the row, and not only to a row of equal hash; and, if all points are
    // tested, to the group.
    __device__ bool owns(unsigned slot, const GridPoint<T>& point) const {
        if (all_)
            return !groups_ || __ldg(grid_.groups + slot) == row_.group;
        if (!hashed_)
            return true;
        unsigned group = grid_.groups ? __ldg(grid_.groups + slot) : 0;
        return row_of(*grid_.header, {point.x, point.y, point.z}, group) == current_;
    }

private:
    // Advances to the next row: by pieces of x, then y, then z.
    __device__ void advance() {
        if (++row_.piece <= last_[0] >> x_bits_)
            return;
        row_.piece = first_[0] >> x_bits_;
        if (++row_.y <= last_[1])
            return;
        row_.y = first_[1];
        done_ = ++row_.z > last_[2];
    }

    __device__ bool run(const Row& row, unsigned& begin, unsigned& end) {
        unsigned long long name = row_name(*grid_.header, row);
        unsigned start = no_point;
        for (unsigned slot = first_slot(name, grid_.table_mask);; ++slot) {
            start = __ldg(grid_.table + (slot & grid_.table_mask));
            // The search ends, because the table is never full.
            if (start == no_point)
                return false;
            if (__ldg(grid_.keys + start) >> x_bits_ == name)
                break;
        }
        long long offset = row.piece << x_bits_, most = (1ll << x_bits_) - 1;
        unsigned long long low = clamp(first_[0] - offset, 0ll, most);
        unsigned long long high = clamp(last_[0] - offset, 0ll, most);
        begin = lower_bound(grid_.keys, start, count_, name << x_bits_ | low);
        end = lower_bound(grid_.keys, begin, count_, (name << x_bits_ | high) + 1);
        return begin != end;
    }

    const HashGrid<T>& grid_;
    unsigned count_, x_bits_;
    long long first_[3], last_[3];
    Row row_, current_;
    bool hashed_, all_, groups_, done_;
};

} // namespace grid
} // namespace geom
