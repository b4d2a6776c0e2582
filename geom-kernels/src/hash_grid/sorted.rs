//! Queries, sorted by the cells of a grid: threads that work side by side then look at the same points.

use bytemuck::Pod;
use cuda_safe::{Access, DeviceBuffer, DeviceSlice, Result, Stream};

use super::HashGrid;
use super::build::COUNTED;
use super::frame::bits_below;
use crate::algorithms::{Buffers, Digits, Layout, RESULT_AT};
use crate::lengths::{cover, cover_many};
use crate::part::{Part, read_part, scratch};
use crate::points::{Points, PointsArg};
use crate::real::Real;

impl<T: Real> HashGrid<T> {
    /// The points, in the order of the cells that they are in, each with its index: `geom::GridPoint`s.
    pub(crate) fn sort_queries(
        &self,
        stream: &Stream,
        points: Points<'_, T>,
        groups: Option<DeviceSlice<'_, u32>>,
    ) -> Result<DeviceBuffer<u8>> {
        let n = points.len();
        let arg = PointsArg::new(points, groups)?;
        let sorted = uninit::<u8>(stream, n * T::POINT_SIZE)?;
        let mut first = uninit::<u32>(stream, n)?;
        let mut second = uninit::<u32>(stream, n)?;
        let places = [first.as_slice_mut(), second.as_slice_mut()];
        let sort = self.sort.kernels();
        let header = || self.memory.read(&self.memory.header);
        // Where the places are after the sort, and, if only the device knows, the sort's state.
        let (at, state) = if self.memory.capacity.bounded {
            // As many cells as there may be: more bits than needed, but known here.
            let bits = bits_below(u64::from(self.memory.capacity.cells()) + 1);
            let digits = Digits::new(0, bits);
            let layout = Layout::new::<u32>(n, digits)?;
            let mut state = uninit::<u32>(stream, layout.words())?;
            let (mut keys, mut others) = (uninit::<u32>(stream, n)?, uninit::<u32>(stream, n)?);
            sort.clear(stream, &layout, &mut state.as_slice_mut())?;
            // SAFETY: reads the header, writes a key for each point, and counts digits in the state.
            unsafe {
                let args = (header(), arg, &mut keys, digits, &mut state);
                self.kernels.short_keys()?.launch(stream, cover_many(n), args)?;
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
                let args = (header(), arg, &mut keys, digits, &mut state);
                self.kernels.unbounded()?.keys.launch(stream, cover_many(n), args)?;
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
            let args = (arg, read_part(which), from, other, out);
            self.kernels.order()?.launch(stream, cover(n), args)?;
        }
        Ok(sorted)
    }
}

/// Memory of the stream, for what this module writes before it is read.
fn uninit<E: Pod>(stream: &Stream, len: usize) -> Result<DeviceBuffer<E>> {
    // SAFETY: keys and places are written before the sort reads them, its state is cleared, and the points
    // are written before they are given to anybody.
    unsafe { scratch::<E>(stream, len) }
}
