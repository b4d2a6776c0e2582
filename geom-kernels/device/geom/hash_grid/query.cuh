// Neighbours of a point within a radius.
//
// A point is a neighbour if d2 <= r * r, where d2 = fma(dz, dz, fma(dy, dy, dx * dx)) of the differences of the
// coordinates, everything rounded to nearest, in T. The query point itself, if it is in the grid, is a neighbour. The
// radius may be larger than the one that the grid was built for. Queries that are not finite, radii that are negative
// or NaN, and groups that the grid does not have, have no neighbours; a radius whose square is infinite has every
// point of the group.
//
// Neighbours come in cell order: by rows of cells (z, then y), in a row by x, in a cell by index. If rows are hashed
// and more of them are in reach than there are points, they come in the order of the hashes. The order is the same on
// every device. In a periodic box each point comes once, by its nearest image.
#pragma once

#include <geom/hash_grid/dense_runs.cuh>
#include <geom/hash_grid/row_runs.cuh>

namespace geom {
namespace grid {

// A checked query.
template <class T> struct Query {
    vec3<T> p;
    T radius_squared, reach;
    bool valid, periodic;

    __device__ __forceinline__ Query(const HashGrid<T>& grid, const vec3<T>& x, T r, unsigned group)
        : p(x) {
        const GridHeader<T>& header = *grid.header;
        radius_squared = exact::mul(r, r);
        // `reach` is rounded up: rounding may make a point a neighbour that is slightly farther away.
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

// The images from which differences of two points are measured. Without periods there are none. In a periodic box
// they are the images of a run of points; or, if cells are visited once for all images, the nearest one of each
// point. Both have the same bits for neighbours, whose distance is less than half a period if the image is known.
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

template <class T> __device__ __forceinline__ T squared(const vec3<T>& d) {
    return exact::fma(d.z, d.z, exact::fma(d.y, d.y, exact::mul(d.x, d.x)));
}

// The point of a slot, relative to `p`.
template <class T, class Images>
__device__ __forceinline__ Neighbor<T>
seen_from(const vec3<T>& p, const Images& images, unsigned slot, const GridPoint<T>& point) {
    Neighbor<T> n;
    n.delta = images.nearest({
        exact::sub(p.x, point.x),
        exact::sub(p.y, point.y),
        exact::sub(p.z, point.z),
    });
    n.distance_squared = squared(n.delta);
    n.index = point.index;
    n.slot = slot;
    n.position = {point.x, point.y, point.z};
    return n;
}

// Calls `visit(neighbor)` for the neighbours in a run until it returns true. Returns whether it did.
template <unsigned at_once, class T, class Runs, class Images, class Visit>
__device__ __forceinline__ bool visit_run(
    const HashGrid<T>& grid, const Query<T>& query, const Runs& runs, const Images& images,
    unsigned begin, unsigned end, Visit& visit
) {
    // Several points are loaded at once, the last one again beyond the end: runs are short, and a loop for the
    // remainder would cost as much as the others.
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

// The number of points that are tested together: measured, bench/NOTES.md. An adjoint contains the caller's code that
// many times, and repeats it.
#ifdef GEOM_AD
constexpr unsigned points_at_once = 1;
#else
constexpr unsigned points_at_once = 4;
#endif

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

// x as a constant in the program that is differentiated; else x.
template <class V>
__device__ __forceinline__ V constant(const V& x) {
#ifdef GEOM_AD
    return ad::stop(x);
#else
    return x;
#endif
}

// A neighbour from the grid's copy of the points, which has no gradient.
template <class T>
__device__ __forceinline__ Neighbor<T> copied(Neighbor<T> neighbor) {
#ifdef GEOM_AD
    neighbor.delta = ad::lost_copy(neighbor.delta);
    neighbor.distance_squared = ad::lost_copy(neighbor.distance_squared);
    neighbor.position = ad::lost_copy(neighbor.position);
#endif
    return neighbor;
}

// Point i of an array.
template <class T, class P>
__device__ __forceinline__ vec3<T> position_of(const P* points, unsigned i) {
    const P& point = points[i];
    return vec3<T>(point.x, point.y, point.z);
}

#ifdef GEOM_AD
// `value` with the derivative of x.
template <class T>
__device__ __forceinline__ vec3<T> joined(const vec3<T>& value, const vec3<T>& x) {
    return vec3<T>(ad::rule(value.x, x.x, T(1)), ad::rule(value.y, x.y, T(1)), ad::rule(value.z, x.z, T(1)));
}
#endif

// A position wrapped into the box. Its derivative is 1, also where rounding moves it to the border.
template <class T>
__device__ __forceinline__ vec3<T> wrapped_position(const GridHeader<T>& header, const vec3<T>& x) {
    if (__ldg(&header.periodic) == 0) return x;
#ifdef GEOM_AD
    return joined(wrapped(header, ad::stop(x)), x);
#else
    return wrapped(header, x);
#endif
}

// A query's point and the array that the grid was built from, from which neighbours are read.
template <class T, class P> struct Moving {
    const GridHeader<T>& header;
    const P* points;
    vec3<T> p;

    __device__ __forceinline__ Moving(const HashGrid<T>& grid, const P* points, const vec3<T>& x)
        : header(*grid.header), points(points), p(wrapped_position(header, x)) {}

    __device__ __forceinline__ Neighbor<T> neighbor(const Neighbor<T>& found) const {
        const vec3<T> at = wrapped_position(header, position_of<T>(points, found.index));
        const vec3<T> seen = constant(at);
        // The periods are 0, and have no effect, along axes that are not periodic.
        Neighbor<T> n =
            seen_from(constant(p), NearestImages<T>{header}, found.slot, {seen.x, seen.y, seen.z, found.index});
#ifdef GEOM_AD
        n.delta = joined(n.delta, exact::sub(p, at));
        n.distance_squared = squared(n.delta);
        n.position = at;
#endif
        return n;
    }
};

} // namespace grid

// Calls `body(neighbor)`, of type `Neighbor<T>`, for each point within `radius` of `x`.
//
//     geom::for_each_neighbor(grid, x, r, [&](const geom::Neighbor<float>& n) { sum += n.position; });
template <class T, class Body>
__device__ __forceinline__ void
for_each_neighbor(const HashGrid<T>& grid, const vec3<T>& x, T radius, Body body, unsigned group = 0) {
    auto visit = [&](const Neighbor<T>& neighbor) {
        body(grid::copied(neighbor));
        return false;
    };
    grid::visit(grid, grid::constant(x), grid::constant(radius), group, visit);
}

// Calls `body(neighbor)` for each point within `radius` of `x` until it returns true. Returns whether it did.
template <class T, class Body>
__device__ __forceinline__ bool
find_neighbor(const HashGrid<T>& grid, const vec3<T>& x, T radius, Body body, unsigned group = 0) {
#ifdef GEOM_AD
    auto visit = [&](const Neighbor<T>& neighbor) { return body(grid::copied(neighbor)); };
    return grid::visit(grid, grid::constant(x), grid::constant(radius), group, visit);
#else
    return grid::visit(grid, x, radius, group, body);
#endif
}

// The same with the array that the grid was built from: `points[i]` has members x, y and z. A generated adjoint needs
// it for complete gradients of x and of `points`. Without the array, values that depend on a neighbour's position,
// delta or distance can't be differentiated.
//
// The grid decides which points are visited, by their positions when it was built. A neighbour's position, delta and
// distance are those of the array: the same bits, as long as the array is unchanged.
template <class T, class P, class Body>
__device__ __forceinline__ void for_each_neighbor(const HashGrid<T>& grid, const P* points, const vec3<T>& x,
                                                  T radius, Body body, unsigned group = 0) {
    const grid::Moving<T, P> moving(grid, points, x);
    auto visit = [&](const Neighbor<T>& neighbor) {
        body(moving.neighbor(neighbor));
        return false;
    };
    grid::visit(grid, grid::constant(x), grid::constant(radius), group, visit);
}
template <class T, class P, class Body>
__device__ __forceinline__ bool find_neighbor(const HashGrid<T>& grid, const P* points, const vec3<T>& x,
                                              T radius, Body body, unsigned group = 0) {
    const grid::Moving<T, P> moving(grid, points, x);
    auto visit = [&](const Neighbor<T>& neighbor) { return body(moving.neighbor(neighbor)); };
    return grid::visit(grid, grid::constant(x), grid::constant(radius), group, visit);
}

// The i-th point in cell order, from the array that the grid was built from, wrapped into a periodic box.
template <class T, class P>
__device__ __forceinline__ GridPoint<T> point_at(const HashGrid<T>& grid, const P* points, unsigned slot) {
    GridPoint<T> point = load_point(grid.points, slot);
    const vec3<T> at = grid::wrapped_position(*grid.header, grid::position_of<T>(points, point.index));
    point.x = at.x, point.y = at.y, point.z = at.z;
    return point;
}

// Whether any point lies within `radius` of `x`.
template <class T>
__device__ __forceinline__ bool
any_neighbor(const HashGrid<T>& grid, const vec3<T>& x, T radius, unsigned group = 0) {
    return find_neighbor(grid, x, radius, [](const Neighbor<T>&) { return true; }, group);
}

// A difference of two positions from the nearest image; without periods, the difference itself. Its derivative is 1.
template <class T>
__device__ __forceinline__ vec3<T> nearest_image(const HashGrid<T>& grid, const vec3<T>& delta) {
    const vec3<T> image = grid::NearestImages<T>{*grid.header}.nearest(grid::constant(delta));
#ifdef GEOM_AD
    return grid::joined(image, delta);
#else
    return image;
#endif
}

// Iterates over the neighbours, where a lambda does not fit:
//
//     geom::NeighborIterator<float> it(grid, x, r);
//     geom::Neighbor<float> n;
//     while (it.next(n)) { … }
//
// The grid must outlive it.
template <class T> class NeighborIterator {
public:
    __device__ NeighborIterator(const HashGrid<T>& grid, const vec3<T>& x, T radius, unsigned group = 0)
        : grid_(grid), query_(grid, grid::constant(x), grid::constant(radius), group),
          dense_(grid, query_.p, query_.reach, query_.valid ? group : 0),
          rows_(grid, query_.p, query_.reach, group), images_{*grid.header}, slot_(0), end_(0),
          is_dense_(load_unchanged(&grid.header->mode) == grid_dense) {
#ifdef GEOM_AD
        x_ = x;
#endif
    }

    // Writes the next neighbour; returns false if there is none.
    __device__ bool next(Neighbor<T>& neighbor) {
#ifdef GEOM_AD
        const bool found = step(neighbor);
        neighbor = grid::copied(neighbor);
        return found;
    }

    // The same with the array that the grid was built from: see `for_each_neighbor`.
    template <class P> __device__ bool next(const P* points, Neighbor<T>& neighbor) {
        if (!step(neighbor))
            return false;
        neighbor = grid::Moving<T, P>(grid_, points, x_).neighbor(neighbor);
        return true;
    }

private:
    __device__ bool step(Neighbor<T>& neighbor) {
#endif
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

#ifdef GEOM_AD
    vec3<T> x_;
#else
    // The same with the array that the grid was built from: see `for_each_neighbor`.
    template <class P> __device__ bool next(const P* points, Neighbor<T>& neighbor) {
        if (!next(neighbor))
            return false;
        neighbor = grid::Moving<T, P>(grid_, points, query_.p).neighbor(neighbor);
        return true;
    }

private:
#endif
    const HashGrid<T>& grid_;
    grid::Query<T> query_;
    // The template is instantiated for periodic grids; without periods these are 0, and have no effect.
    grid::DenseRuns<T, true> dense_;
    grid::RowRuns<T> rows_;
    grid::NearestImages<T> images_;
    unsigned slot_, end_;
    bool is_dense_;
};

} // namespace geom
