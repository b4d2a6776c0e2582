//! Neighbours of a point within a radius: `geom/hash_grid/query.cuh`.

use super::cells::wrapped;
use super::dense_runs::DenseRuns;
use super::row_runs::RowRuns;
use super::{GridPoint, HashGrid};
use crate::hash_grid::layout::DENSE;
use crate::structures::exact::{Exact, length_squared};
use crate::structures::lanes::{LANES, Lanes, Task, vectorized};

/// A point found near another: `geom::Neighbor`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct Neighbor<T> {
    /// The index in the array that the grid was built from.
    pub index: u32,
    /// The index in cell order, for [`HashGrid::point_at`].
    pub slot: u32,
    /// The vector from the point (in a periodic box: from its nearest image) to the query point, rounded.
    pub delta: [T; 3],
    /// The square of the length of `delta`, rounded.
    pub distance_squared: T,
    /// The position.
    pub position: [T; 3],
}

#[derive(Debug, Clone, Copy)]
enum Runs<T> {
    None,
    Dense(DenseRuns<T>),
    Wide(DenseRuns<f64>),
    Rows(RowRuns),
}

/// The room for neighbours that are found at once: the lanes that are tested together are written where there is room
/// for all of them.
const ROOM: usize = 64;

/// A query under way. It finds neighbours ahead, so that its loops are long and have few branches.
#[derive(Debug, Clone)]
struct Search<'a, T: Exact> {
    grid: &'a HashGrid<T>,
    p: [T; 3],
    radius_squared: T,
    runs: Runs<T>,
    /// What is subtracted from differences of coordinates: the images of the run. `None` if each point has its own.
    shift: Option<[T; 3]>,
    /// The rest of the run.
    at: u32,
    end: u32,
    /// The neighbours that were found: their slots and squared distances, and which of them are next.
    next: usize,
    found: usize,
    slots: [u32; ROOM],
    squares: [T; ROOM],
}

impl<'a, T: Exact> Search<'a, T> {
    #[inline]
    fn new(grid: &'a HashGrid<T>, x: [T; 3], radius: T, group: u32) -> Self {
        let header = &grid.header;
        let p = wrapped(header, x);
        let radius_squared = radius * radius;
        // The reach is rounded up: rounding may make a point a neighbour that is slightly farther away.
        let mut reach = radius.mul_up(T::WIDENED).add_up(T::TINY);
        if !radius_squared.is_finite() {
            reach = T::INFINITY;
        }
        let is_query = x.iter().all(|x| x.is_finite()) && T::ZERO <= radius;
        let runs = if !is_query || header.points == 0 || group >= header.groups {
            Runs::None
        } else if header.mode == DENSE {
            Runs::Dense(DenseRuns::new(header, p, reach, group))
        } else if let Some(wide) = &grid.wide {
            Runs::Wide(DenseRuns::new(wide, p.map(T::wide), reach.wide(), group))
        } else {
            Runs::Rows(RowRuns::new(grid, p, reach, group))
        };
        let (slots, squares) = ([0; ROOM], [T::ZERO; ROOM]);
        let shift = Some([T::ZERO; 3]);
        Self {
            grid,
            p,
            radius_squared,
            runs,
            shift,
            at: 0,
            end: 0,
            next: 0,
            found: 0,
            slots,
            squares,
        }
    }

    /// Returns the slot and the squared distance of the next neighbour.
    #[inline(always)]
    fn next(&mut self) -> Option<(u32, T)> {
        if self.next == self.found && !vectorized(Advance(self)) {
            return None;
        }
        let at = self.next % ROOM;
        self.next += 1;
        Some((self.slots[at], self.squares[at]))
    }

    /// Returns the vector from the point of a slot to the query.
    #[inline(always)]
    fn delta(&self, position: [T; 3]) -> [T; 3] {
        std::array::from_fn(|axis| {
            let delta = self.p[axis] - position[axis];
            match self.shift {
                Some(shift) => delta - shift[axis],
                None => self.grid.image_along(axis, delta),
            }
        })
    }

