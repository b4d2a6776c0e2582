//! Building: keys, sort, and what follows from the order.

use cuda_safe::{DeviceSlice, Error, Result, Stream};

use super::HashGrid;
use super::frame::{X_SPLIT, bits_below, bounded};
use super::layout::{FrameRequest, Header};
use super::memory::{Capacity, Memory};
use crate::algorithms::{Digits, Layout, RESULT_AT, Wishes};
use crate::lengths::{cover, cover_many};
use crate::part::enqueues;
use crate::points::{Points, PointsArg};
use crate::real::Real;

/// Values are the places of keys, whose digits are counted.
pub(crate) const COUNTED: Wishes = Wishes { indices: true, counted: true };

impl<T: Real> HashGrid<T> {
    /// Makes room for `points` points, if there is less: what [`rebuild`](Self::rebuild) then needs.
    ///
    /// What is in the grid is lost if it has to grow. The memory is freed in stream order.
    ///
    /// # Errors
    /// More than [`MAX_POINTS`](super::MAX_POINTS); otherwise what the driver answered, such as out of
    /// memory.
    pub fn reserve(&mut self, stream: &Stream, points: usize) -> Result<()> {
        if self.capacity() >= points {
            return Ok(());
        }
        self.memory = Memory::new::<T>(stream, Capacity::new(&self.options, points))?;
        self.length = 0;
        Ok(())
    }

