//! Batch calls: the items that overlap each of many queries, as counts and as compressed sparse rows.

use cuda_safe::{DeviceBuffer, Result, Stream, WriteView};

use super::queries::{Kind, Ordered};
use super::{Bvh, BvhQueries, BvhView};
use crate::geometry::Source;
use crate::part::Part;
use crate::rows::{Find, Rows};

/// Declares kernels that count and that list the items that overlap queries, and more kernels of the same source.
macro_rules! overlap_kernels {
    (
        $visibility:vis struct $name:ident in $source:expr, $prefix:literal, $view:ty;
        $($count:ident, $list:ident;)+
        $({ $($more:tt)+ })?
    ) => {
        cuda_safe::kernels! {
            #[name = $prefix]
            $visibility struct $name;
            // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks. Those that count write a count
            // for each query, at its own index. Those that list read the offset of each query and the one after
            // it, and read and write from the one to the other, as far as there are elements.
            unsafe in $source {
                $(
                    /// # Safety
                    /// The queries are of the kind in the name, and there is a count for each.
                    unsafe fn $count(scene: $view, queries: &$crate::bvh::Ordered<'_>, counts: &mut [u32]);
                    /// # Safety
                    /// The queries are of the kind in the name. There is an offset more than queries, and they
                    /// ascend.
                    unsafe fn $list(
                        scene: $view,
                        queries: &$crate::bvh::Ordered<'_>,
                        offsets: &[u64],
                        indices: &mut [u32],
                        capacity: u64,
                    ) where capacity <= indices.len();
                )+
                $($($more)+)?
            }
        }
        $crate::geometry::of_source!($name, $source);
    };
}

pub(crate) use overlap_kernels;

overlap_kernels! {
    pub(super) struct Query in Source::BVH_QUERY, "bvh_{}", BvhView<'_>;
    count_boxes, list_boxes;
    count_spheres, list_spheres;
    count_rays, list_rays;
    {
        /// Writes the position of each query along a Morton curve through the bounds in the header.
        ///
        /// # Safety
        /// The queries are boxes or, if `boxes` is 0, spheres, and there is a key for each.
        unsafe fn query_keys(header: Part<'_>, queries: &Ordered<'_>, boxes: u32, keys: &mut [u32]);
    }
}

/// The items that overlap each query, one list after the other.
#[derive(Debug)]
pub struct OverlapLists {
    /// The start of each list, and at the end the number of all items: one more than queries.
    pub offsets: DeviceBuffer<u64>,
    /// The indices of the items: those of query i are `indices[offsets[i]..offsets[i + 1]]`, ascending.
    pub indices: DeviceBuffer<u32>,
}

impl Bvh {
    /// Counts the items that overlap each query.
    ///
    /// # Errors
    /// `counts` has another length than there are queries; a radius that is negative or not a number;
    /// radii of another number than queries; otherwise if the driver returns an error.
    pub fn count_overlaps<'a, 'b>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'a>>,
        counts: impl WriteView<'b, u32>,
    ) -> Result<()> {
        self.overlaps(stream, &queries.into())?.counts(counts.write_view())
    }

    /// Returns the items that overlap each query, in memory that is just large enough. Waits for the number of
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
    pub fn overlap_lists<'a>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'a>>,
    ) -> Result<OverlapLists> {
        let queries = queries.into();
        let (offsets, indices) = self.overlaps(stream, &queries)?.lists(stream, &self.tree.sort)?;
        Ok(OverlapLists { offsets, indices })
    }

    /// Works like [`overlap_lists`](Self::overlap_lists), but writes to the caller's memory, without waiting. The
    /// call can be recorded in a graph.
    ///
    /// `offsets` is always right: its last element is the number of items. If `indices` is shorter, items beyond its
    /// end are not written, and all others are; if it is longer, the rest is not written.
    ///
    /// # Errors
    /// `offsets` has not one element more than there are queries; otherwise as
    /// [`count_overlaps`](Self::count_overlaps).
    pub fn overlap_lists_into<'a, 'b, 'c>(
        &self,
        stream: &Stream,
        queries: impl Into<BvhQueries<'a>>,
        offsets: impl WriteView<'b, u64>,
        indices: impl WriteView<'c, u32>,
    ) -> Result<()> {
        let (queries, memory) = (queries.into(), self.tree.memory.buffer().allocation());
        let overlaps = self.overlaps(stream, &queries)?;
        overlaps.lists_into(stream, &self.tree.sort, memory, offsets, indices)
    }

    fn overlaps<'a>(
        &'a self,
        stream: &'a Stream,
        queries: &'a BvhQueries<'a>,
    ) -> Result<Rows<u32, impl Fn(Find<'_, u32>) -> Result<()> + 'a>> {
        let kernels = self.tree.geometry.kernels::<Query>()?;
        let (ordered, view) = (Ordered::new(stream, &self.tree, queries)?, self.view());
        let find = move |find: Find<'_, u32>| {
            let (launch, queries) = (ordered.launch(), &ordered);
            // SAFETY: the kernels are those of this kind of queries; there are as many counts and offsets as
            // `Rows` says.
            unsafe {
                match find {
                    Find::Counts(out) => {
                        let count = match queries.kind() {
                            Kind::Boxes => Query::count_boxes,
                            Kind::Spheres => Query::count_spheres,
                            Kind::Rays => Query::count_rays,
                        };
                        count(&kernels, stream, launch, view, queries, out)
                    }
                    Find::Lists(offsets, to) => {
                        let n = to.len() as u64;
                        let list = match queries.kind() {
                            Kind::Boxes => Query::list_boxes,
                            Kind::Spheres => Query::list_spheres,
                            Kind::Rays => Query::list_rays,
                        };
                        list(&kernels, stream, launch, view, queries, offsets, to, n)
                    }
                }
            }
        };
        // SAFETY: the kernels write the count of each query.
        Ok(unsafe { Rows::new(queries.len(), find) })
    }
}
