//! Builds of a grid: keys, their sort, and the data that follows from the order.

use cuda_safe::{DeviceSlice, Error, KernelArg, Result, Stream, kernels};

use super::frame::{X_SPLIT, bits_below, bounded};
use super::layout::{FrameRequest, Header};
use super::memory::{Capacity, Memory};
use super::{GridOptions, HashGrid};
use crate::GeometryKernels;
use crate::algorithms::{Digits, Layout, RESULT_AT, Wishes};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, cover_many};
use crate::part::{Part, enqueues};
use crate::points::{Points, PointsArg};
use crate::real::{Real, source_of};

kernels! {
    #[name = "hash_grid_{}_{T}"]
    pub(super) struct Bounded<T: Real in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: they read the points, and write the header and what belongs to the index of each point.
    unsafe in source_of::<T>(Source::HASH_GRID_BUILD_F32, Source::HASH_GRID_BUILD_F64) {
        /// # Safety
        /// `header` has room for one header, `keys` for a key for each point; digits are counted in `state`, the state
        /// of a sort of the keys.
        unsafe fn bounded_keys(
            frame: Header<T>, header: Part<'_>, points: PointsArg<'_, T>, keys: Part<'_>, digits: Digits,
            state: Part<'_>,
        );
        /// # Safety
        /// There is a key and the index of a point for each point; room for a point, and a group if the part is
        /// there, for each, and in `starts` for an entry for each cell and one more.
        unsafe fn bounded_finish(
            header: Part<'_>, points: PointsArg<'_, T>, keys: Part<'_>, indices: Part<'_>, kept: Part<'_>,
            groups: Part<'_>, starts: Part<'_>,
        );
    }
}
of_source!(<T: Real> Bounded<T>, source_of::<T>(Source::HASH_GRID_BUILD_F32, Source::HASH_GRID_BUILD_F64));

kernels! {
    #[name = "hash_grid_{}_{T}"]
    pub(super) struct Unbounded<T: Real in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: they read the points, and write the bounds, the header, the table and what belongs to the index of
    // each point.
    unsafe in source_of::<T>(Source::HASH_GRID_UNBOUNDED_F32, Source::HASH_GRID_UNBOUNDED_F64) {
        /// # Safety
        /// `bounds` has six words, which are lowered by atomic operations.
        unsafe fn bounds(points: PointsArg<'_, T>, groups: u32, bounds: Part<'_>);
        /// # Safety
        /// `bounds` has six words, and `header` room for one, which is made of them.
        unsafe fn frame(bounds: Part<'_>, radius: T, request: FrameRequest, header: Part<'_>);
        /// # Safety
        /// `table` has `mask` + 1 slots.
        unsafe fn clear(header: Part<'_>, table: Part<'_>, mask: u32);
        /// # Safety
        /// `keys` has room for a key for each point; digits are counted in `state`, the state of a sort of the keys.
        unsafe fn long_keys(
            header: Part<'_>, points: PointsArg<'_, T>, keys: impl KernelArg, digits: Digits, state: impl KernelArg,
        );
        /// # Safety
        /// As for [`Bounded::bounded_finish`], with the keys and indices that `which` names; and rows, at most as many
        /// as points, are entered into a table of `mask` + 1 slots, twice as many.
        unsafe fn finish(
            header: Part<'_>, points: PointsArg<'_, T>, which: Part<'_>, first_keys: Part<'_>,
            second_keys: Part<'_>, first_indices: Part<'_>, second_indices: Part<'_>, kept: Part<'_>,
            groups: Part<'_>, starts: Part<'_>, table: Part<'_>, mask: u32,
        );
    }
}
of_source!(<T: Real> Unbounded<T>, source_of::<T>(Source::HASH_GRID_UNBOUNDED_F32, Source::HASH_GRID_UNBOUNDED_F64));

/// The values are the indices of the keys, whose digits are counted.
pub(crate) const COUNTED: Wishes = Wishes { indices: true, counted: true };

