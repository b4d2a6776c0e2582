//! Hash grids: the points within a radius of a point, among millions of points that move.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::hash_grid::{GridOptions, HashGrid, GridQueries};
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let points = DeviceBuffer::from_slice(&stream, &[[0.0f32, 0.0, 0.0], [0.1, 0.0, 0.0], [5.0, 5.0, 5.0]])?;
//!
//! let grid = HashGrid::build(&stream, &GeometryKernels::new(&context), &points, 0.5, GridOptions::default())?;
//! let lists = grid.neighbor_lists(&stream, &GridQueries::at_grid_points(0.5))?;
//! assert_eq!(lists.offsets.to_vec(&stream)?, [0, 2, 4, 5]);
//! assert_eq!(lists.indices.to_vec(&stream)?, [0, 1, 0, 1, 2]);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! A point q is a neighbour of p within r if d² <= r², where d² = fma(dz, dz, fma(dy, dy, dx · dx)) and r² are
//! rounded to nearest in the type of the coordinates. A point of the grid is its own neighbour by default
//! ([`Pairs`]). Neighbours come in cell order: by rows of cells (z, then y), in a row by x, in a cell by index. In a
//! grid with hashed rows, a query that reaches more rows than there are points visits rows in the order of their
//! hashes. The order is the same on every run and every device.
//!
//! # Which grid
//! With [bounds](GridOptions::bounds), cells are numbered within them, and a table has the first point of each cell:
//! this is fastest if points fill the bounds. Points outside share the cells at the border, so many such points are
//! slow, but found correctly. Without bounds the device finds the extent of the points at each build. It makes the
//! same table while cells of the radius's size are not many more than points; otherwise rows of cells are found by
//! hashing, in any extent, and compared exactly.
//!
//! # Your own kernels
//! Use `#include <geom/hash_grid.cuh>` ([`program`](crate::program)) and a parameter `geom::HashGrid<float>`,
//! and pass [`HashGrid::view`]. With the feature `tape`, the module `tape` has an example of such a
//! kernel with an adjoint, for gradients.
//!
//! # Arrays
//! With the feature `ndarray`, an n × 3 array becomes points by `DeviceBuffer::from_array` and
//! [`Points::flat`](crate::Points::flat), and results become arrays by `DeviceBuffer::to_array`.
//!
//! # Sources
//! S. Green, Particle Simulation using CUDA, 2010 (sorted cells); R. Hoetzlein, Fast Fixed-Radius
//! Nearest Neighbors, 2014 (counting, packed points); M. Teschner et al., Optimized Spatial Hashing, 2003.

mod batch;
mod build;
pub(crate) mod frame;
pub(crate) mod layout;
mod lists;
pub(crate) mod memory;
mod queries;
mod sorted;
mod sum;
mod view;

use cuda_safe::{Error, Result, Stream};

pub use layout::{GridPoint32, GridPoint64};
pub use lists::NeighborLists;
pub use queries::{GridQueries, Pairs};
pub use sum::NeighborSum;
pub use view::GridView;

use crate::preparation::Operation;
use crate::{GeometryKernels, Real};
use layout::{DENSE, Header, ROWS};
use memory::{Capacity, Memory};

/// The options of a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridOptions<T> {
    pub(crate) bounds: Option<[[T; 3]; 2]>,
    pub(crate) periodic: [bool; 3],
    pub(crate) groups: u32,
}

impl<T> Default for GridOptions<T> {
    /// Returns options without bounds, not periodic, with all points in one group.
    fn default() -> Self {
        Self { bounds: None, periodic: [false; 3], groups: 1 }
    }
}

impl<T: Real> GridOptions<T> {
    /// Declares that points lie mostly in the box from `lower` to `upper`.
    #[must_use]
    pub fn bounds(mut self, lower: [T; 3], upper: [T; 3]) -> Self {
        self.bounds = Some([lower, upper]);
        self.periodic = [false; 3];
        self
    }

    /// Makes space periodic: it repeats in each direction with the period of the box from `lower` to `upper`.
    ///
    /// Points and queries may lie anywhere; the grid stores their images in the box, rounded as numbers of its size
    /// are. Each point is a neighbour at most once, by its nearest image (the minimum image convention), however
    /// large the radius is. Neighbours come in the order of cells around the query: those of the image before the box
    /// first.
    #[must_use]
    pub fn periodic(self, lower: [T; 3], upper: [T; 3]) -> Self {
        self.periodic_in([true; 3], lower, upper)
    }

    /// Works like [`periodic`](Self::periodic) in some directions, and with [`bounds`](Self::bounds) in the
    /// others.
    #[must_use]
    pub fn periodic_in(mut self, axes: [bool; 3], lower: [T; 3], upper: [T; 3]) -> Self {
        self.bounds = Some([lower, upper]);
        self.periodic = axes;
        self
    }

