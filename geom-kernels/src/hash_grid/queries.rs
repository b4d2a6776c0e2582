//! Queries of neighbours: positions, radii, groups and pairs.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, Error, KernelArg, LaunchConfig, Result, Stream,
    arg::{ArgType, UseVisitor},
};

use super::HashGrid;
use super::layout::RawQueries;
use crate::order::QueryOrder;
use crate::part::read;
use crate::points::{MAX_POINTS, Points};
use crate::real::Real;

/// The pairs that count if queries are the grid's own points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Pairs {
    /// All pairs; a point is its own neighbour.
    #[default]
    All = 0,
    /// All pairs except of a point with itself.
    Others = 1,
    /// Each pair once: only neighbours whose index is greater than the point's.
    Half = 2,
}

/// Threads in a block of queries: measured, bench/NOTES.md.
const QUERY_BLOCK: u32 = 128;

/// The number of queries from which on sorting them pays.
const SORTED_FROM: usize = 32_768;

/// The positions and radii of queries.
///
/// A query that is not finite, with a radius that is negative or not a number, or with a group that the grid does not
/// have, finds nothing.
#[derive(Debug, Clone, Copy)]
pub struct GridQueries<'a, T: Real> {
    pub(crate) points: Option<Points<'a, T>>,
    pub(crate) radius: T,
    pub(crate) radii: Option<DeviceSlice<'a, T>>,
    pub(crate) groups: Option<DeviceSlice<'a, u32>>,
    pub(crate) pairs: Pairs,
    order: QueryOrder,
}

impl<'a, T: Real> GridQueries<'a, T> {
    /// Creates queries at the grid's own points, in the order in which it was built from them.
    ///
    /// There are as many as [`HashGrid::len`] returns, which knows the build that this program enqueued or recorded
    /// last. If a graph builds the grid from another number of points, queries beyond the smaller number have no
    /// result.
    #[must_use]
    pub fn at_grid_points(radius: T) -> Self {
        Self {
            points: None,
            radius,
            radii: None,
            groups: None,
            pairs: Pairs::All,
            order: QueryOrder::Auto,
        }
    }

    /// Creates queries at these points.
    #[must_use]
    pub fn at(points: impl Into<Points<'a, T>>, radius: T) -> Self {
        Self { points: Some(points.into()), ..Self::at_grid_points(radius) }
    }

    /// Sets a radius for each query.
    #[must_use]
    pub fn within_each(mut self, radii: impl Into<DeviceSlice<'a, T>>) -> Self {
        self.radii = Some(radii.into());
        self
    }

    /// Sets the group of each query. By default, points of the grid search their own group, and others group 0.
    #[must_use]
    pub fn groups(mut self, groups: impl Into<DeviceSlice<'a, u32>>) -> Self {
        self.groups = Some(groups.into());
        self
    }

    /// Sets which neighbours count; only for queries at the grid's own points.
    #[must_use]
    pub fn pairs(mut self, pairs: Pairs) -> Self {
        self.pairs = pairs;
        self
    }

    /// Sets the order in which the queries run; not for the grid's own points.
    #[must_use]
    pub fn order(mut self, order: QueryOrder) -> Self {
        self.order = order;
        self
    }

    /// Returns the number of queries, after checking them.
    pub(crate) fn check(&self, grid: &HashGrid<T>) -> Result<usize> {
        let n = self.points.map_or(grid.length, |points| points.len());
        // A NaN fails this comparison, so it is refused.
        let is_radius = self.radii.is_some() || self.radius.wide() >= 0.0;
        if !is_radius {
            return Err(Error::invalid(format!("{:?} is no radius", self.radius)));
        }
        if n > MAX_POINTS {
            return Err(Error::invalid(format!("{n} queries; at most 2^30 are possible")));
        }
        let lengths = [
            ("radii", self.radii.map(|radii| radii.len())),
            ("groups", self.groups.map(|groups| groups.len())),
        ];
        for (name, len) in lengths {
            if len.is_some_and(|len| len != n) {
                let len = len.unwrap_or(0);
                return Err(Error::invalid(format!("{len} {name} for {n} queries")));
            }
        }
        if self.points.is_some() && self.pairs != Pairs::All {
            return Err(Error::invalid("only a grid's own points make pairs with its points"));
        }
        Ok(n)
    }

