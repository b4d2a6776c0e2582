//! Queries sorted by the cells of a grid, so that neighbouring threads read the same points.

use bytemuck::Pod;
use cuda_safe::{Access, DeviceBuffer, DeviceSlice, Result, Stream, kernels};

use super::HashGrid;
use super::build::{COUNTED, Unbounded};
use super::frame::bits_below;
use super::layout::point_size;
use crate::algorithms::{Buffers, Digits, Layout, RESULT_AT};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, cover_many};
use crate::part::{Maybe, Part, scratch};
use crate::points::{Points, PointsArg};
use crate::real::{Real, source_of};

kernels! {
    #[name = "hash_grid_{}_{T}"]
    struct Order<T: Real in [f32 = "f32", f64 = "f64"]>;
    // SAFETY: they read the header and the points, and write what belongs to the index of each.
    unsafe in source_of::<T>(Source::HASH_GRID_ORDER_F32, Source::HASH_GRID_ORDER_F64) {
        /// # Safety
        /// `keys` has an element for each point; digits are counted in `state`, the state of a sort of the keys.
        unsafe fn short_keys(
            header: Part<'_>, points: PointsArg<'_, T>, keys: &mut [u32], digits: Digits, state: &mut [u32],
        );
        /// # Safety
        /// `first`, or `second` if `which` is there and not 0, has an index of a point for each, and `out` room for a
        /// `geom::GridPoint` for each.
        unsafe fn order(
            points: PointsArg<'_, T>, which: Maybe<'_, u32>, first: &[u32], second: &[u32], out: Part<'_>,
        );
    }
}
of_source!(<T: Real> Order<T>, source_of::<T>(Source::HASH_GRID_ORDER_F32, Source::HASH_GRID_ORDER_F64));

impl<T: Real> HashGrid<T> {
    /// Returns the points with their indices (`geom::GridPoint`s), in the order of their cells.
    pub(crate) fn sort_queries(
        &self,
        stream: &Stream,
        points: Points<'_, T>,
        groups: Option<DeviceSlice<'_, u32>>,
    ) -> Result<DeviceBuffer<u8>> {
        let n = points.len();
        let arg = PointsArg::new(points, groups)?;
        let sorted = uninit::<u8>(stream, n * point_size::<T>())?;
        let mut first = uninit::<u32>(stream, n)?;
        let mut second = uninit::<u32>(stream, n)?;
        let places = [first.as_slice_mut(), second.as_slice_mut()];
        let sort = &self.geometry;
        let order = sort.kernels::<Order<T>>()?;
        let header = || self.memory.read(&self.memory.header);
        // `at` is the buffer with the sorted indices; if only the device knows it, `state` is the sort's state.
        let (at, state) = if self.memory.capacity.bounded {
            // The bits are those of the capacity in cells: more than needed, but known here.
            let bits = bits_below(u64::from(self.memory.capacity.cells()) + 1);
            let digits = Digits::new(0, bits);
            let layout = Layout::new::<u32>(n, digits)?;
            let mut state = uninit::<u32>(stream, layout.words())?;
            let (mut keys, mut others) = (uninit::<u32>(stream, n)?, uninit::<u32>(stream, n)?);
            sort.clear(stream, &layout, &mut state.as_slice_mut())?;
            // SAFETY: reads the header, writes a key for each point, and counts digits in the state.
            unsafe {
                order.short_keys(
                    stream,
                    cover_many(n),
                    header(),
                    arg,
                    &mut keys,
                    digits,
                    &mut state,
                )?;
            }
            let keys = [keys.as_slice_mut(), others.as_slice_mut()];
            let mut pairs = Buffers { keys, values: places };
            let state = &mut state.as_slice_mut();
            (sort.sort_buffers(stream, &layout, &mut pairs, state, COUNTED)?, None)
        } else {
            let digits = Digits::new(0, u64::BITS);
            let layout = Layout::new::<u64>(n, digits)?;
            let mut state = uninit::<u32>(stream, layout.words())?;
            let (mut keys, mut others) = (uninit::<u64>(stream, n)?, uninit::<u64>(stream, n)?);
            sort.clear(stream, &layout, &mut state.as_slice_mut())?;
            // SAFETY: as above.
            unsafe {
                let (kernels, keys) = (sort.kernels::<Unbounded<T>>()?, &mut keys);
                kernels.long_keys(
                    stream,
                    cover_many(n),
                    header(),
                    arg,
                    keys,
                    digits,
                    &mut state,
                )?;
            }
            let keys = [keys.as_slice_mut(), others.as_slice_mut()];
            let mut pairs = Buffers { keys, values: places };
            let words = &mut state.as_slice_mut();
            sort.sort_buffers_planned(stream, &layout, &mut pairs, words, COUNTED)?;
            (0, Some(state))
        };
        let (from, other) = if at == 0 { (&first, &second) } else { (&second, &first) };
        let which = state.as_ref().map(|state| state.slice(RESULT_AT..=RESULT_AT)).transpose()?;
        // SAFETY: reads an index for each point, from where `which` says if it is there; they are those of
        // points. Writes a point for each.
        unsafe {
            let out = Part::of(&sorted, 0..sorted.len(), Access::Write);
            order.order(stream, cover(n), arg, Maybe(which), from, other, out)?;
        }
        Ok(sorted)
    }
}

/// Returns uninitialised memory, which this module writes before it is read.
fn uninit<E: Pod>(stream: &Stream, len: usize) -> Result<DeviceBuffer<E>> {
    // SAFETY: keys and indices are written before the sort reads them, its state is cleared, and the points are
    // written before any other code reads them.
    unsafe { scratch::<E>(stream, len) }
}
