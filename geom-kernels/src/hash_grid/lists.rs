//! Lists of neighbours: compressed sparse rows.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Result, Stream, WriteView};

use super::batch::Query;
use super::queries::Prepared;
use super::{GridQueries, HashGrid};
use crate::lengths::same_length;
use crate::part::{enqueues, scratch};
use crate::real::Real;

/// The neighbours of each query, one list after the other.
#[derive(Debug)]
pub struct NeighborLists {
    /// The start of each list, and at the end the number of all neighbours: one more than queries.
    pub offsets: DeviceBuffer<u64>,
    /// The indices of the neighbours: those of query i are `indices[offsets[i]..offsets[i + 1]]`.
    pub indices: DeviceBuffer<u32>,
}

impl<T: Real> HashGrid<T> {
    /// Returns the neighbours of each query, in cell order, in memory that is just large enough. Waits for the
    /// number of them.
    ///
    /// # Errors
    /// As [`count_neighbors`](Self::count_neighbors); a stream that records.
    pub fn neighbor_lists(
        &self,
        stream: &Stream,
        queries: &GridQueries<'_, T>,
    ) -> Result<NeighborLists> {
        let n = queries.check(self)?;
        let prepared = self.prepare(stream, queries, n)?;
        // SAFETY: every offset is written by the scan.
        let mut offsets = unsafe { scratch::<u64>(stream, n + 1)? };
        self.write_offsets(stream, &prepared, n, offsets.as_slice_mut())?;
        let total = offsets.slice(n..)?.to_vec(stream)?;
        let total = total.first().copied().unwrap_or(0);
        let total = usize::try_from(total)
            .map_err(|_| Error::invalid(format!("{total} neighbours are too many to list")))?;
        // The buffer is zeroed, because fewer may be written than were counted if a graph that another thread
        // launches rebuilds the grid in between.
        let mut indices = DeviceBuffer::<u32>::zeroed(stream, total)?;
        self.write_indices(stream, &prepared, offsets.as_slice(), indices.as_slice_mut())?;
        Ok(NeighborLists { offsets, indices })
    }

    /// Works like [`neighbor_lists`](Self::neighbor_lists), but writes to the caller's memory, without waiting.
    ///
    /// `offsets` is always right: its last element is the number of neighbours. If `indices` is shorter, neighbours
    /// beyond its end are not written, and all others are; if it is longer, the rest is not written.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_neighbors`](Self::count_neighbors).
    pub fn neighbor_lists_into<'a>(
        &self,
        stream: &Stream,
        queries: &GridQueries<'_, T>,
        offsets: impl WriteView<'a, u64>,
        indices: impl WriteView<'a, u32>,
    ) -> Result<()> {
        let n = queries.check(self)?;
        // The views come before the enqueues, because they are calls of user code.
        let (mut offsets, indices) = (offsets.write_view(), indices.write_view());
        same_length("offsets", offsets.len(), n + 1)?;
        let prepared = self.prepare(stream, queries, n)?;
        // Both steps must see the same grid and offsets, even if graphs write to them.
        let grid = self.memory.buffer().allocation();
        enqueues(stream, [grid, offsets.allocation()]).run(|| {
            self.write_offsets(stream, &prepared, n, offsets.reborrow())?;
            self.write_indices(stream, &prepared, offsets.as_slice(), indices)
        })
    }

    fn write_offsets(
        &self,
        stream: &Stream,
        prepared: &Prepared<'_, T>,
        n: usize,
        offsets: DeviceSliceMut<'_, u64>,
    ) -> Result<()> {
        // The counts are zeroed, because queries beyond the grid's points write none: see `OneQuery` in batch.cuh.
        let mut counts = DeviceBuffer::<u32>::zeroed(stream, n)?;
        self.count(stream, prepared, &mut counts.as_slice_mut())?;
        self.geometry.algorithms().offsets(stream, &counts, offsets)
    }

    fn write_indices(
        &self,
        stream: &Stream,
        prepared: &Prepared<'_, T>,
        offsets: DeviceSlice<'_, u64>,
        indices: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        let capacity = indices.len() as u64;
        if capacity == 0 {
            return Ok(());
        }
        let (launch, pairs) = (prepared.launch(), prepared.pairs());
        let kernels = self.geometry.kernels::<Query<T>>()?;
        // SAFETY: the offsets are sums of counts: the kernel reads the offset of each query's index and the next one,
        // and writes between the two, so lists don't overlap.
        unsafe {
            kernels.list(stream, launch, self.view(), prepared, pairs, offsets, indices, capacity)
        }
    }
}
