// Dense grids: the runs of points, in cell order, that can hold a neighbour.
//
// Cells that are adjacent in x are contiguous, so each row of cells (y, z) is one run. Rows whose nearest edge is too
// far are skipped, and in the others only cells in reach at that distance are visited. All bounds are rounded
// outwards: skipped cells are certainly out of reach.
#pragma once

#include <geom/hash_grid/cells.cuh>

namespace geom {
namespace grid {

__device__ __forceinline__ int wrap_cell(int c, int cells) {
    return c < 0 ? c + cells : c >= cells ? c - cells : c;
}

// The image of the box that a cell is in.
__device__ __forceinline__ int image_of(int c, int cells) { return c < 0 ? -1 : c >= cells; }

// The cells in reach along one axis.
template <class T, bool Periodic> struct Span {
    // Bounds of the coordinate of the query relative to the grid's origin.
    T low, high, inverse;
    int cells;
    // In a periodic direction they may exceed the box, by less than its extent.
    int first, last;
    // Whether the direction is periodic and all cells are in reach.
    bool whole;

    __device__ __forceinline__ Span(const GridHeader<T>& header, int axis, T x, T reach) {
        T origin = __ldg(&header.origin[axis]);
        inverse = __ldg(&header.inverse[axis]);
        cells = static_cast<int>(__ldg(&header.cells[axis]));
        low = exact::sub_down(x, origin);
        high = exact::sub_up(x, origin);
        // Images are a period apart only up to rounding, so their cells are rounded outwards.
        bool repeats = Periodic && (__ldg(&header.periodic) & (1u << axis));
        if (repeats) {
            T margin = __ldg(&header.margin[axis]);
            low = exact::sub_down(low, margin);
            high = exact::add_up(high, margin);
        }
        whole = within(reach, repeats, first, last);
        if (Periodic && whole) {
            // Each cell is visited once, whichever image is near, so no cell is known to be far.
            low = -Limits<T>::infinity();
            high = Limits<T>::infinity();
        }
    }

    // Writes the cells within `distance`, each of them once. Returns whether these are all cells of a periodic axis.
    __device__ __forceinline__ bool within(T distance, bool repeats, int& begin, int& end) const {
        begin = cell(exact::sub_down(low, distance));
        end = cell(exact::add_up(high, distance));
        if (!repeats) {
            begin = clamp(begin, 0, cells - 1);
            end = clamp(end, 0, cells - 1);
        } else if (begin < -cells || end >= 2 * cells || end - begin >= cells) {
            begin = 0;
            end = cells - 1;
            return true;
        }
        return false;
    }

    __device__ __forceinline__ int cell(T at) const {
        return exact::floor_to_int(exact::mul(at, inverse));
    }
};

// A lower bound of the distance between the query and cells, along one axis.
template <class T> struct Gap {
    T size, below, above;

    template <bool Periodic>
    __device__ __forceinline__ Gap(const GridHeader<T>& header, int axis, const Span<T, Periodic>& span) {
        T margin = __ldg(&header.margin[axis]);
        size = __ldg(&header.size[axis]);
        // A cell at the border also holds points beyond it, so it is unbounded on that side.
        T low = span.low, high = span.high;
        if (!(Periodic && (__ldg(&header.periodic) & (1u << axis)))) {
            low = exact::min(low, exact::mul_down(static_cast<T>(span.cells), size));
            high = exact::max(high, T(0));
        }
        below = exact::sub_down(exact::sub_down(low, margin), size);
        above = exact::add_up(high, margin);
    }

    // A lower bound of the squared distance to points of cell `c`.
    __device__ __forceinline__ T squared(int c) const {
        T at = static_cast<T>(c);
        T gap = exact::max(
            exact::sub_down(below, exact::mul_up(at, size)),
            exact::sub_down(exact::mul_down(at, size), above)
        );
        gap = exact::max(gap, T(0));
        return exact::mul_down(gap, gap);
    }
};

template <class T, bool Periodic> class DenseRuns {
public:
    __device__ __forceinline__
    DenseRuns(const HashGrid<T>& grid, const vec3<T>& p, T reach, unsigned group)
        : starts_(grid.starts), x_(*grid.header, 0, p.x, reach), y_(*grid.header, 1, p.y, reach),
          z_(*grid.header, 2, p.z, reach), gap_y_(*grid.header, 1, y_),
          gap_z_(*grid.header, 2, z_), reach_squared_(exact::mul_up(reach, reach)),
          base_(group * __ldg(&grid.header->cells_of_group)), rest_begin_(0), rest_end_(0),
          x_repeats_(Periodic && (__ldg(&grid.header->periodic) & 1)), whole_row_(false) {
        cz_ = z_.first - 1;
        cy_ = y_.last + 1;
    }

    // Writes the next run [begin, end) of slots, which may be empty; returns false if there is none. Each call
    // handles one row, whatever is in it, so that neighbouring threads stay in the same row.
    __device__ __forceinline__ bool next(unsigned& begin, unsigned& end) {
        begin = end = 0;
        if (Periodic && take_rest(begin, end))
            return true;
        if (cy_ > y_.last) {
            if (cz_ >= z_.last)
                return false;
            ++cz_;
            cy_ = y_.first;
            squared_z_ = gap_z_.squared(cz_);
            int z = Periodic ? wrap_cell(cz_, z_.cells) : cz_;
            image_z_ = image_of(cz_, z_.cells);
            plane_ = base_ + z * y_.cells * x_.cells;
        }
        int y = Periodic ? wrap_cell(cy_, y_.cells) : cy_;
        image_y_ = image_of(cy_, y_.cells);
        T gap = exact::add_down(squared_z_, gap_y_.squared(cy_));
        ++cy_;
        if (!exact::less(reach_squared_, gap)) {
            T half = exact::sqrt_up(exact::sub_up(reach_squared_, gap));
            run(plane_ + y * x_.cells, half, begin, end);
        }
        return true;
    }

    // Every slot of a dense run is a candidate.
    __device__ __forceinline__ bool owns(unsigned, const GridPoint<T>&) const { return true; }

    // Whether the image of the box that a run lies in is known: it is the same for all points of the run.
    __device__ __forceinline__ bool images_known() const {
        return !x_.whole && !y_.whole && !z_.whole && !whole_row_;
    }
    // The image of the box in which the points of the last run are near.
    __device__ __forceinline__ int image(int axis) const {
        return axis == 0 ? image_x_ : axis == 1 ? image_y_ : image_z_;
    }

private:
    // The cells of a row within `half` in x.
    __device__ __forceinline__ void run(unsigned row, T half, unsigned& begin, unsigned& end) {
        int first, last;
        whole_row_ = x_.within(half, x_repeats_, first, last);
        image_x_ = 0;
        if (Periodic && !whole_row_) {
            int cells = x_.cells;
            int first_image = image_of(first, cells), last_image = image_of(last, cells);
            first = wrap_cell(first, cells);
            last = wrap_cell(last, cells);
            image_x_ = first_image;
            if (first_image != last_image) {
                rest_begin_ = __ldg(starts_ + row);
                rest_end_ = __ldg(starts_ + row + last + 1);
                rest_image_ = last_image;
                last = cells - 1;
            }
        }
        begin = __ldg(starts_ + row + first);
        end = __ldg(starts_ + row + last + 1);
    }

    // The part of a row beyond the end of the box.
    __device__ __forceinline__ bool take_rest(unsigned& begin, unsigned& end) {
        if (rest_begin_ == rest_end_)
            return false;
        begin = rest_begin_;
        end = rest_end_;
        image_x_ = rest_image_;
        rest_begin_ = rest_end_;
        return true;
    }

    const unsigned* starts_;
    Span<T, Periodic> x_, y_, z_;
    Gap<T> gap_y_, gap_z_;
    T reach_squared_, squared_z_;
    int cy_, cz_;
    unsigned base_, plane_;
    int image_x_, image_y_, image_z_, rest_image_;
    unsigned rest_begin_, rest_end_;
    bool x_repeats_, whole_row_;
};

} // namespace grid
} // namespace geom
