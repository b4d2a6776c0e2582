//! Batch calls: the items that overlap each of many queries, as numbers and as compressed sparse rows.

use cuda_safe::{
    DeviceBuffer, DeviceSlice, DeviceSliceMut, Error, Kernel, KernelArg, Result, Stream, WriteView,
};

use super::build::Tree;
use super::queries::Ordered;
use super::{Bvh, BvhQueries, BvhView};
use crate::lengths::same_length;
use crate::part::{enqueues, scratch};

/// The items that overlap each query, one list after the other.
#[derive(Debug)]
pub struct OverlapLists {
    /// Where each list begins, and at the end how many items there are in all: one more than queries.
    pub offsets: DeviceBuffer<u64>,
    /// The indices of the items: those of query i are `indices[offsets[i]..offsets[i + 1]]`, ascending.
    pub indices: DeviceBuffer<u32>,
}

impl Bvh {
    /// The number of items that overlap each query.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; a radius that is negative or not a number;
    /// radii of another number than queries; otherwise what the driver answered.
    pub fn count_overlaps<'q, 'b>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'q>>,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        self.overlaps(stream, &queries.into())?.counts(stream, counts.write_view())
    }

    /// The items that overlap each query, in memory that is just large enough. Waits for the number of
    /// them.
    ///
    /// Each list is ascending, so lists are the same for every hierarchy of the same boxes.
    ///
    /// ```no_run
    /// # use cuda_safe::{Context, DeviceBuffer};
    /// # use geom_kernels::bvh::{BuildMode, Bvh, BvhQueries};
    /// # use geom_kernels::{Aabb, GeometryKernels, Ray};
    /// # let context = Context::new(0)?;
    /// # let stream = context.stream()?;
    /// let unit = |x| Aabb { lower: [x, 0.0f32, 0.0], upper: [x + 1.0, 1.0, 1.0] };
    /// let boxes = DeviceBuffer::from_slice(&stream, &[unit(0.0), unit(1.0), unit(5.0)])?;
    /// let bvh = Bvh::build(&stream, &GeometryKernels::new(&context), &boxes, BuildMode::default())?;
    ///
    /// // Which boxes touch which: each also itself.
    /// let lists = bvh.overlap_lists(&stream, &boxes)?;
    /// assert_eq!(lists.offsets.to_vec(&stream)?, [0, 2, 4, 5]);
    /// assert_eq!(lists.indices.to_vec(&stream)?, [0, 1, 0, 1, 2]);
    ///
    /// let rays = DeviceBuffer::from_slice(&stream, &[Ray::new([-1.0, 0.5, 0.5], [1.0, 0.0, 0.0])])?;
    /// let lists = bvh.overlap_lists(&stream, BvhQueries::rays(&rays))?;
    /// assert_eq!(lists.indices.to_vec(&stream)?, [0, 1, 2]);
    /// # Ok::<(), cuda_safe::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`count_overlaps`](Self::count_overlaps); a stream that records.
    pub fn overlap_lists<'q>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'q>>,
    ) -> Result<OverlapLists> {
        self.overlaps(stream, &queries.into())?.lists(stream)
    }

    /// As [`overlap_lists`](Self::overlap_lists), but into memory of the caller's, without waiting: it can
    /// be recorded in a graph.
    ///
    /// `offsets` is always right: its last element is how many items there are. If `indices` is shorter,
    /// then the items with places beyond its end are not written, and all others are; if it is longer, the
    /// rest is left as it is.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_overlaps`](Self::count_overlaps).
    pub fn overlap_lists_into<'q, 'b>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'q>>,
        offsets: impl WriteView<'b, u64>,
        indices: impl WriteView<'b, u32>,
    ) -> Result<()> {
        self.overlaps(stream, &queries.into())?.lists_into(
            stream,
            offsets.write_view(),
            indices.write_view(),
        )
    }

    fn overlaps<'a>(
        &'a self,
        stream: &Stream,
        queries: &'a BvhQueries<'a>,
    ) -> Result<Overlaps<'a, BvhView<'a>>> {
        let [count, list] = self.tree.kernels.queries(queries.kind())?;
        // SAFETY: the kernels are those of a hierarchy and of this kind of queries.
        unsafe { Overlaps::new(stream, &self.tree, self.view(), [count, list], queries) }
    }
}