    /// Tests the points of a run, and adds those that are neighbours, until there may be no room. Returns where it
    /// stopped.
    #[inline(always)]
    fn test(
        &mut self,
        (mut at, end): (u32, u32),
        lanes: impl Lanes,
        image: impl Fn(usize, T) -> T,
    ) -> u32 {
        let (grid, p) = (self.grid, self.p);
        let mut count = self.found;
        while at < end && count <= ROOM - LANES {
            let slot = at as usize;
            let chunk = |axis: usize| -> Option<&'a [T; LANES]> {
                grid.coordinates[axis].get(slot..slot + LANES)?.try_into().ok()
            };
            let (Some(x), Some(y), Some(z)) = (chunk(0), chunk(1), chunk(2)) else { break };
            let mut squares = [T::ZERO; LANES];
            for lane in 0..LANES {
                squares[lane] = length_squared([
                    image(0, p[0] - x[lane]),
                    image(1, p[1] - y[lane]),
                    image(2, p[2] - z[lane]),
                ]);
            }
            let mut found = lanes.at_most(&squares, self.radius_squared);
            let left = end - at;
            if left < LANES as u32 {
                found &= (1 << left) - 1;
            }
            if let Runs::Rows(runs) = &self.runs {
                for lane in 0..LANES {
                    if found >> lane & 1 != 0 && !runs.owns(grid, slot + lane) {
                        found &= !(1 << lane);
                    }
                }
            }
            let (chosen, squares) = lanes.select(&squares, found);
            let room = count..count + LANES;
            if let (Some(slots), Some(out)) =
                (self.slots.get_mut(room.clone()), self.squares.get_mut(room))
            {
                for lane in 0..LANES {
                    slots[lane] = at + chosen[lane];
                }
                out.copy_from_slice(&squares);
            }
            count += found.count_ones() as usize;
            at += LANES as u32;
        }
        self.found = count;
        at.min(end)
    }

    /// Begins the next run.
    #[inline(always)]
    fn begin_run(&mut self) -> Option<()> {
        let header = &self.grid.header;
        match &mut self.runs {
            Runs::None => return None,
            Runs::Rows(runs) => (self.at, self.end) = runs.next(self.grid)?,
            Runs::Wide(runs) => {
                let wide = self.grid.wide.as_ref()?;
                (self.at, self.end) = runs.next(wide, &self.grid.starts)?;
            }
            Runs::Dense(runs) => {
                (self.at, self.end) = runs.next(header, &self.grid.starts)?;
                if header.periodic != 0 {
                    let images = runs.images();
                    let shift =
                        std::array::from_fn(|axis| T::of_int(images[axis]) * header.period[axis]);
                    self.shift = runs.images_known().then_some(shift);
                }
            }
        }
        Some(())
    }
}

/// Finds neighbours: as many as there is room for, and in a periodic box those of one run. Returns whether there are any.
struct Advance<'b, 'a, T: Exact>(&'b mut Search<'a, T>);

impl<T: Exact> Task for Advance<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> bool {
        let search = self.0;
        (search.next, search.found) = (0, 0);
        loop {
            if search.at < search.end {
                let (grid, run) = (search.grid, (search.at, search.end));
                search.at = match search.shift {
                    Some(shift) => search.test(run, lanes, |axis, delta| delta - shift[axis]),
                    None => search.test(run, lanes, |axis, delta| grid.image_along(axis, delta)),
                };
                if search.found > ROOM - LANES {
                    return true;
                }
            }
            // The images of neighbours are those of the run.
            if search.found > 0 && search.grid.header.periodic != 0 {
                return true;
            }
            if search.begin_run().is_none() {
                search.runs = Runs::None;
                return search.found > 0;
            }
        }
    }
}

/// The indices of the neighbours of a query, in the grid's order. [`HashGrid::neighbors`] creates it.
#[derive(Debug, Clone)]
pub struct Neighbors<'a, T: Exact>(Search<'a, T>);