impl<T: Real> HashGrid<T> {
    /// Reserves memory for a [`rebuild`](Self::rebuild) of `points` points.
    ///
    /// The contents of the grid are lost if it has to grow. The memory is freed in stream order.
    ///
    /// # Errors
    /// More than [`MAX_POINTS`](crate::MAX_POINTS); otherwise if the driver returns an error, such as out of
    /// memory.
    pub fn reserve(&mut self, stream: &Stream, points: usize) -> Result<()> {
        if self.capacity() >= points {
            return Ok(());
        }
        self.memory = Memory::new::<T>(stream, Capacity::new(&self.options, points))?;
        self.length = 0;
        Ok(())
    }

    /// Builds a grid from these points, for queries of about this radius.
    ///
    /// `radius` determines the size of cells. Queries may have any other radius; one that is much different takes
    /// longer. Points that are not finite are in no cell: they are left out and counted
    /// ([`GridReport::left_out`](super::GridReport::left_out)). The grid copies the points, and follows their changes
    /// only at a [`rebuild`](Self::rebuild). The build is stream-ordered, and the host does not wait.
    ///
    /// # Errors
    /// As [`new`](Self::new), [`reserve`](Self::reserve) and [`rebuild`](Self::rebuild).
    pub fn build<'a>(
        stream: &Stream,
        geometry: &GeometryKernels,
        points: impl Into<Points<'a, T>>,
        radius: T,
        options: GridOptions<T>,
    ) -> Result<Self> {
        let points = points.into();
        let mut grid = Self::with_room(stream, geometry, points.len(), options)?;
        grid.rebuild(stream, points, radius)?;
        Ok(grid)
    }

    /// Rebuilds the grid as [`build`](Self::build) does, in the reserved memory: nothing is allocated, so the call
    /// can be recorded in a graph.
    ///
    /// # Errors
    /// A radius that is negative or not a number, more points than [reserved](Self::reserve), a grid with groups
    /// (see [`rebuild_grouped`](Self::rebuild_grouped)); otherwise the error that the driver returns.
    pub fn rebuild<'a>(
        &mut self,
        stream: &Stream,
        points: impl Into<Points<'a, T>>,
        radius: T,
    ) -> Result<()> {
        if self.options.groups != 1 {
            return Err(Error::invalid("the grid has groups, and the points have none")
                .with_hint("`rebuild_grouped` takes the group of each point"));
        }
        self.rebuild_with(stream, points.into(), None, radius)
    }

    /// Works like [`rebuild`](Self::rebuild), with the group of each point. A query finds only points of its group;
    /// points of a group that the grid does not have are left out and counted.
    ///
    /// # Errors
    /// As `rebuild`, except for groups; and if the number of groups differs from that of points.
    pub fn rebuild_grouped<'a>(
        &mut self,
        stream: &Stream,
        points: impl Into<Points<'a, T>>,
        groups: impl Into<DeviceSlice<'a, u32>>,
        radius: T,
    ) -> Result<()> {
        self.rebuild_with(stream, points.into(), Some(groups.into()), radius)
    }

    fn rebuild_with(
        &mut self,
        stream: &Stream,
        points: Points<'_, T>,
        groups: Option<DeviceSlice<'_, u32>>,
        radius: T,
    ) -> Result<()> {
        // A NaN fails this comparison, so it is refused.
        let is_radius = radius.wide() >= 0.0;
        if !is_radius {
            return Err(Error::invalid(format!("{radius:?} is no radius")));
        }
        let points = PointsArg::new(points, groups)?;
        let (reserved, n) = (self.capacity(), points.points.len());
        if n > reserved {
            return Err(Error::invalid(format!("{n} points, and room for {reserved}"))
                .with_hint("`reserve` makes room"));
        }
        // Queries must find no points until the whole build is enqueued. The lock keeps out a graph that builds the
        // same grid or moves the points.
        self.length = 0;
        let grid = self.memory.buffer().allocation();
        let memory = std::iter::once(grid).chain(points.allocations());
        enqueues(stream, memory).run(|| match self.options.bounds {
            Some(bounds) => {
                let capacity = self.memory.capacity.cells();
                let frame = bounded(&self.options, bounds, radius, capacity);
                self.build_bounded(stream, points, frame)
            }
            None => self.build_unbounded(stream, points, radius),
        })?;
        self.length = n;
        Ok(())
    }

    fn build_bounded(
        &mut self,
        stream: &Stream,
        points: PointsArg<'_, T>,
        frame: Header<T>,
    ) -> Result<()> {
        let (memory, n) = (&mut self.memory, points.points.len());
        let (sort, kernels) = (&self.geometry, self.geometry.kernels::<Bounded<T>>()?);
        // The largest key is `no_key`, that of points that are left out.
        let digits = Digits::new(0, bits_below(frame.no_key + 1));
        let layout = Layout::new::<u32>(n, digits)?;
        memory.with_pairs::<u32, _>(n, |_, state| sort.clear(stream, &layout, state))?;
        // SAFETY: writes the header and a key for each point, and counts their digits in the state.
        unsafe {
            let (header, keys) = (memory.write(&memory.header), memory.write(&memory.keys[0]));
            let (launch, state) = (cover_many(n), memory.write(&memory.sort));
            kernels.bounded_keys(stream, launch, frame, header, points, keys, digits, state)?;
        }
        if n == 0 {
            return Ok(());
        }
        let sorted = memory.with_pairs(n, |pairs, state| {
            sort.sort_buffers::<u32>(stream, &layout, pairs, state, COUNTED)
        })?;
        // SAFETY: reads a key and an index for each point, the indices being those of points; writes a
        // point, and a group if there are groups, for each, and an entry for each cell and one more.
        unsafe {
            let keys = memory.read(&memory.keys[sorted]);
            let indices = memory.read(&memory.indices[sorted]);
            let kept = memory.write(&memory.points);
            let (groups, starts) = (memory.write(&memory.groups), memory.write(&memory.starts));
            let (launch, header) = (cover(n), memory.write(&memory.header));
            kernels
                .bounded_finish(stream, launch, header, points, keys, indices, kept, groups, starts)
        }
    }

    fn build_unbounded(
        &mut self,
        stream: &Stream,
        points: PointsArg<'_, T>,
        radius: T,
    ) -> Result<()> {
        self.memory.clear_bounds(stream)?;
        let (memory, n) = (&self.memory, points.points.len());
        let (sort, kernels) = (&self.geometry, self.geometry.kernels::<Unbounded<T>>()?);
        let groups = self.options.groups;
        let (slots, header) = (memory.capacity.slots(), memory.write(&memory.header));
        let request = FrameRequest {
            cells_capacity: memory.capacity.cells(),
            groups,
            x_split: X_SPLIT,
            unused: 0,
        };
        // SAFETY: each lowers six words by atomic operations, or makes a header of them.
        unsafe {
            let bounds = memory.write(&memory.bounds);
            kernels.bounds(stream, cover_many(n), points, groups, bounds.clone())?;
            kernels.frame(stream, (1, 32), bounds, radius, request, header.clone())?;
        }
        if n == 0 {
            return Ok(());
        }
        let mask = slots.saturating_sub(1) as u32;
        // SAFETY: clears the table of `slots`.
        unsafe {
            let table = memory.write(&memory.table);
            kernels.clear(stream, cover(slots), header, table, mask)?;
        }
        let digits = Digits::new(0, u64::BITS);
        let layout = Layout::new::<u64>(n, digits)?;
        self.memory.with_pairs::<u64, _>(n, |_, state| sort.clear(stream, &layout, state))?;
        let memory = &self.memory;
        // SAFETY: writes a key for each point, and counts their digits in the state.
        unsafe {
            let (header, keys) = (memory.read(&memory.header), memory.write(&memory.keys[0]));
            let (launch, state) = (cover_many(n), memory.write(&memory.sort));
            kernels.long_keys(stream, launch, header, points, keys, digits, state)?;
        }
        self.memory.with_pairs(n, |pairs, state| {
            sort.sort_buffers_planned::<u64>(stream, &layout, pairs, state, COUNTED)
        })?;
        let memory = &self.memory;
        // SAFETY: as with bounds; enters rows, at most as many as points, into a table of twice as many.
        unsafe {
            let result = memory.sort.start + 4 * RESULT_AT;
            kernels.finish(
                stream,
                cover(n),
                memory.write(&memory.header),
                points,
                memory.read(&(result..result + 4)),
                memory.write(&memory.keys[0]),
                memory.read(&memory.keys[1]),
                memory.read(&memory.indices[0]),
                memory.read(&memory.indices[1]),
                memory.write(&memory.points),
                memory.write(&memory.groups),
                memory.write(&memory.starts),
                memory.write(&memory.table),
                mask,
            )
        }
    }
}