/// What is asked of a hierarchy, or of what has one.
pub(crate) struct Overlaps<'a, V> {
    tree: &'a Tree,
    view: V,
    count: &'a Kernel,
    list: &'a Kernel,
    queries: &'a BvhQueries<'a>,
    ordered: Ordered<'a>,
    n: usize,
}

impl<'a, V: KernelArg + Copy> Overlaps<'a, V> {
    /// Checks the queries, and sorts them if that pays.
    ///
    /// # Safety
    /// The kernels take the view and queries of that kind. The first one, then `u32*`, writes a count for
    /// each query; the second one, then the offsets, `u32*` and how many elements that has, reads the offset
    /// of each query and the one after it, and reads and writes from the one to the other, as far as there
    /// are elements.
    pub(crate) unsafe fn new(
        stream: &Stream,
        tree: &'a Tree,
        view: V,
        [count, list]: [&'a Kernel; 2],
        queries: &'a BvhQueries<'a>,
    ) -> Result<Self> {
        let n = queries.check()?;
        let ordered = Ordered::new(stream, tree, queries)?;
        Ok(Self { tree, view, count, list, queries, ordered, n })
    }

    pub(crate) fn counts(
        &self,
        stream: &Stream,
        mut counts: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        same_length("counts", counts.len(), self.n)?;
        let args = (self.view, &self.ordered, &mut counts);
        // SAFETY: `new`: each query writes the count of its own index, if that is below their number.
        unsafe { self.count.launch(stream, self.queries.launch(), args) }
    }

    pub(crate) fn lists(&self, stream: &Stream) -> Result<OverlapLists> {
        // SAFETY: every offset is written by the scan.
        let mut offsets = unsafe { scratch::<u64>(stream, self.n + 1)? };
        self.write_offsets(stream, offsets.as_slice_mut())?;
        let total = offsets.slice(self.n..)?.to_vec(stream)?;
        let total = total.first().copied().unwrap_or(0);
        let total = usize::try_from(total)
            .map_err(|_| Error::invalid(format!("{total} items are too many to list")))?;
        // As many are written as the counts said, unless a graph that another thread launches builds the
        // hierarchy anew in between.
        let mut indices = DeviceBuffer::<u32>::zeroed(stream, total)?;
        self.write_indices(stream, offsets.as_slice(), indices.as_slice_mut())?;
        Ok(OverlapLists { offsets, indices })
    }

    pub(crate) fn lists_into(
        &self,
        stream: &Stream,
        mut offsets: DeviceSliceMut<'_, u64>,
        indices: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        same_length("offsets", offsets.len(), self.n + 1)?;
        // Counted and listed in the same hierarchy, and as the offsets say, also if graphs write to them.
        let tree = self.tree.memory.buffer().allocation();
        enqueues(stream, [tree, offsets.allocation()]).run(|| {
            self.write_offsets(stream, offsets.reborrow())?;
            self.write_indices(stream, offsets.as_slice(), indices)
        })
    }

    fn write_offsets(&self, stream: &Stream, offsets: DeviceSliceMut<'_, u64>) -> Result<()> {
        // SAFETY: every count is written by the kernel.
        let mut counts = unsafe { scratch::<u32>(stream, self.n)? };
        self.counts(stream, counts.as_slice_mut())?;
        self.tree.sort.offsets(stream, &counts, offsets)
    }

    fn write_indices(
        &self,
        stream: &Stream,
        offsets: DeviceSlice<'_, u64>,
        mut indices: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        let capacity = indices.len() as u64;
        if capacity == 0 {
            return Ok(());
        }
        let args = (self.view, &self.ordered, offsets, &mut indices, capacity);
        // SAFETY: `new`: so lists don't overlap.
        unsafe { self.list.launch(stream, self.queries.launch(), args) }
    }
}