impl<T: Exact> Iterator for Neighbors<'_, T> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let (slot, _) = self.0.next()?;
        self.0.grid.indices.get(slot as usize).copied()
    }
}

/// The neighbours of a query with positions and distances, in the grid's order. [`HashGrid::near`] creates it.
#[derive(Debug, Clone)]
pub struct Near<'a, T: Exact>(Search<'a, T>);

impl<T: Exact> Iterator for Near<'_, T> {
    type Item = Neighbor<T>;

    #[inline]
    fn next(&mut self) -> Option<Neighbor<T>> {
        let search = &mut self.0;
        let (slot, distance_squared) = search.next()?;
        let position = search.grid.position(slot as usize);
        Some(Neighbor {
            index: search.grid.indices.get(slot as usize).copied()?,
            slot,
            delta: search.delta(position),
            distance_squared,
            position,
        })
    }
}

#[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
impl<T: Exact> HashGrid<T> {
    /// Returns the difference of two coordinates from the nearest image.
    #[inline(always)]
    fn image_along(&self, axis: usize, delta: T) -> T {
        let period = self.header.period[axis];
        if period == T::ZERO {
            return delta;
        }
        delta - (delta * self.header.inverse_period[axis]).round() * period
    }

    /// Returns the number of points in the grid.
    #[must_use]
    pub fn point_count(&self) -> u32 {
        self.header.points
    }

    /// Returns the point at an index in cell order; `None` from [`point_count`](Self::point_count) on.
    ///
    /// Threads of a kernel that take the points in cell order read the same cells.
    #[must_use]
    pub fn point_at(&self, slot: u32) -> Option<GridPoint<T>> {
        let index = *self.indices.get(slot as usize).filter(|_| slot < self.header.points)?;
        Some(GridPoint { position: self.position(slot as usize), index, slot })
    }

    /// Returns the indices of the points within `radius` of `x`, in the order of [`hash_grid`](crate::hash_grid): in
    /// kernels of Rust, `for i in grid.neighbors(x, radius) { … }`.
    ///
    /// A point of the grid at `x` is among them. There are none if a coordinate is not finite, or the radius negative
    /// or NaN.
    #[inline]
    pub fn neighbors(&self, x: [T; 3], radius: T) -> Neighbors<'_, T> {
        self.neighbors_in_group(x, radius, 0)
    }

    /// Works like [`neighbors`](Self::neighbors), among the points of a group.
    #[inline]
    pub fn neighbors_in_group(&self, x: [T; 3], radius: T, group: u32) -> Neighbors<'_, T> {
        Neighbors(Search::new(self, x, radius, group))
    }

    /// Works like [`neighbors`](Self::neighbors), with positions and distances.
    #[inline]
    pub fn near(&self, x: [T; 3], radius: T) -> Near<'_, T> {
        self.near_in_group(x, radius, 0)
    }

    /// Works like [`near`](Self::near), among the points of a group.
    #[inline]
    pub fn near_in_group(&self, x: [T; 3], radius: T, group: u32) -> Near<'_, T> {
        Near(Search::new(self, x, radius, group))
    }

    /// Returns the number of points within `radius` of `x`.
    #[must_use]
    pub fn count(&self, x: [T; 3], radius: T) -> u32 {
        let mut search = Search::new(self, x, radius, 0);
        let mut count = 0;
        while search.next().is_some() {
            count += 1 + (search.found - search.next) as u32;
            search.next = search.found;
        }
        count
    }

    /// Returns a difference of two positions from the nearest image; without periods, the difference itself.
    #[must_use]
    #[inline]
    pub fn nearest_image(&self, delta: [T; 3]) -> [T; 3] {
        std::array::from_fn(|axis| self.image_along(axis, delta[axis]))
    }

    /// Returns whether any point lies within `radius` of `x`.
    #[must_use]
    pub fn any_neighbor(&self, x: [T; 3], radius: T) -> bool {
        Search::new(self, x, radius, 0).next().is_some()
    }
}
