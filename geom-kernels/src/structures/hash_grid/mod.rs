//! Hash grids on the CPU: [`hash_grid`](crate::hash_grid) describes which points are neighbours, and in which order.
//!
//! A grid of the device and one of the CPU that were built from the same points with the same capacity have the same
//! cells, so their queries return the same neighbours in the same order, with the same bits.

mod batch;
mod build;
mod cells;
mod dense_runs;
mod nearest;
mod query;
mod row_runs;

use bytemuck::Zeroable;
use cuda_safe::{Error, Result};

pub use batch::{At, GridQueries};
pub use nearest::Nearest;
pub use query::{Near, Neighbor, Neighbors};

use crate::MAX_POINTS;
use crate::hash_grid::layout::{DENSE, Header, ROWS};
use crate::hash_grid::{GridOptions, GridReport, Lookup};
use crate::structures::exact::Exact;
use build::Source;

/// A hash grid of points with coordinates of type `T`, in memory of the host.
///
/// ```
/// use geom_kernels::hash_grid::GridOptions;
/// use geom_kernels::structures::HashGrid;
/// use geom_kernels::structures::hash_grid::GridQueries;
///
/// let points = [[0.0f32, 0.0, 0.0], [0.1, 0.0, 0.0], [5.0, 5.0, 5.0]];
/// let grid = HashGrid::build(&points, 0.5, GridOptions::default())?;
///
/// // One query, with distances.
/// let sum: f32 = grid.near([0.0; 3], 0.5).map(|n| 0.25 - n.distance_squared).sum();
/// assert_eq!(sum, 0.25 + (0.25 - 0.1 * 0.1));
///
/// // Many, on all cores.
/// let lists = grid.neighbor_lists(&GridQueries::at_grid_points(0.5))?;
/// assert_eq!(lists.offsets, [0, 2, 4, 5]);
/// assert_eq!(lists.indices, [0, 1, 0, 1, 2]);
/// # Ok::<(), cuda_safe::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HashGrid<T: Exact> {
    options: GridOptions<T>,
    capacity: usize,
    header: Header<T>,
    /// The frame of a table that the device's grid does not have.
    wide: Option<Header<f64>>,
    /// The points in cell order, by axis; those that were left out come last. After them there are as many more as are
    /// tested together. All these are NaN.
    coordinates: [Vec<T>; 3],
    /// The index of each point, and its group if there are several.
    indices: Vec<u32>,
    groups: Vec<u32>,
    /// The first point of each cell, if there is a table of one kind or the other.
    starts: Vec<u32>,
    /// Else the key of each point, and the hash table of the first point of each row.
    keys: Vec<u64>,
    table: Vec<u32>,
    length: u32,
}

/// A point of a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C)]
pub struct GridPoint<T> {
    /// The position; in a periodic box that of its image.
    pub position: [T; 3],
    /// The index in the array that the grid was built from.
    pub index: u32,
    /// The index in cell order.
    pub slot: u32,
}

impl<T: Exact> HashGrid<T> {
    /// Creates a grid without points: [`reserve`](Self::reserve) sets its capacity, and [`rebuild`](Self::rebuild)
    /// builds it.
    ///
    /// # Errors
    /// Bounds that are no box of finite extent (with volume, where periodic), or no groups.
    pub fn new(options: GridOptions<T>) -> Result<Self> {
        options.check()?;
        Ok(Self {
            options,
            capacity: 0,
            header: Header::zeroed(),
            wide: None,
            coordinates: Default::default(),
            indices: Vec::new(),
            groups: Vec::new(),
            starts: Vec::new(),
            keys: Vec::new(),
            table: Vec::new(),
            length: 0,
        })
    }

    /// Sets the capacity, which determines the most cells, to at least `points`. The contents are lost if it grows.
    ///
    /// # Errors
    /// More than [`MAX_POINTS`].
    pub fn reserve(&mut self, points: usize) -> Result<()> {
        if points > MAX_POINTS {
            return Err(Error::invalid(format!("{points} points; at most 2^30 are possible")));
        }
        if points > self.capacity {
            self.capacity = points;
            self.clear();
        }
        Ok(())
    }

    /// Builds a grid from these points, for queries of about this radius.
    ///
    /// Points that are not finite are left out and counted.
    ///
    /// # Errors
    /// As [`new`](Self::new), [`reserve`](Self::reserve) and [`rebuild`](Self::rebuild).
    pub fn build(points: &[[T; 3]], radius: T, options: GridOptions<T>) -> Result<Self> {
        let mut grid = Self::new(options)?;
        grid.reserve(points.len())?;
        grid.rebuild(points, radius)?;
        Ok(grid)
    }

    /// Rebuilds the grid as [`build`](Self::build) does, with the same capacity.
    ///
    /// # Errors
    /// A radius that is negative or not a number, more points than [reserved](Self::reserve), a grid with groups.
    pub fn rebuild(&mut self, points: &[[T; 3]], radius: T) -> Result<()> {
        if self.options.groups != 1 {
            return Err(Error::invalid("the grid has groups, and the points have none")
                .with_hint("`rebuild_grouped` takes the group of each point"));
        }
        self.rebuild_with(Source { points, groups: &[] }, radius)
    }

    /// Works like [`rebuild`](Self::rebuild), with the group of each point.
    ///
    /// # Errors
    /// As `rebuild`, except for groups; and if the number of groups differs from that of points.
    pub fn rebuild_grouped(&mut self, points: &[[T; 3]], groups: &[u32], radius: T) -> Result<()> {
        if groups.len() != points.len() {
            let (groups, points) = (groups.len(), points.len());
            return Err(Error::invalid(format!("{groups} groups for {points} points")));
        }
        self.rebuild_with(Source { points, groups }, radius)
    }

    fn rebuild_with(&mut self, source: Source<'_, T>, radius: T) -> Result<()> {
        // A NaN fails this comparison, so it is refused.
        let is_radius = radius >= T::ZERO;
        if !is_radius {
            return Err(Error::invalid(format!("{radius:?} is no radius")));
        }
        let (n, capacity) = (source.points.len(), self.capacity);
        if n > capacity {
            return Err(Error::invalid(format!("{n} points, and room for {capacity}"))
                .with_hint("`reserve` makes room"));
        }
        self.build_from(source, radius);
        Ok(())
    }

    fn clear(&mut self) {
        (self.header.points, self.header.left_out, self.length) = (0, 0, 0);
        self.indices.clear();
    }

    /// Returns the grid's options.
    #[must_use]
    pub fn options(&self) -> &GridOptions<T> {
        &self.options
    }

    /// Returns the number of points that it was built from, including those left out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns whether it was built from no points, or was not built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the capacity in points.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the report of the last build.
    #[must_use]
    pub fn report(&self) -> GridReport {
        let header = &self.header;
        GridReport {
            points: header.points as usize,
            left_out: header.left_out as usize,
            lookup: match header.mode {
                DENSE => Lookup::Table(header.cells),
                ROWS => Lookup::Rows,
                _ => Lookup::HashedRows,
            },
        }
    }

    /// Returns the position of a slot; NaN beyond the last one.
    #[inline(always)]
    fn position(&self, slot: usize) -> [T; 3] {
        std::array::from_fn(|axis| self.coordinates[axis].get(slot).copied().unwrap_or(T::NAN))
    }
}