    /// Builds the grid from these points, for queries of about this radius. Memory is allocated if there
    /// is too little.
    ///
    /// `radius` chooses the size of cells, and queries may have any other; one far from it takes
    /// longer. Points that are not finite are in no cell: they are left out and counted
    /// ([`GridReport::left_out`](super::GridReport::left_out)). The grid has its own copy of the points:
    /// what becomes of them afterwards it learns by the next build. Stream-ordered; nothing is waited for.
    ///
    /// # Errors
    /// A radius that is negative or not a number, more than [`MAX_POINTS`](super::MAX_POINTS) points, a
    /// grid with groups (see [`build_grouped`](Self::build_grouped)); otherwise what the driver answered.
    pub fn build<'a>(
        &mut self,
        stream: &Stream,
        points: impl Into<Points<'a, T>>,
        radius: T,
    ) -> Result<()> {
        self.check_ungrouped()?;
        let points = self.checked(points.into(), None, radius)?;
        self.reserve(stream, points.points.len())?;
        self.rebuild_with(stream, points, radius)
    }

    /// As [`build`](Self::build), but in the memory that is reserved: nothing is allocated, so it can be
    /// recorded in a graph.
    ///
    /// # Errors
    /// As `build`; and if there are more points than reserved.
    pub fn rebuild<'a>(
        &mut self,
        stream: &Stream,
        points: impl Into<Points<'a, T>>,
        radius: T,
    ) -> Result<()> {
        self.check_ungrouped()?;
        let points = self.checked(points.into(), None, radius)?;
        self.rebuild_with(stream, points, radius)
    }

    /// As [`build`](Self::build), with the group of each point. A query sees the points of its own
    /// group alone; points of a group that the grid does not have are left out and counted.
    ///
    /// # Errors
    /// As `build`; and if there are more or fewer groups than points.
    pub fn build_grouped<'a>(
        &mut self,
        stream: &Stream,
        points: impl Into<Points<'a, T>>,
        groups: impl Into<DeviceSlice<'a, u32>>,
        radius: T,
    ) -> Result<()> {
        let points = self.checked(points.into(), Some(groups.into()), radius)?;
        self.reserve(stream, points.points.len())?;
        self.rebuild_with(stream, points, radius)
    }

    /// As [`rebuild`](Self::rebuild), with the group of each point.
    ///
    /// # Errors
    /// As `rebuild`; and if there are more or fewer groups than points.
    pub fn rebuild_grouped<'a>(
        &mut self,
        stream: &Stream,
        points: impl Into<Points<'a, T>>,
        groups: impl Into<DeviceSlice<'a, u32>>,
        radius: T,
    ) -> Result<()> {
        let points = self.checked(points.into(), Some(groups.into()), radius)?;
        self.rebuild_with(stream, points, radius)
    }

    fn check_ungrouped(&self) -> Result<()> {
        if self.options.groups == 1 {
            return Ok(());
        }
        Err(Error::invalid("the grid has groups, and the points have none")
            .with_hint("`build_grouped` and `rebuild_grouped` take the group of each point"))
    }

    /// What a build is given, checked before anything is changed.
    fn checked<'a>(
        &self,
        points: Points<'a, T>,
        groups: Option<DeviceSlice<'a, u32>>,
        radius: T,
    ) -> Result<PointsArg<'a, T>> {
        // Written so that a NaN is refused.
        let is_radius = radius.wide() >= 0.0;
        if !is_radius {
            return Err(Error::invalid(format!("{radius:?} is no radius")));
        }
        PointsArg::new(points, groups)
    }

    fn rebuild_with(&mut self, stream: &Stream, points: PointsArg<'_, T>, radius: T) -> Result<()> {
        let (reserved, n) = (self.capacity(), points.points.len());
        if n > reserved {
            return Err(Error::invalid(format!("{n} points, and room for {reserved}"))
                .with_hint("`reserve` makes room; `build` does it by itself"));
        }
        // Until all is enqueued there is nothing that queries may look at; nor does a graph that builds
        // the same grid, or moves the points, come in between.
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
        let kernels = self.kernels.build()?;
        // Keys up to `no_key`, that of points which are left out.
        let digits = Digits::new(0, bits_below(frame.no_key + 1));
        let layout = Layout::new::<u32>(n, digits)?;
        let sort = self.sort.kernels();
        memory.with_pairs::<u32, _>(n, |_, state| sort.clear(stream, &layout, state))?;
        // SAFETY: writes the header and a key for each point, and counts their digits in the state.
        unsafe {
            let (header, keys) = (memory.write(&memory.header), memory.write(&memory.keys[0]));
            let args = (frame, header, points, keys, digits, memory.write(&memory.sort));
            kernels.keys.launch(stream, cover_many(n), args)?;
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
            let header = memory.write(&memory.header);
            let args = (header, points, keys, indices, kept, groups, starts);
            kernels.finish.launch(stream, cover(n), args)
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
        let kernels = self.kernels.unbounded()?;
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
            kernels.bounds.launch(stream, cover_many(n), (points, groups, bounds.clone()))?;
            kernels.frame.launch(stream, (1, 32), (bounds, radius, request, header.clone()))?;
        }
        if n == 0 {
            return Ok(());
        }
        let mask = slots.saturating_sub(1) as u32;
        // SAFETY: clears the table of `slots`.
        unsafe {
            let table = memory.write(&memory.table);
            kernels.clear.launch(stream, cover(slots), (header, table, mask))?;
        }
        let digits = Digits::new(0, u64::BITS);
        let layout = Layout::new::<u64>(n, digits)?;
        let sort = self.sort.kernels();
        self.memory.with_pairs::<u64, _>(n, |_, state| sort.clear(stream, &layout, state))?;
        let memory = &self.memory;
        // SAFETY: writes a key for each point, and counts their digits in the state.
        unsafe {
            let (header, keys) = (memory.read(&memory.header), memory.write(&memory.keys[0]));
            let args = (header, points, keys, digits, memory.write(&memory.sort));
            kernels.keys.launch(stream, cover_many(n), args)?;
        }
        self.memory.with_pairs(n, |pairs, state| {
            sort.sort_buffers_planned::<u64>(stream, &layout, pairs, state, COUNTED)
        })?;
        let memory = &self.memory;
        // SAFETY: as with bounds; enters rows, at most as many as points, into a table of twice as many.
        unsafe {
            let keys = [memory.write(&memory.keys[0]), memory.read(&memory.keys[1])];
            let indices = [memory.read(&memory.indices[0]), memory.read(&memory.indices[1])];
            let kept = memory.write(&memory.points);
            let (groups, starts) = (memory.write(&memory.groups), memory.write(&memory.starts));
            let [first_keys, second_keys] = keys;
            let [first_indices, second_indices] = indices;
            let (header, table) = (memory.write(&memory.header), memory.write(&memory.table));
            let result = memory.sort.start + 4 * RESULT_AT;
            let args = (
                header,
                points,
                memory.read(&(result..result + 4)),
                first_keys,
                second_keys,
                first_indices,
                second_indices,
                kept,
                groups,
                starts,
                table,
                mask,
            );
            kernels.finish.launch(stream, cover(n), args)
        }
    }
}
