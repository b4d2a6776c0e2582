// Neighbours of a point within a radius.
//
// A point is a neighbour if d2 <= r * r, where d2 = fma(dz, dz, fma(dy, dy, dx * dx)) of the differences
// of the coordinates, everything rounded to nearest, in T. The query point itself, if it is in the grid,
// is a neighbour. The radius may be any, also larger than the radius that the grid was built for. Queries that are not
// finite, radii that are negative or NaN, and groups that the grid does not have, have no neighbours; a radius whose
// square is infinite has every point of the group.
//
// Neighbours come in cell order: by rows of cells (z, then y), in a row by x, in a cell by index; where rows
// are hashed and more of them are in reach than there are points, in the order of the hashes. It is the
// same on every device. In a periodic box each point comes once, by its nearest image.
#pragma once

#include <geom/hash_grid/dense_runs.cuh>
#include <geom/hash_grid/row_runs.cuh>

namespace geom {
namespace grid {

// A query, checked.
template <class T> struct Query {
    vec3<T> p;
    T radius_squared, reach;
    bool valid, periodic;

    __device__ __forceinline__ Query(const HashGrid<T>& grid, const vec3<T>& x, T r, unsigned group)
        : p(x) {
        const GridHeader<T>& header = *grid.header;
        radius_squared = exact::mul(r, r);
        // Rounding may bring a point in that is a little farther away.
        reach = exact::add_up(exact::mul_up(r, Limits<T>::widened()), Limits<T>::tiny());
        if (!exact::is_finite(radius_squared))
            reach = Limits<T>::infinity();
        periodic = __ldg(&header.periodic) != 0;
        if (periodic)
            p = wrapped(header, p);
        valid = is_finite(x) && exact::less_equal(T(0), r) && __ldg(&header.points) != 0 &&
                group < __ldg(&header.groups);
    }
};

// From what a difference of two points is measured.
//
// In a box without period: from nothing. In a periodic one, from the images that a run of points lies in;
// or, where cells are visited once for all images, from the nearest one of each point. Both have the same
// bits for neighbours, whose distance is less than half a period where the image is known.
template <class T> struct NoImages {
    __device__ __forceinline__ vec3<T> nearest(const vec3<T>& delta) const { return delta; }
};
template <class T> struct RunImages {
    const GridHeader<T>& header;
    vec3<T> shift;

    template <class Runs> __device__ __forceinline__ void of(const Runs& runs) {
        shift = {one(runs, 0), one(runs, 1), one(runs, 2)};
    }
    template <class Runs> __device__ __forceinline__ T one(const Runs& runs, int axis) const {
        return exact::mul(static_cast<T>(runs.image(axis)), __ldg(&header.period[axis]));
    }
    __device__ __forceinline__ vec3<T> nearest(const vec3<T>& delta) const {
        return {
            exact::sub(delta.x, shift.x),
            exact::sub(delta.y, shift.y),
            exact::sub(delta.z, shift.z),
        };
    }
};
template <class T> struct NearestImages {
    const GridHeader<T>& header;

    __device__ __forceinline__ T one(T d, int axis) const {
        T period = __ldg(&header.period[axis]);
        if (exact::equal(period, T(0)))
            return d;
        T boxes = exact::round(exact::mul(d, __ldg(&header.inverse_period[axis])));
        return exact::sub(d, exact::mul(boxes, period));
    }
    __device__ __forceinline__ vec3<T> nearest(const vec3<T>& delta) const {
        return {one(delta.x, 0), one(delta.y, 1), one(delta.z, 2)};
    }
};

// The point of a slot, seen from `p`.
template <class T, class Images>
__device__ __forceinline__ Neighbor<T>
seen_from(const vec3<T>& p, const Images& images, unsigned slot, const GridPoint<T>& point) {
    Neighbor<T> n;
    n.delta = images.nearest({
        exact::sub(p.x, point.x),
        exact::sub(p.y, point.y),
        exact::sub(p.z, point.z),
    });
    n.distance_squared = exact::fma(
        n.delta.z, n.delta.z, exact::fma(n.delta.y, n.delta.y, exact::mul(n.delta.x, n.delta.x))
    );
    n.index = point.index;
    n.slot = slot;
    n.position = {point.x, point.y, point.z};
    return n;
}

// Calls `visit(neighbor)` for the neighbours in a run until it returns true; whether it did.
template <unsigned at_once, class T, class Runs, class Images, class Visit>
__device__ __forceinline__ bool visit_run(
    const HashGrid<T>& grid, const Query<T>& query, const Runs& runs, const Images& images,
    unsigned begin, unsigned end, Visit& visit
) {
    // Several loads at once, those beyond the end of its last point again: runs are short, and a loop for
    // what is left over would cost as much as the others.
#pragma unroll 1
    for (unsigned slot = begin; slot < end; slot += at_once) {
        GridPoint<T> points[at_once];
#pragma unroll
        for (unsigned i = 0; i < at_once; ++i)
            points[i] = load_point(grid.points, min(slot + i, end - 1));
#pragma unroll
        for (unsigned i = 0; i < at_once; ++i) {
            Neighbor<T> n = seen_from(query.p, images, slot + i, points[i]);
            if (slot + i < end && exact::less_equal(n.distance_squared, query.radius_squared) &&
                runs.owns(slot + i, points[i]) && visit(n))
                return true;
        }
    }
    return false;
}

// How many points of a run are tested together: measured, bench/NOTES.md.
constexpr unsigned points_at_once = 4;

template <class T, class Visit>
__device__ __forceinline__ bool
visit(const HashGrid<T>& grid, const vec3<T>& x, T radius, unsigned group, Visit& visit) {
    Query<T> query(grid, x, radius, group);
    if (!query.valid)
        return false;
    unsigned begin, end;
    if (__ldg(&grid.header->mode) != grid_dense) {
        RowRuns<T> runs(grid, query.p, query.reach, group);
        while (runs.next(begin, end))
            if (visit_run<1>(grid, query, runs, NoImages<T>(), begin, end, visit))
                return true;
    } else if (query.periodic) {
        DenseRuns<T, true> runs(grid, query.p, query.reach, group);
        RunImages<T> images{*grid.header, {}};
        while (runs.next(begin, end)) {
            images.of(runs);
            bool found =
                runs.images_known()
                    ? visit_run<points_at_once>(grid, query, runs, images, begin, end, visit)
                    : visit_run<1>(
                          grid, query, runs, NearestImages<T>{*grid.header}, begin, end, visit
                      );
            if (found)
                return true;
        }
    } else {
        DenseRuns<T, false> runs(grid, query.p, query.reach, group);
        while (runs.next(begin, end))
            if (visit_run<points_at_once>(grid, query, runs, NoImages<T>(), begin, end, visit))
                return true;
    }
    return false;
}

} // namespace grid

// Calls `body(neighbor)`, of type `Neighbor<T>`, for each point within `radius` of `x`.
//
//     geom::for_each_neighbor(grid, x, r, [&](const geom::Neighbor<float>& n) { sum += n.position; });
template <class T, class Body>
__device__ __forceinline__ void
for_each_neighbor(const HashGrid<T>& grid, const vec3<T>& x, T radius, Body body, unsigned group = 0) {
    auto visit = [&](const Neighbor<T>& neighbor) {
        body(neighbor);
        return false;
    };
    grid::visit(grid, x, radius, group, visit);
}

// Calls `body(neighbor)` for each point within `radius` of `x` until it returns true. Whether it did.
template <class T, class Body>
__device__ __forceinline__ bool
find_neighbor(const HashGrid<T>& grid, const vec3<T>& x, T radius, Body body, unsigned group = 0) {
    return grid::visit(grid, x, radius, group, body);
}

// Whether any point lies within `radius` of `x`.
template <class T>
__device__ __forceinline__ bool
any_neighbor(const HashGrid<T>& grid, const vec3<T>& x, T radius, unsigned group = 0) {
    return find_neighbor(grid, x, radius, [](const Neighbor<T>&) { return true; }, group);
}

// The neighbours one by one, where a loop with a body of its own does not suit:
//
//     geom::NeighborIterator<float> it(grid, x, r);
//     geom::Neighbor<float> n;
//     while (it.next(n)) { … }
//
// The grid must outlive it.
template <class T> class NeighborIterator {
public:
    __device__ NeighborIterator(const HashGrid<T>& grid, const vec3<T>& x, T radius, unsigned group = 0)
        : grid_(grid), query_(grid, x, radius, group),
          dense_(grid, query_.p, query_.reach, query_.valid ? group : 0),
          rows_(grid, query_.p, query_.reach, group), images_{*grid.header}, slot_(0), end_(0),
          is_dense_(grid.header->mode == grid_dense) {}

    // Gives the next neighbour; false if there is none.
    __device__ bool next(Neighbor<T>& neighbor) {
        if (!query_.valid)
            return false;
        while (true) {
            for (; slot_ < end_; ++slot_) {
                GridPoint<T> point = load_point(grid_.points, slot_);
                neighbor = grid::seen_from(query_.p, images_, slot_, point);
                if (exact::less_equal(neighbor.distance_squared, query_.radius_squared) &&
                    (is_dense_ || rows_.owns(slot_, point))) {
                    ++slot_;
                    return true;
                }
            }
            if (!(is_dense_ ? dense_.next(slot_, end_) : rows_.next(slot_, end_)))
                return false;
        }
    }

private:
    const HashGrid<T>& grid_;
    grid::Query<T> query_;
    // Also where nothing is periodic: then periods are 0, and do nothing.
    grid::DenseRuns<T, true> dense_;
    grid::RowRuns<T> rows_;
    grid::NearestImages<T> images_;
    unsigned slot_, end_;
    bool is_dense_;
};

} // namespace geom