    /// Returns the points if they are to be sorted first.
    pub(crate) fn sorts(&self, grid: &HashGrid<T>) -> Option<Points<'a, T>> {
        let pays = match self.order {
            QueryOrder::Auto => self.points?.len() >= SORTED_FROM && grid.length > 0,
            QueryOrder::Given => false,
            QueryOrder::Sorted => grid.length > 0,
        };
        self.points.filter(|points| pays && !points.is_empty())
    }
}

/// Queries that were checked, and sorted if that pays: `geom::grid::Queries` to a kernel.
#[derive(Debug)]
pub(crate) struct Prepared<'a, T: Real> {
    grid: &'a HashGrid<T>,
    queries: &'a GridQueries<'a, T>,
    /// The sorted queries, in the grid's order; the grid's own points are in the grid.
    sorted: Option<DeviceBuffer<u8>>,
    length: usize,
}

impl<T: Real> HashGrid<T> {
    /// Sorts `n` checked queries if that pays.
    pub(crate) fn prepare<'a>(
        &'a self,
        stream: &Stream,
        queries: &'a GridQueries<'a, T>,
        n: usize,
    ) -> Result<Prepared<'a, T>> {
        let sorted = match queries.sorts(self) {
            Some(points) => Some(self.sort_queries(stream, points, queries.groups)?),
            None => None,
        };
        Ok(Prepared { grid: self, queries, sorted, length: n })
    }
}

impl<T: Real> Prepared<'_, T> {
    /// Returns a launch with a thread for each query. (It launches nothing for no queries.)
    pub(crate) fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.length, QUERY_BLOCK)
    }

    pub(crate) fn pairs(&self) -> u32 {
        self.queries.pairs as u32
    }
}

// SAFETY: the kernels read the data of queries below `length`: points, in the memory that `Points` reports; radii and
// groups, of which there are as many (`GridQueries::check`); sorted ones, of which there are as many
// (`HashGrid::sort_queries`); or the grid's own points, for as many of which it has room. The data of an index from
// `length` on is not accessed: see `OneQuery` in batch.cuh.
unsafe impl<T: Real> KernelArg for &Prepared<'_, T> {
    type Abi = RawQueries<T>;
    const TYPE: ArgType = ArgType::value::<RawQueries<T>>();

    fn abi(&self) -> RawQueries<T> {
        let GridQueries { points, radius, radii, groups, .. } = *self.queries;
        let memory = &self.grid.memory;
        let own_groups = points.is_none() && groups.is_none();
        let (stride, component) = points.map_or((0, 0), |points| points.strides());
        RawQueries {
            ordered: match (points, &self.sorted) {
                (None, _) => memory.read(&memory.points).address(),
                (Some(_), Some(sorted)) => sorted.device_ptr(),
                (Some(_), None) => 0,
            },
            data: points.map_or(0, |points| points.address()),
            stride,
            component,
            radii: radii.map_or(0, |radii| radii.device_ptr()),
            groups: match groups {
                Some(groups) => groups.device_ptr(),
                None if own_groups => memory.read(&memory.groups).address(),
                None => 0,
            },
            radius,
            length: self.length as u32,
            groups_in_order: u32::from(own_groups),
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let GridQueries { points, radii, groups, .. } = self.queries;
        if points.is_none() {
            read(visitor, &self.grid.memory.buffer().as_slice())?;
        }
        if let (Some(points), None) = (points, &self.sorted) {
            points.uses(visitor)?;
        }
        if let Some(sorted) = &self.sorted {
            read(visitor, &sorted.as_slice())?;
        }
        if let Some(radii) = radii {
            read(visitor, radii)?;
        }
        groups.as_ref().map_or(Ok(()), |groups| read(visitor, groups))
    }
}
