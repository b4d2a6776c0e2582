//! Queries with any number of results each: compressed sparse rows.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_safe::{
    Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Result, Stream, WriteView,
};

use crate::algorithms::Algorithms;
use crate::lengths::same_length;
use crate::part::{enqueues, scratch};

/// The output of a launch over all queries.
pub(crate) enum Find<'a, T> {
    /// The number of results of each query.
    Counts(DeviceSliceMut<'a, u32>),
    /// The results of each query, from its offset to the next one, up to the number of elements.
    Lists(DeviceSlice<'a, u64>, DeviceSliceMut<'a, T>),
}

/// The queries of one call, and the function that launches them.
pub(crate) struct Rows<T, F> {
    n: usize,
    find: F,
    results: PhantomData<T>,
}

impl<T: Pod, F: Fn(Find<'_, T>) -> Result<()>> Rows<T, F> {
    /// Creates the rows of `n` queries.
    ///
    /// # Safety
    /// `find` writes all `n` counts. It may rely on ascending offsets.
    pub(crate) unsafe fn new(n: usize, find: F) -> Self {
        Self { n, find, results: PhantomData }
    }

    /// Writes the number of results of each query.
    pub(crate) fn counts(&self, counts: DeviceSliceMut<'_, u32>) -> Result<()> {
        same_length("counts", counts.len(), self.n)?;
        (self.find)(Find::Counts(counts))
    }

    /// Returns offsets and results, in memory that is just large enough. Waits for their number.
    pub(crate) fn lists(
        &self,
        stream: &Stream,
        sort: &Algorithms<'_>,
    ) -> Result<(DeviceBuffer<u64>, DeviceBuffer<T>)> {
        // SAFETY: the scan writes every offset.
        let mut offsets = unsafe { scratch::<u64>(stream, self.n + 1)? };
        self.write_offsets(stream, sort, offsets.as_slice_mut())?;
        let total = offsets.slice(self.n..)?.to_vec(stream)?;
        let total = total.first().copied().unwrap_or(0);
        let total = usize::try_from(total)
            .map_err(|_| Error::invalid(format!("{total} results are too many to list")))?;
        // The buffer is zeroed, because fewer results may be written than were counted if a graph that another thread
        // launches changes the searched memory in between.
        let mut results = DeviceBuffer::<T>::zeroed(stream, total)?;
        self.write_lists(offsets.as_slice(), results.as_slice_mut())?;
        Ok((offsets, results))
    }

    /// Writes offsets, and as many results as there are elements. `searched` is the memory that is searched.
    pub(crate) fn lists_into<'a, 'b>(
        &self,
        stream: &Stream,
        sort: &Algorithms<'_>,
        searched: &Arc<Allocation>,
        offsets: impl WriteView<'a, u64>,
        results: impl WriteView<'b, T>,
    ) -> Result<()> {
        // The views come before the enqueues, because they are calls of user code.
        let (mut offsets, results) = (offsets.write_view(), results.write_view());
        same_length("offsets", offsets.len(), self.n + 1)?;
        // Both steps must see the same state and offsets, even if graphs write to them.
        enqueues(stream, [searched, offsets.allocation()]).run(|| {
            self.write_offsets(stream, sort, offsets.reborrow())?;
            self.write_lists(offsets.as_slice(), results)
        })
    }

    fn write_offsets(
        &self,
        stream: &Stream,
        sort: &Algorithms<'_>,
        offsets: DeviceSliceMut<'_, u64>,
    ) -> Result<()> {
        // SAFETY: `find` writes every count.
        let mut counts = unsafe { scratch::<u32>(stream, self.n)? };
        (self.find)(Find::Counts(counts.as_slice_mut()))?;
        sort.offsets(stream, &counts, offsets)
    }

    fn write_lists(
        &self,
        offsets: DeviceSlice<'_, u64>,
        results: DeviceSliceMut<'_, T>,
    ) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        (self.find)(Find::Lists(offsets, results))
    }
}