    /// Sets the number of groups. Each point belongs to a group, numbered from 0, and a query finds points of one
    /// group only.
    #[must_use]
    pub fn groups(mut self, groups: u32) -> Self {
        self.groups = groups;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        // Each group needs a table entry, and cell numbers have 31 bits.
        if self.groups == 0 || self.groups > 1 << 24 {
            return Err(Error::invalid(format!(
                "{} groups; from 1 to 2^24 are possible",
                self.groups
            )));
        }
        let Some([lower, upper]) = self.bounds else {
            return Ok(());
        };
        for axis in 0..3 {
            let (low, high) = (lower[axis].wide(), upper[axis].wide());
            let ordered = if self.periodic[axis] { low < high } else { low <= high };
            let extent = T::narrow(high - low).wide();
            // The kernels multiply by the reciprocal of a period.
            let inverse = if self.periodic[axis] { T::narrow(1.0 / extent).wide() } else { 0.0 };
            if !(ordered && extent.is_finite() && inverse.is_finite()) {
                return Err(Error::invalid(format!(
                    "bounds from {lower:?} to {upper:?}: not a box of finite extent"
                )));
            }
        }
        Ok(())
    }
}

/// A report on a built grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridReport {
    /// The number of points in the grid.
    pub points: usize,
    /// The points that were left out: not finite, or of a group that the grid does not have.
    pub left_out: usize,
    /// How cells are found.
    pub lookup: Lookup,
}

/// How a grid finds its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lookup {
    /// By a table of all cells, with their numbers in x, y and z.
    Table([u32; 3]),
    /// By a hash table of rows of cells, whose keys name them exactly.
    Rows,
    /// By a hash table of rows whose keys are hashes, followed by an exact comparison: keys have too few bits for the
    /// rows.
    HashedRows,
}

/// A hash grid of points with coordinates of type `T`.
///
/// It owns its memory, in which it can be rebuilt: with `f32`, about 40 bytes for each point with bounds and 64
/// without; with `f64`, 56 and 80 ([`HashGrid::size_bytes`]).
#[derive(Debug)]
pub struct HashGrid<T: Real> {
    geometry: GeometryKernels,
    options: GridOptions<T>,
    memory: Memory,
    /// The number of points it was built from; 0 before it is built.
    length: usize,
}

impl<T: Real> HashGrid<T> {
    /// Creates a grid without points: [`reserve`](Self::reserve) reserves memory, and [`rebuild`](Self::rebuild)
    /// builds the grid.
    ///
    /// # Errors
    /// Bounds that are no box of finite extent (with volume, where periodic), or no groups; otherwise
    /// an error of loading the kernels or of allocating.
    pub fn new(
        stream: &Stream,
        geometry: &GeometryKernels,
        options: GridOptions<T>,
    ) -> Result<Self> {
        Self::with_room(stream, geometry, 0, options)
    }

    /// Creates a grid without points, with this capacity.
    fn with_room(
        stream: &Stream,
        geometry: &GeometryKernels,
        points: usize,
        options: GridOptions<T>,
    ) -> Result<Self> {
        options.check()?;
        let capacity = Capacity::new(&options, points);
        // The kernels of builds are loaded now, because builds may be recorded; queries load theirs later.
        geometry.prepare_kernels(&[match (capacity.bounded, size_of::<T>()) {
            (true, 4) => Operation::BOUNDED_GRID_F32,
            (true, _) => Operation::BOUNDED_GRID_F64,
            (false, 4) => Operation::UNBOUNDED_GRID_F32,
            (false, _) => Operation::UNBOUNDED_GRID_F64,
        }])?;
        let (geometry, memory) = (geometry.clone(), Memory::new::<T>(stream, capacity)?);
        Ok(Self { geometry, options, memory, length: 0 })
    }

    /// Returns the grid's options.
    #[must_use]
    pub fn options(&self) -> &GridOptions<T> {
        &self.options
    }

    /// Returns the number of points that it was built from, including those left out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it was built from no points, or was not built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the capacity in points.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.capacity.points
    }

    /// Returns the bytes of device memory that it holds.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Returns the report of the last build. Waits for it.
    ///
    /// # Errors
    /// The error that the driver returns; a stream that records.
    pub fn report(&self, stream: &Stream) -> Result<GridReport> {
        let memory = &self.memory;
        let header = memory.buffer().slice(memory.header.clone())?.cast::<Header<T>>()?;
        let Some(header) = header.to_vec(stream)?.first().copied() else {
            return Err(Error::invalid("the grid has no header"));
        };
        Ok(GridReport {
            points: header.points as usize,
            left_out: header.left_out as usize,
            lookup: match header.mode {
                DENSE => Lookup::Table(header.cells),
                ROWS => Lookup::Rows,
                _ => Lookup::HashedRows,
            },
        })
    }
}
